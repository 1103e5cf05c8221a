"""What a name in a checkpoint directory says: which step, which are no checkpoints at all."""

from __future__ import annotations

import re

QUARANTINED = ".quarantined"

# Still being written, set aside, or left by an interrupted save: never a candidate.
_ASIDE = re.compile(
    r"^\.|^(?:tmp|temp)[-_.]|[-_.](?:tmp|temp|part|partial|incomplete|bak|old|trash|deleted|lock)(?:[-_.]\w*)?$"
    r"|\.orbax-checkpoint-tmp|~$",
    re.IGNORECASE,
)
_STEP = r"0*(\d{1,18})(?=$|[-_.])"
# The word that says most about a step comes first.
_WORDS = (
    re.compile(rf"(?:^|[-_.=]|(?<=[a-z0-9]))(?:global[-_]?)?steps?[-_=]?{_STEP}", re.IGNORECASE),
    re.compile(rf"(?:^|[-_.])(?:iter|iters|iteration|it)[-_=]?{_STEP}", re.IGNORECASE),
    re.compile(rf"(?:^|[-_.])(?:checkpoint|ckpt|chkpt)[-_=]?{_STEP}", re.IGNORECASE),
)
_EPOCH = re.compile(rf"(?:^|[-_.])epochs?[-_=]?{_STEP}", re.IGNORECASE)
_NUMBER = re.compile(r"0*(\d{1,18})")
_MODEL = re.compile(rf"(?:^|[-_.])(?:model|state|weights|train)[-_]{_STEP}", re.IGNORECASE)
_TENSOR_ENDS = (".pt", ".pth", ".ckpt", ".safetensors", ".npz", ".npy", ".pkl", ".bin", ".h5", ".msgpack")
_STEPLESS_ENDS = (".pt", ".pth", ".ckpt")
# Parts of a checkpoint that is the directory itself, or no training state.
_PART = re.compile(
    r"(?:optimizer|optim|scheduler|scaler|rng|rng_state|random_states|training_args|common|meta|sampler|tokenizer)"
    r"[-_.\d]*(?:\.\w+)?|.*[-_]rank[-_]?\d+.*|.*-\d{5}-of-\d{5}.*|(?:zero_pp|mp)_rank_.*",
    re.IGNORECASE,
)
POINTERS = frozenset(
    {
        "latest",
        "last",
        "latest.txt",
        "latest_checkpoint",
        "latest_checkpoint.txt",
        "last_checkpoint",
        "last_checkpoint.txt",
        "latest_checkpointed_iteration.txt",
    }
)
_LINKS = re.compile(r"(?:latest|last|newest|current)(?:[-_]?(?:checkpoint|ckpt))?(?:\.\w+)?", re.IGNORECASE)


def step_of(name: str) -> int | None:
    """The step that a checkpoint's name tells; None where it tells none (an epoch is no step)."""
    stem = _stem(name)
    for pattern in _WORDS:
        found = pattern.findall(stem)
        if found:
            return int(found[-1])
    if _EPOCH.search(stem):
        return None
    found = _MODEL.findall(stem)
    return int(found[-1]) if found else None


def is_aside(name: str) -> bool:
    """Whether the name says that this is temporary, set aside, or hidden."""
    return _ASIDE.search(name) is not None


def is_directory_checkpoint(name: str) -> bool:
    """Whether a directory of this name is one checkpoint."""
    if is_aside(name) or name in POINTERS:
        return False
    return step_of(name) is not None or _EPOCH.search(name) is not None or name.endswith(".ckpt")


def is_number(name: str) -> bool:
    """Whether the whole name is a number: what Orbax calls a step's directory."""
    return _NUMBER.fullmatch(name) is not None


def is_file_checkpoint(name: str) -> bool:
    """Whether a file of this name is one checkpoint."""
    lowered = name.lower()
    if is_aside(name) or name in POINTERS or _PART.fullmatch(name):
        return False
    named = step_of(name) is not None or _EPOCH.search(_stem(name)) is not None
    if lowered.endswith(_TENSOR_ENDS):
        return named or lowered.endswith(_STEPLESS_ENDS)
    if lowered.endswith(".json"):
        return named and lowered[:-5][-1:].isdigit()
    return named and "." not in re.sub(r"=\d+\.\d+", "", name)


def is_pointer_link(name: str) -> bool:
    """Whether a symbolic link of this name says which checkpoint is the newest."""
    return _LINKS.fullmatch(name) is not None


def _stem(name: str) -> str:
    for end in (QUARANTINED, *_TENSOR_ENDS, ".json"):
        if name.lower().endswith(end):
            name = name[: -len(end)]
    return name
