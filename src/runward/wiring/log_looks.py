"""One look after another at a log that is only read on: has the wanted line come, did it end badly, which step?"""

import re
from collections.abc import Callable
from typing import NamedTuple

from runward.core import errors

MET, ENDED, LATER = "met", "ended", "later"
_WINDOW = 1 << 20
_OVERLAP = 8192
_DONE = re.compile(
    rb"QUEUE DONE|Training completed|runward chain: (?:all \d+ stages done|begins|stopped|DISK_GATE_ABORT)"
)
_BAD = re.compile(r"(?i)cell\(s\) FAILED|FAILED:|runward chain: (?:stopped|DISK_GATE_ABORT)")
_CHAIN, _CHAIN_RUNS = "runward chain: ", "runward chain: begins"
"""What a chain says of itself stands above what its stages print into the same log."""
_STEP = re.compile(rb"(?i)(?:^|[^a-z])(?:global[_ ]?step|step|iteration|iter)[ =:/#]*(\d{1,12})")
_PROGRESS = re.compile(rb"(?i)epoch[ =:/]*\d|(?:iteration|step|iter)[ =:/#]*\d|\d+/\d+ \[")
_CRASH = re.compile(
    rb"(?m)^(?:\[[^\]\n]*\]:? ?)*(?:Traceback \(most recent call last\)"
    rb"|(?:[A-Za-z_]+\.)*[A-Za-z_]*(?:Error|Exception)(?::|$)"
    rb"|[A-Za-z_.]*OutOfMemory|Killed *$|Segmentation fault)|CUDA out of memory"
)
Read = Callable[[int, int], bytes]
"""At most so many bytes from an offset."""


class _Seen(NamedTuple):
    """What stood in the bytes so far; offsets in the file, -1: nothing."""

    found_at: int = -1
    found: str = ""
    highest: int = -1
    moved_at: int = -1
    done_at: int = -1
    done: str = ""


class Log:
    """A log and what it is read for: `done`, `failed`, `step>=N`, else a regular expression. Memory is bounded."""

    def __init__(self, read: Read, condition: str) -> None:
        self._read = read
        self._condition = condition
        self._step = wanted_step(condition)
        named = {"done": _DONE, "failed": _CRASH}
        self._wanted = named.get(condition) or (_STEP if self._step is not None else pattern(condition))
        self._begin()

    def _begin(self) -> None:
        self._at, self._tail = 0, b""
        self._sure = self._seen = _Seen()
        """Of whole lines; with the last line as far as it is written."""

    def look(self) -> tuple[str, str]:
        """Read what has come since the last look: the word and why. Raises what reading raises."""
        before = self._at
        while self._more():
            pass
        grows = self._at != before and self._seen != self._sure
        return (LATER, "the last line is being written") if grows else self._judge()

    def _more(self) -> bool:
        """Take one window; whether another may follow. A log that was written anew is begun again."""
        start = self._at - len(self._tail)
        data = self._read(start, _WINDOW)
        if not data.startswith(self._tail):
            self._begin()
            start, data = 0, self._read(0, _WINDOW)
        cut = data.rfind(b"\n") + 1
        kept = max(0, cut - 1)  # with the byte before: it says where lines begin
        if len(data) - cut > _OVERLAP:  # a line without end: taken piece by piece
            cut, kept = len(data), len(data) - _OVERLAP
        self._sure = self._take(self._sure, start, data[:cut])
        self._seen = self._take(self._sure, start, data) if cut < len(data) else self._sure
        self._at = start + len(data)
        self._tail = data[kept:]
        return len(data) == _WINDOW

    def _take(self, seen: _Seen, start: int, data: bytes) -> _Seen:
        known = 1 if start else 0
        for match in self._wanted.finditer(data, known):
            if _beneath(seen.found, match):
                continue
            seen = seen._replace(found_at=start + match.start(), found=_line(data, match))
            if self._step is not None:
                seen = seen._replace(highest=max(seen.highest, int(match[1])))
        if self._condition != "failed":
            return seen
        for match in _PROGRESS.finditer(data, known):
            seen = seen._replace(moved_at=start + match.start())
        for match in _DONE.finditer(data, known):
            if _beneath(seen.done, match):
                continue
            seen = seen._replace(done_at=start + match.start(), done=_line(data, match))
        return seen

    def _judge(self) -> tuple[str, str]:
        seen = self._seen
        if self._step is not None:
            word = MET if seen.highest >= self._step else LATER
            return word, f"step {seen.highest}" if seen.highest >= 0 else "no step yet"
        if self._condition == "failed":
            return _failed(seen)
        if seen.found_at < 0:
            return LATER, "no marker yet"
        if self._condition == "done" and _CHAIN_RUNS in seen.found:
            return LATER, "the chain runs"
        if self._condition == "done" and _BAD.search(seen.found):
            return ENDED, f"ended, but not well: {seen.found.strip()[:200]}"
        return MET, "DONE marker found"


def _beneath(kept: str, match: re.Match[bytes]) -> bool:
    return match.re is _DONE and _CHAIN in kept and not match[0].startswith(_CHAIN.encode())


def _failed(seen: _Seen) -> tuple[str, str]:
    """A crash is the last thing said, or the end tells of failed parts; a good end ends the wait."""
    if seen.found_at > max(seen.moved_at, seen.done_at):
        return MET, f"crashed: {seen.found.strip()[:200]}"
    if _CHAIN_RUNS in seen.done:
        return LATER, "the chain runs"
    if seen.done_at >= 0:
        return MET if _BAD.search(seen.done) else ENDED, f"it ended: {seen.done.strip()[:200]}"
    return LATER, "no crash yet"


def wanted_step(condition: str) -> int | None:
    """N of `step>=N`.

    >>> wanted_step("step>=120"), wanted_step("step >= 5"), wanted_step("done")
    (120, 5, None)
    """
    match = re.fullmatch(r"step\s*>=\s*(\d{1,12})", condition)
    return int(match[1]) if match else None


def pattern(text: str) -> re.Pattern[bytes]:
    """A user's regular expression. Raises UsageError."""
    try:
        return re.compile(text.encode("utf-8", "surrogateescape"))
    except re.error as error:
        raise errors.UsageError(
            errors.Problem(f"{text!r} is no condition: {error}", where="--until")
        ) from None


def search(read: Read, wanted: re.Pattern[bytes]) -> bool:
    """Whether it stands anywhere in the file, in bounded memory."""
    at, kept = 0, b""
    while True:
        data = read(at, _WINDOW)
        if wanted.search(kept + data):
            return True
        if len(data) < _WINDOW:
            return False
        at += len(data)
        kept = data[-_OVERLAP:]


def _line(data: bytes, match: re.Match[bytes]) -> str:
    begin = data.rfind(b"\n", 0, match.start()) + 1
    end = data.find(b"\n", match.end())
    return data[begin : end if end >= 0 else len(data)][:4000].decode("utf-8", "replace")
