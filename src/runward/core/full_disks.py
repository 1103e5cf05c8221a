"""File systems that `df` shows full beside a log, and what they explain: writes that failed or came out short.

A full disk often leaves no "No space left": asynchronous and buffered writers only find short files, lose a file that
they could not create, or abort.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from runward.core import candidates, casebook, context, failures, regexes, told_values, tracebacks, vicinity

_C, _A = failures.Cause, failures.Action


class Mount(NamedTuple):
    """A file system in the words of `df`. Without a path it is the one that is meant."""

    path: str
    full: bool


_FULL = (
    r"(?i)(?<![\d.])100(?:\.0+)? ?%|(?<!not )(?<!never )\bfull\b|^\s*100(?:\.0+)?\s*$"
    r"|\b(?:use\w*|pct|percent\w*|capacity)%?[\"']?\s*[:=]\s*\"?100(?![\d.])"
    r"|(?<![\d.])0(?:\.0+)? ?(?:[KMGT]?i?B?|bytes|inodes?|blocks) ?(?:available|avail|free|left|remaining)\b"
    r"|\b(?:i?avail(?:able)?|i?free|left|remaining)(?:_\w{1,10})?[\"']?\s*[:=]\s*\"?0(?:\.0+)? ?[KMGT]?i?B?\b(?![.\d])"
)
_PATH = r"(?<![\w.:/])/(?:[\w@+-][\w.@+-]*(?:/[\w@+-][\w.@+-]*)*)?"
_NO_PLACE = r"/(?:snap|boot|run|sys|proc|media|cdrom)(?:/|$)|/dev/(?!shm\b)"
"""Where no run writes, and the names of devices."""
_SHM = "/dev/shm"  # noqa: S108 -- looked for in what others say
_PARTS = r"[;\n|]|,\s*(?=/)"
_WRITES = (
    r"(?i)\b(?:p?writ(?:e|es|ing|ten)|fwrite|sav(?:e|es|ing)|dump\w*|flush\w*|truncat\w*|short|swap\w*|swp|nbytes"
    r"|num_file_bytes|file bytes|input/output|i/o|iostream|mkdir|mkstemp|create|copy|extract\w*|unpack\w*|checkpoint\w*"
    r"|savez?|to_parquet|unable to open database|disk|compress\w*|journal|spill\w*|mmap\w*|ftruncate|fallocate|fsync)\b"
    r"|_write|write_|write\(|\.save\(|\.swp\b"
)
_OF_FILES = (
    r"\b(?:OS|IO|BlockingIO|Runtime|Operational|ArrowIO|HDF5|Zip|LMDB|lmdb\.)\w*(?:Error|Exception)\b"
    r"|\bError: .{0,40}(?:writ|creat)"
)
"""What a writer raises of a file; not of its own logic."""
_OF_SYSTEM = r"\b(?:OS|IO|BlockingIO|Operational)Error\b"
"""What a call of the system raises, whatever it is about: its own line tells that."""
_OTHERWISE = r"(?i)\bErrno (?!5\b|28\b)\d|\bstale\b|read-only|\bendpoint\b|not permitted|permission denied"
"""Words of another reason."""
_DONE = r"(?i)\b(?:saved|wrote|written|done|finished|complete\w*|took)\b"
_MAY_BE = (_C.ABORT, _C.IO_ERROR, _C.EXCEPTION, _C.UNKNOWN)
"""Causes that a full disk brings about in writers that do not name it."""
_ABOVE = 700
"""Bytes above a line in which the file that it is about is named."""


def mounts(ctx: context.Context) -> list[Mount]:
    """What `df` and `df -i` say.

    >>> said = context.from_json({"df": "/home 41% used; /scratch 0 B free", "df_i": {"/data": "100%"}})
    >>> [(one.path, one.full) for one in mounts(said)]
    [('/home', False), ('/scratch', True), ('/data', True)]
    """
    found = [one for key in ("df", "df_i") for one in _entries(ctx.extra.get(key, ""))]
    full = {one.path for one in found if one.full}
    return [one for one in found if one.full or one.path not in full]


def _entries(text: str) -> Iterator[Mount]:
    if not text:
        return
    if text[:1] in "{[":
        try:
            yield from _of_object(json.loads(text))
        except (ValueError, RecursionError):
            pass
        else:
            return
    for part in re.split(_PARTS, text):
        yield from _mount(part, part)


def _of_object(value: object) -> Iterator[Mount]:
    if isinstance(value, list):
        for one in value[:64]:
            yield from _of_object(one)
    elif isinstance(value, Mapping):
        by_path = [(key, below) for key, below in list(value.items())[:64] if str(key).startswith("/")]
        for key, below in by_path:
            yield from _mount(str(key), told_values.flat(below))
        if not by_path:
            place = told_values.inner(
                value, "mount", "mounted_on", "mountpoint", "target", "path", "Mounted on"
            )
            yield from _mount(told_values.flat(place), told_values.flat(value))
    else:
        yield from _entries(told_values.flat(value))


def _mount(named: str, text: str) -> Iterator[Mount]:
    if "Mounted on" in named and "%" not in named.partition("Mounted on")[2]:
        return
    paths = regexes.ready(_PATH).findall(named)
    places = [path for path in paths if not regexes.ready(_NO_PLACE).match(path)]
    if (paths and not places) or (not places and not re.search(r"\d|full", text)):
        return
    yield Mount(places[-1] if places else "", bool(regexes.ready(_FULL).search(text)))


def settled(
    found: list[candidates.Candidate], book: casebook.Casebook, ctx: context.Context
) -> list[candidates.Candidate]:
    """The candidates, with the full disk as the cause of what failed on it."""
    known = mounts(ctx)
    if not any(one.full for one in known) or ctx.may_be_well:
        return found
    return [_settled(one, known, book) for one in found]


def _settled(one: candidates.Candidate, known: list[Mount], book: casebook.Casebook) -> candidates.Candidate:
    if one.cause not in _MAY_BE or one.entry is None or one.weight < candidates.WRAPPER:
        return one
    place = _place(one, known, book)
    if place is None:
        return one
    where = f" ({place})" if place else ""
    if place.startswith(_SHM):
        summary = "{rank} could not write to shared memory, which is full" + where
        return one._replace(cause=_C.SHM, action=_A.CHANGE, summary=summary)
    summary = "{rank} failed in a write, and the file system is full" + where
    return one._replace(cause=_C.DISK_FULL, action=_A.HOLD, weight=max(one.weight, _SURE), summary=summary)


_SURE = 58


def _place(one: candidates.Candidate, known: list[Mount], book: casebook.Casebook) -> str | None:
    """The full file system on which it failed; None where it was another one, or none is known."""
    if one.entry is None:
        return None
    signal = one.entry.signal
    above = vicinity.above(signal, book)[-_ABOVE:].decode("utf-8", "replace")
    own = one.text[:2000] + "\n" + vicinity.below(signal, book).decode("utf-8", "replace")
    if one.traceback is not None and regexes.ready(_OF_SYSTEM).search(one.text):
        own = above[-_frames(one.traceback) :] + own
    if regexes.ready(_OTHERWISE).search(one.text):
        return None
    writes = regexes.ready(_WRITES).search(own)
    if not writes or (one.cause is _C.EXCEPTION and not regexes.ready(_OF_FILES).search(one.text)):
        return None
    on = _named_in(own, known) or _named_in(above, known)
    if on is not None:
        return on.path if on.full or _any(known) else None
    return _the_only(known)


def _frames(one: tracebacks.Traceback) -> int:
    """Bytes of a traceback above its last line."""
    return (one.offset or 0) - one.start if one.start is not None else 0


def _named_in(text: str, known: list[Mount]) -> Mount | None:
    """The file system of the last path in a text that lies on one that is known."""
    on = (_on(path, known) for path in reversed(regexes.ready(_PATH).findall(text)))
    return next((mount for mount in on if mount is not None), None)


def _any(known: list[Mount]) -> bool:
    """Whether what is full is not named: it is the one that is meant."""
    return any(mount.full and not mount.path for mount in known)


def _the_only(known: list[Mount]) -> str | None:
    """The full file system, where no other one is known; shared memory is for what names it."""
    disks = [mount for mount in known if not mount.path.startswith(_SHM)]
    if not disks or not (_any(disks) or all(mount.full for mount in disks)):
        return None
    return next(mount.path for mount in disks if mount.full)


def gather(book: casebook.Casebook, ctx: context.Context) -> list[candidates.Candidate]:
    """A log that breaks off where it writes to a full file system, of a run that failed and does not say of what."""
    known = mounts(ctx) if ctx.exit is not None else []
    if ctx.ended_well:
        return _unsaved(book, known)
    if not any(one.full for one in known) or len(book.edges) > len(ctx.texts) + 1:
        return []
    ends = [edges.tail[-_LAST:] for edges in book.edges.values()][:1]
    tail = b"".join(ends).rstrip().rpartition(b"\n")[2].decode("utf-8", "replace")
    on = _named_in(tail, known)
    begun = regexes.ready(_WRITES).search(tail) and not regexes.ready(_DONE).search(tail)
    if on is None or not on.full or not begun:
        return []
    summary = f"it ended while it wrote to a full file system ({on.path})"
    return [
        candidates.Candidate(
            _C.DISK_FULL, _A.HOLD, _BROKE_OFF, "beside_disk", summary, source="df", text=tail[:300]
        )
    ]


_LAST, _BROKE_OFF = 400, 22
_NOT_SAVED = (
    r"(?i)\b(?:fail(?:ed|ure|s)?|could ?n.t|could not|cannot|can.t|unable|errors?)\b.{0,40}"
    r"\b(?:sav(?:e|ing)|writ(?:e|ing)|dump|export|store|checkpoint\w*|ckpt|snapshot)\b"
    r"|\b(?:sav(?:e|ing)|writ(?:e|ing)|checkpoint|export)\w*\b.{0,40}\bfailed\b"
)
_SAVED = r"(?i)\b(?:saved|wrote|written|stored|exported)\b"


def _unsaved(book: casebook.Casebook, known: list[Mount]) -> list[candidates.Candidate]:
    """The last save of a run that ended with 0, which failed on a full file system, as no later one did better."""
    if not any(one.full for one in known):
        return []
    text = b"\n".join(edges.tail for edges in book.edges.values()).decode("utf-8", "replace")
    saves = [line for line in text.splitlines() if regexes.ready(_OF_SAVES).search(line)]
    last = saves[-1] if saves else ""
    if not regexes.ready(_NOT_SAVED).search(last):
        return []
    on = _named_in(last, known)
    place = (on.path if on.full else None) if on is not None else _the_only(known)
    if place is None:
        return []
    summary = f"its last save failed, and the file system is full ({place})"
    made = candidates.Candidate(
        _C.DISK_FULL, _A.HOLD, _SURE, "beside_disk", summary, source="df", text=last[:300]
    )
    return [made._replace(live=True)]


_OF_SAVES = _NOT_SAVED + "|" + _SAVED.removeprefix("(?i)")


def _on(path: str, known: list[Mount]) -> Mount | None:
    """The file system of a path, of those that are known by name."""
    above = [m for m in known if m.path and (path == m.path or path.startswith(m.path.rstrip("/") + "/"))]
    return max(above, key=lambda mount: len(mount.path), default=None)
