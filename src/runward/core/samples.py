"""One report of progress as a value: what a line of a log, a heartbeat file or a checkpoint's name says.

Everything here reads text that a stranger wrote: a number that cannot be read is None, never an error.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from runward.core import signals

USER_RULE = "user_progress"
"""Name under which the pattern of `--progress-regex` is compiled."""
_LARGEST = 10**15
_UNITS = {"": 1, "k": 10**3, "kb": 10**3, "kib": 2**10, "mb": 10**6, "mib": 2**20, "gb": 10**9, "gib": 2**30}
_CLOCK = re.compile(r"(?:(?P<d>\d+) days?, )?(?:(?P<h>\d+):)?(?P<m>\d+):(?P<s>\d+(?:\.\d+)?)")
_SPOKEN = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|m|s)")
_PAIR = re.compile(r"([A-Za-z_]\w*)\s*=\s*(\"[^\"]*\"|[^\s,;]+)")


class Kind(StrEnum):
    """Who says it, which decides how far its number is trusted.

    user: the user's own pattern. heartbeat: the user's file. line: a line that names a step.
    epoch: a batch within an epoch. bar: an undescribed progress bar. side: a described bar that is no
    training (download, map, shards). report: a loss without a step. mark: an epoch alone, or memory.
    checkpoint: the step in a checkpoint's name.
    """

    USER = "user"
    HEARTBEAT = "heartbeat"
    LINE = "line"
    EPOCH = "epoch"
    BAR = "bar"
    SIDE = "side"
    REPORT = "report"
    MARK = "mark"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class Memory:
    """GPU memory that the training itself printed."""

    gpu: int | None
    allocated_bytes: int | None
    reserved_bytes: int | None


@dataclass(frozen=True, slots=True)
class Sample:
    """One report of progress. Every number may be missing."""

    source: str
    """Rule name, `heartbeat` or `checkpoint`."""
    kind: Kind
    step: int | None = None
    total: int | None = None
    epoch: float | None = None
    """Counted from 0 where the format's base is known."""
    epochs: int | None = None
    loss: float | None = None
    grad_norm: float | None = None
    throughput: float | None = None
    eta_s: float | None = None
    nan_iterations: int | None = None
    unit: str | None = None
    memory: Memory | None = None
    phase: str | None = None
    """A phase that this report begins: a heartbeat's word, or `first_step` for a bar that stands at 0."""
    file: str | None = None
    offset: int | None = None
    """Byte offset of the match in `file`: the same bytes delivered twice are one report."""
    at: float | None = None
    """Wall time: the line's own stamp, else when it was read."""
    after_abort: bool = False
    """Printed after a communicator was aborted: such a step was not computed."""


def from_signal(
    signal: signals.Signal, *, after_abort: bool = False, read_at: float | None = None
) -> Sample | None:
    """The sample that a recognised progress line carries; None when it carries no usable number.

    `read_at`: its time (wall) where the line has no stamp.

    Groups: step total | batch batches epoch (from 0) epoch1 (from 1) epochs | side of | loss grad_norm
    throughput lr eta nan_iterations unit | gpu allocated allocated_unit reserved reserved_unit.
    """
    fields = signal.fields
    step, total = whole(fields.get("step")), whole(fields.get("total"))
    kind = _kind(signal.rule, fields)
    if kind is Kind.EPOCH:
        step, total = whole(fields.get("batch")), whole(fields.get("batches"))
    if kind is Kind.SIDE:
        step, total = whole(fields.get("side")), whole(fields.get("of"))
    sample = Sample(
        source=signal.rule,
        kind=kind,
        step=step,
        total=total,
        epoch=_epoch(fields),
        epochs=whole(fields.get("epochs")),
        loss=number(fields.get("loss")),
        grad_norm=number(fields.get("grad_norm")),
        throughput=number(fields.get("throughput")),
        eta_s=seconds(fields.get("eta")),
        nan_iterations=whole(fields.get("nan_iterations")),
        unit=_unit(fields.get("unit")),
        memory=_memory(fields),
        file=signal.file,
        offset=signal.offset,
        at=signal.at if signal.at is not None else read_at,
        phase="first_step" if step == 0 and kind in (Kind.BAR, Kind.EPOCH) else None,
        after_abort=after_abort,
    )
    return sample if _says_something(sample) else None


