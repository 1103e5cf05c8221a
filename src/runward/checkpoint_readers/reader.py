"""One checkpoint by itself: what kind it is, and what its own files say about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from runward.checkpoint_readers import content, dcp, findings, hashes, parts
from runward.checkpoint_readers.content import Content
from runward.checkpoint_readers.files import Tree, View
from runward.checkpoint_readers.pace import OutOfTime, Pace

_ZERO_FILE = re.compile(
    r"(?:.*/)?(?:(?:bf16_|fp16_)?zero_pp_rank_\d+_)?mp_rank_\d+(?:_\d+)?_(?:model|optim)_states\.pt"
)
_HF_WEIGHTS = re.compile(
    r"(?:pytorch_model|model|adapter_model)[-_.0-9of]*\.(?:safetensors|bin)(?:\.index\.json)?"
)
_OPTIMIZER = re.compile(
    r"optimizer(?:_\d+)?(?:\.pt|\.bin|/.*)|(?:.*/)?.*zero_pp_rank_.*_optim_states\.pt|optim.*"
)


class Reading(NamedTuple):
    """What the files of one checkpoint say."""

    kind: str
    finding: findings.Finding
    step: int | None
    """Step that stands in it, where one does."""
    formats: tuple[tuple[str, str], ...]
    """Format of every file by name: what siblings are compared with."""

    def to_json(self) -> list[object]:
        """For a file of verdicts."""
        return [self.kind, list(self.finding), self.step, [list(pair) for pair in self.formats]]


def from_json(value: Any) -> Reading | None:
    """What `to_json` made; None for anything else."""
    try:
        kind, (state, reason, checksum), step, formats = value
        finding = findings.Finding(str(state), str(reason), int(checksum))
        pairs = tuple((str(name), str(form)) for name, form in formats)
        known = state in findings.STATES and (step is None or type(step) is int)
    except (TypeError, ValueError):
        return None
    return Reading(str(kind), finding, step, pairs) if known else None


def read(tree: Tree, pace: Pace | None) -> Reading:
    """Look at one checkpoint; with a `pace` its checksums are read as far as the budget goes."""
    if tree.problems:
        finding = findings.unreadable(tree.problems[0])
        return Reading("", finding, None, ())
    try:
        reading = _read(tree, pace)
        if pace is not None and reading.finding.state == findings.COMPLETE:
            compared = hashes.compare(tree, pace)
            reading = reading if compared is None else reading._replace(finding=compared)
        return reading
    except OutOfTime:
        reading = _read(tree, None)
        left = max(reading.finding.checksum, findings.UNREAD)
        return reading._replace(finding=reading.finding._replace(checksum=left))


def _read(tree: Tree, pace: Pace | None) -> Reading:
    if tree.is_file:
        return _file(tree, pace)
    contents = {
        name: content.read(tree.path(name), name, pace)
        for name in tree.files
        if not name.endswith(".distcp") and name.rsplit("/", 1)[-1] != dcp.METADATA
    }
    kind = _kind(tree, contents)
    if not tree.files:
        return Reading("loose", findings.partial("an empty directory"), None, ())
    found = [findings.within(one.finding, name) for name, one in contents.items()]
    for folder in sorted({name.rpartition("/")[0] for name in tree.files}):
        found += _folder(tree, folder, contents, pace)
    found += _required(kind, tree, contents)
    formats = tuple(sorted((name, one.format) for name, one in contents.items()))
    return Reading(kind, findings.combine(found), _step(tree, contents), formats)


def _file(tree: Tree, pace: Pace | None) -> Reading:
    one = content.read(tree.root, tree.root.rsplit("/", 1)[-1], pace)
    finding = one.finding
    step = dict(one.values).get("global_step")
    kind = {"torch_zip": "torch_zip", "torch_legacy": "torch_zip", "safetensors": "safetensors"}.get(
        one.format, "loose"
    )
    if tree.root.endswith(".ckpt") and type(step) is int:
        kind = "lightning"
    if tree.size == 0:
        finding = findings.damaged("empty file")
    return Reading(kind, finding, step if type(step) is int else None, (("", one.format),))


def _kind(tree: Tree, contents: dict[str, Content]) -> str:
    names = set(tree.files)
    sharded = dcp.METADATA in names or any(dcp.SHARD.fullmatch(name) for name in names)
    if sharded and names & {"metadata.json", "common.pt"}:
        return "megatron"
    if "trainer_state.json" in names or (
        "training_args.bin" in names and any(map(_HF_WEIGHTS.fullmatch, names))
    ):
        return "hf_trainer"
    if any(map(_ZERO_FILE.fullmatch, names)):
        return "deepspeed"
    if sharded:
        return "dcp"
    if (
        contents
        and all(one.format in {"safetensors", "json"} for one in contents.values())
        and any(one.format == "safetensors" for one in contents.values())
    ):
        return "safetensors"
    return "loose"


def _folder(
    tree: Tree, folder: str, contents: dict[str, Content], pace: Pace | None
) -> Iterator[findings.Finding]:
    """What the files of one folder say about each other."""
    before = f"{folder}/" if folder else ""
    here = {
        name[len(before) :]: entry
        for name, entry in tree.files.items()
        if name.startswith(before) and "/" not in name[len(before) :]
    }
    shards = {name: entry for name, entry in here.items() if name.endswith(".distcp")}
    if shards or dcp.METADATA in here:
        finding = dcp.check(tree.path(folder) if folder else tree.root, shards, here.get(dcp.METADATA), pace)
        yield findings.within(finding, folder) if folder else finding
    own = {name: contents[before + name] for name in here if before + name in contents}
    for finding in parts.check(tree.path(folder) if folder else tree.root, own):
        yield findings.within(finding, folder) if folder else finding
    if "latest" in here:
        yield from _tag(tree, before)


def _tag(tree: Tree, before: str) -> Iterator[findings.Finding]:
    """A DeepSpeed tag file inside a checkpoint names a folder beside it."""
    try:
        with View(tree.path(f"{before}latest")) as view:
            tag = view.read(0, 256).decode("utf-8", "replace").strip()
    except OSError as error:
        yield findings.of_error(error, f"{before}latest")
        return
    if not any(name.startswith(f"{before}{tag}/") for name in tree.files):
        yield findings.partial(f"{before}{tag} is missing, {before}latest names it")


def _required(kind: str, tree: Tree, contents: dict[str, Content]) -> Iterator[findings.Finding]:
    """Files without which the framework cannot load its own checkpoint."""
    names = set(tree.files)
    if kind == "megatron":
        for name in ("metadata.json", "common.pt"):
            if name not in names:
                yield findings.partial(f"{name} is missing")
    if kind == "hf_trainer":
        if "trainer_state.json" not in names:
            yield findings.partial("trainer_state.json is missing, which is written last")
        sharded = any(name.endswith((".distcp", "_model_states.pt")) for name in names)
        if not sharded and not any(map(_HF_WEIGHTS.fullmatch, names)):
            yield findings.partial("no weights are there")
        if not any(map(_OPTIMIZER.fullmatch, names)):
            yield findings.complete(reason="no optimizer state is there")
    if kind == "deepspeed":
        states = [name for name in contents if name.endswith("_model_states.pt")]
        if not states:
            yield findings.partial("no model states are there")


def _step(tree: Tree, contents: dict[str, Content]) -> int | None:
    """The step that the Trainer's own state tells."""
    if "trainer_state.json" not in contents:
        return None
    try:
        with View(tree.path("trainer_state.json")) as view:
            state = content.load_json(view.read(0, 16 << 20))
    except OSError:
        return None
    step = state.get("global_step") if isinstance(state, dict) else None
    return step if type(step) is int else None
