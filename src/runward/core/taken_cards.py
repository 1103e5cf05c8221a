"""GPU memory that others hold: where a run found none left, a smaller one would find none either."""

import re

from runward.core import beside, candidates, casebook, context, failures, regexes, signals, vicinity

_C, _A = failures.Cause, failures.Action
_SIZE = r"(?P<{0}>[\d.]{{1,12}}) ?(?P<{0}_unit>[KMGT])i?B"
_CAPACITY = r"total capacity of " + _SIZE.format("size")
_OWN = r"this process has " + _SIZE.format("size") + r" memory in use"
_PROCESS = r"\bProcess (?P<pid>\d{1,8}) has " + _SIZE.format("size") + r" memory in use"
_UNITS = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}
_FAR_MORE = 3.0
"""So many times as much as the process that found none holds who leaves it none."""
_SERVED = rb"(?i)\b(?:v?llm|sglang|rollout\w*|colocat\w*|inference (?:server|engine)|tgi|triton server|nim)\b"
"""Words of a run that keeps an engine of its own beside the training."""
_CONTEXT = (
    r"\bset_device\(|\b_lazy_init\(|\b_cuda_init\(|\bcudaSetDevice\b|\bcuInit\b|\bcuCtxCreate\w*|PrimaryCtxRetain"
    r"|\bcudaFree\(0\)|\bcuda\.init\("
)
"""Calls that only come to a card: they need some hundred megabytes, whatever the size of the model."""
_FRAME = 400
_USED_OF = r"(?<![\d.])(?P<used>\d{1,7}) ?(?:MiB|MB)? ?(?:used )?(?:/|of) {0,4}(?P<total>\d{2,7}) ?(?:MiB|MB)"
_EMPTY = 0.05


def action(
    chosen: candidates.Candidate, book: casebook.Casebook, ctx: context.Context
) -> failures.Action | None:
    """Another card, where others hold this one's memory or nothing of it was taken; else None."""
    if chosen.cause is not _C.GPU_OOM or chosen.entry is None:
        return None
    if _held(chosen.text, book) or (_comes_to_it(chosen, chosen.entry.signal, book) and _not_ours(ctx)):
        return _A.RESTART_ELSEWHERE
    return None


def _held(text: str, book: casebook.Casebook) -> bool:
    """Whether PyTorch names a process that holds most of the card, far more than this one, and is none of the run's."""
    capacity, own = (regexes.ready(part).search(text) for part in (_CAPACITY, _OWN))
    if capacity is None or own is None or len(book.ranks) > 1:
        return False
    held, pid = max(
        ((_mib(one), one["pid"]) for one in regexes.ready(_PROCESS).finditer(text)), default=(0.0, "")
    )
    if held <= _mib(capacity) / 2 or held < _FAR_MORE * _mib(own):
        return False
    return not any(_is_ours(pid, edges.text) for edges in book.edges.values())


def _mib(found: re.Match[str]) -> float:
    digits = found["size"]
    return float(digits) * _UNITS[found["size_unit"]] if digits.count(".") < 2 and digits != "." else 0.0


def _is_ours(pid: str, text: bytes) -> bool:
    """Whether a log names the process elsewhere, or tells of an engine that it keeps beside the training."""
    named = re.findall(
        rb"(?<![\d.])" + pid.encode() + rb"(?![\d.])(?! has [\d.]+ ?[KMGT]i?B memory in use)", text
    )
    return bool(named) or regexes.ready(_SERVED).search(text) is not None


def _comes_to_it(chosen: candidates.Candidate, signal: signals.Signal, book: casebook.Casebook) -> bool:
    """Whether the innermost frame above it only makes the card ready."""
    if "Tried to allocate" in chosen.text:
        return False
    lines = vicinity.above(signal, book)[-_FRAME:].decode("utf-8", "replace").rstrip().rsplit("\n", 2)[-2:]
    return regexes.ready(_CONTEXT).search("\n".join((*lines, chosen.text))) is not None


def _not_ours(ctx: context.Context) -> bool:
    """Whether nvidia-smi shows the card empty, or names others that hold its memory."""
    text = ctx.extra.get("nvidia_smi", "")
    rows = [(int(one["used"]), int(one["total"])) for one in regexes.ready(_USED_OF).finditer(text)]
    empty = bool(rows) and all(used <= _EMPTY * total for used, total in rows)
    return empty or beside.held_by_others(text)