def from_heartbeat(text: str, at: float | None = None) -> Sample | None:
    """The sample of a heartbeat file: one line such as `step=12 total=100 loss=1.5 phase=checkpoint`.

    The last line that is not empty counts; unknown keys are ignored; None when no step and no phase
    can be read.
    """
    lines = [line for line in text[-4096:].splitlines() if line.strip()]
    fields = {key.lower(): value.strip('"') for key, value in _PAIR.findall(lines[-1])} if lines else {}
    step, phase = whole(fields.get("step")), fields.get("phase")
    if step is None and not phase:
        return None
    return Sample(
        source="heartbeat",
        kind=Kind.HEARTBEAT,
        step=step,
        total=whole(fields.get("total")),
        epoch=number(fields.get("epoch")),
        loss=number(fields.get("loss")),
        grad_norm=number(fields.get("grad_norm")),
        throughput=number(fields.get("throughput")),
        phase=phase or None,
        at=at,
    )


def from_checkpoint(step: int, at: float | None = None) -> Sample:
    """The sample of a complete checkpoint whose name carries a step."""
    return Sample("checkpoint", Kind.CHECKPOINT, step=step, at=at)


def user_pattern(pattern: str) -> str:
    """A user's own regex with its step in a group named `step`.

    A pattern with exactly one unnamed group gets that name. Raises ValueError with words for a person.
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    if "step" in compiled.groupindex:
        return pattern
    if compiled.groups == 1 and not compiled.groupindex:
        opening = _first_group(pattern)
        return pattern[:opening] + "(?P<step>" + pattern[opening + 1 :]
    raise ValueError(f"{pattern!r} must capture the step: write (?P<step>\\d+) where its number stands")


def number(text: str | None) -> float | None:
    """A float as frameworks print it: `1,234.5`, `6.8E+00`, `nan`, `-inf`, `tensor(1.2`; None otherwise."""
    if text is None or len(text) > 64:
        return None
    cleaned = text.strip().strip("'\"").removeprefix("tensor(").rstrip("%)").replace(",", "").lower()
    try:
        return float(cleaned)
    except ValueError:
        return None


def whole(text: str | None) -> int | None:
    """A count: `1,200`, `83.000`; None when missing, negative, broken or over 10**15."""
    value = number(text) if text else None
    if value is None or not math.isfinite(value) or value != int(value) or not 0 <= value <= _LARGEST:
        return None
    return int(value)


def seconds(text: str | None) -> float | None:
    """A duration as bars print it: `01:16`, `103:53:21`, `1 day, 3:20:01`, `2h 3m`, `12s`."""
    if not text or len(text) > 40:
        return None
    clock = _CLOCK.fullmatch(text.strip())
    if clock:
        part = {key: float(value or 0) for key, value in clock.groupdict().items()}
        return part["d"] * 86400 + part["h"] * 3600 + part["m"] * 60 + part["s"]
    spoken = _SPOKEN.findall(text)
    scale = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
    return sum(float(n) * scale[unit] for n, unit in spoken) if spoken else None


def _kind(rule: str, fields: Mapping[str, str]) -> Kind:
    if rule == USER_RULE:
        return Kind.USER
    for group, kind in (("side", Kind.SIDE), ("batch", Kind.EPOCH)):
        if fields.get(group):
            return kind
    if fields.get("step"):
        return Kind.BAR if rule.endswith("_bar") else Kind.LINE
    return Kind.REPORT if fields.get("loss") or fields.get("grad_norm") else Kind.MARK


def _unit(word: str | None) -> str | None:
    if not word:
        return None
    return "iteration" if word.lower().startswith("iter") else word.lower()


def _epoch(fields: Mapping[str, str]) -> float | None:
    from_one = number(fields.get("epoch1"))
    if from_one is not None:
        return max(0.0, from_one - 1)
    return number(fields.get("epoch"))


def _memory(fields: Mapping[str, str]) -> Memory | None:
    allocated = _size(fields.get("allocated"), fields.get("allocated_unit"))
    reserved = _size(fields.get("reserved"), fields.get("reserved_unit"))
    if allocated is None and reserved is None:
        return None
    return Memory(whole(fields.get("gpu")), allocated, reserved)


def _size(text: str | None, unit: str | None) -> int | None:
    value = number(text) if text else None
    scale = _UNITS.get((unit or "").lower())
    if value is None or scale is None or not math.isfinite(value) or not 0 <= value <= _LARGEST:
        return None
    return int(value * scale)


def _says_something(sample: Sample) -> bool:
    told = (sample.step, sample.loss, sample.grad_norm, sample.epoch, sample.memory, sample.phase)
    return told.count(None) < len(told)


def _first_group(pattern: str) -> int:
    """Where the one capturing group opens."""
    escaped = in_class = False
    for index, char in enumerate(pattern):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        elif char == "(" and pattern[index + 1 : index + 2] != "?":
            return index
    raise ValueError(f"{pattern!r} has no group")
