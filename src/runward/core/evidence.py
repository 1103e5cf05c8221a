"""The lines that prove a verdict, those that only echo it, and those that look bad but were survived."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from runward.core import candidates, casebook, durations, failures, redact, signals

if TYPE_CHECKING:
    from runward.core import missed

_C = failures.Cause
_KEEP = 6
_NO_DIGITS = dict.fromkeys(map(ord, "0123456789"))
_RELATED = {
    _C.HOST_OOM: (_C.HOST_OOM, _C.KILLED, _C.DATALOADER),
    _C.GPU_HARDWARE: (_C.GPU_HARDWARE, _C.CUDA_ERROR),
    _C.HANG: (_C.HANG, _C.NCCL_TIMEOUT, _C.DISTRIBUTED_TIMEOUT),
    _C.SHM: (_C.SHM, _C.DATALOADER),
    _C.NETWORK: (_C.NETWORK, _C.DATA_ERROR),
    _C.HUB_NETWORK: (_C.HUB_NETWORK, _C.DATA_ERROR),
}
"""Causes whose lines speak for another one."""


def related(cause: failures.Cause) -> tuple[failures.Cause, ...]:
    """The causes whose lines speak for `cause`."""
    return _RELATED.get(cause, (cause,))


def of_signal(signal: signals.Signal, source: str = "log") -> failures.Evidence:
    """A recognised line as evidence, secrets masked."""
    at = signal.at if signal.at is not None and signal.at > 1e8 else None
    return failures.Evidence(
        text=redact.text(signal.text.rstrip()),
        file=signals.whole(signal.file),
        line=signal.line,
        offset=signal.offset,
        rank=signal.rank,
        at=durations.iso(at),
        rule=signal.rule,
        source=source,
    )


def of_candidate(candidate: candidates.Candidate) -> failures.Evidence:
    """A candidate as evidence: its line, or what its witness says."""
    if candidate.entry is not None:
        return of_signal(candidate.entry.signal, "kernel" if candidate.source == "kernel" else "log")
    return failures.Evidence(redact.text(candidate.text), source=candidate.source, rule=candidate.rule)


def unusual_line(text: str, file: str | None, offset: int) -> failures.Evidence:
    """A line that no rule knows."""
    return failures.Evidence(redact.text(text.rstrip()), file=file, offset=offset, rule="unusual")


def supporting(
    chosen: candidates.Candidate,
    found: list[candidates.Candidate],
    suspects: "missed.Suspects | None",
    book: casebook.Casebook,
) -> list[failures.Evidence]:
    """The deciding line first, then what speaks for the same, each line once."""
    lines = [*suspects.proof, *(of_signal(entry.signal) for entry in suspects.entries)] if suspects else []
    if chosen.entry is not None or chosen.cause not in (_C.NONE, _C.UNKNOWN):
        lines.append(of_candidate(chosen))
    same = [c for c in found if c.cause in related(chosen.cause) and c is not chosen]
    same.sort(key=lambda c: (c.rank == chosen.rank, c.weight), reverse=True)
    lines += [of_candidate(c) for c in _few_of_each_rule(same)[:_KEEP]]
    if chosen.cause is _C.NODE_FAILURE:
        lines += [of_candidate(c) for c in found if c.cause in failures.TIMEOUTS][:1]
    lines += [of_candidate(c) for c in found if c.source != "log" and c.cause is chosen.cause][:2]
    if chosen.cause is _C.TIME_LIMIT and chosen.entry is None:
        asked = sorted((c for c in found if c.cause is _C.CANCELLED), key=lambda c: -c.weight)
        lines += map(of_candidate, asked[:2])
    if chosen.cause in (_C.NONE, _C.UNKNOWN, _C.HANG, _C.KILLED, _C.DATALOADER):
        lines += _standing(book)
    if chosen.cause is _C.UNKNOWN:
        lines += [of_candidate(c) for c in found if c.entry is not None][-3:]
    return once([line for line in lines if line.text])


def _few_of_each_rule(same: list[candidates.Candidate]) -> list[candidates.Candidate]:
    """Two of each rule, and a third where it says something else than the two."""
    seen: dict[str, list[str]] = {}
    kept = []
    for candidate in same:
        words = seen.setdefault(candidate.rule, [])
        said = candidate.text.translate(_NO_DIGITS)
        if len(words) < 2 or (len(words) == 2 and said not in words):
            words.append(said)
            kept.append(candidate)
    return kept


def last_words(book: casebook.Casebook) -> list[failures.Evidence]:
    """The last lines of each of the first few sources, as they stand."""
    found = []
    for name, edges in list(book.edges.items())[:4]:
        rows = [row for row in edges.tail[-4096:].replace(b"\r", b"\n").split(b"\n") if row.strip()]
        for row in rows[-2:]:
            offset = edges.cut + edges.tail.rfind(row)
            text = redact.text(row[:1000].decode("utf-8", "replace").rstrip())
            found.append(failures.Evidence(text, file=name, offset=offset, rule="last_words"))
    return found


def _standing(book: casebook.Casebook) -> list[failures.Evidence]:
    """How far it came: the end mark and the last progress line; benign lines that look bad."""
    marks = book.entries(signals.Role.END_MARK)[-2:] + book.entries(signals.Role.PROGRESS)[-1:]
    phases = book.entries(signals.Role.PHASE)[-1:]
    calm = book.entries(signals.Role.BENIGN)
    noted = book.with_field("xid")[:2]
    return [of_signal(e.signal) for e in (*marks, *phases, *calm[:2], *calm[-1:], *noted)] + last_words(book)


def survived(dropped: list[candidates.Candidate], cause: failures.Cause) -> list[failures.Evidence]:
    """Lines that look like a failure and were not its cause: the run went on after them."""
    if cause is not _C.NONE:
        return []
    return once(of_candidate(c) for c in dropped[:2] + dropped[-2:])


def echoes(chosen: candidates.Candidate, found: list[candidates.Candidate]) -> list[failures.Evidence]:
    """What follows from the first cause."""
    others = [c for c in found if c.entry is not None and c.cause is not chosen.cause]
    return once(of_candidate(c) for c in others[:5])


def once(lines: Iterable[failures.Evidence]) -> list[failures.Evidence]:
    """Each line of each file once, each word of another witness once."""
    seen: set[tuple[str | None, int | str]] = set()
    kept = []
    for line in lines:
        key = (line.file, line.text if line.offset is None else line.offset)
        if key not in seen:
            seen.add(key)
            kept.append(line)
    return kept


def numbered(lines: Iterable[failures.Evidence], book: casebook.Casebook) -> list[failures.Evidence]:
    """With line numbers for those of the kept ends of the sources, counted from a recognised line before them."""
    return [line if line.line is not None else line._replace(line=_line_of(line, book)) for line in lines]


def _line_of(one: failures.Evidence, book: casebook.Casebook) -> int | None:
    edges = book.edges.get(one.file)
    if edges is None or one.offset is None:
        return None
    start = edges.cut
    before = max(
        (
            (entry.signal.offset, entry.signal.line)
            for bucket in book.buckets.values()
            for entry in bucket
            if entry.signal.file == one.file
            and entry.signal.line is not None
            and entry.signal.offset is not None
            and start <= entry.signal.offset <= one.offset
        ),
        default=None,
    )
    if before is None:
        return None
    return before[1] + edges.tail.count(b"\n", before[0] - start, one.offset - start)
