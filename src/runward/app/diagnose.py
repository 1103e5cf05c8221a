"""Logs in, verdict out: feeds sources into a casebook by a scanner and asks the core.

The same `Reader` serves a post-mortem over files and a watcher over growing logs.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from runward.app import spans
from runward.core import (
    casebook,
    context,
    diagnosis,
    failures,
    log_data,
    log_names,
    rules,
    signals,
    tracebacks,
)

if TYPE_CHECKING:
    from runward import ports
    from runward.core import flight

MakeScanner = Callable[[], "ports.Scanner"]
_IGNORED = "Exception ignored in"
_ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\))")
_LINE_END = re.compile(rb"[\n\r]")
_LONGEST = 16 << 10
_NAMED = 64
_AROUND = 8
"""Progress lines kept on both sides of anything else in bulk data."""
SECTION = "file_section"
_TITLES = ("section", "part", "shown", "titled", "named", "heard", "typed", "queried", "alone")
"""Groups of that rule: the ways in which parts of other logs are announced."""
NODE_SECTION = "node_section"
IGNORED_RULE = "python_exception_ignored"


class Options(NamedTuple):
    """How a source is read."""

    counted: bool = True
    """Count lines while reading; else `line` stays empty."""
    lean: bool = True
    """Let the scanner leave out repeated lines of bulk data: worth its set-up in large logs only."""
    window: "spans.Window | None" = None


class Book(Protocol):
    """What a reader fills: `casebook.Casebook`, or what stands for one elsewhere."""

    def note_chunk(self, source: signals.Source, data: bytes) -> None:
        """See `Casebook.note_chunk`."""
        ...

    def add(self, signal: signals.Signal) -> None:
        """See `Casebook.add`."""
        ...

    def add_traceback(self, found: tracebacks.Traceback) -> None:
        """See `Casebook.add_traceback`."""
        ...

    def settle(self) -> None:
        """See `Casebook.settle`."""
        ...


class Reader:
    """Feeds one source into a casebook, chunk by chunk."""

    def __init__(
        self,
        book: Book,
        ruleset: rules.RuleSet,
        scanner: "ports.Scanner",
        source: signals.Source,
        options: "Options | None" = None,
    ) -> None:
        chosen = options or Options()
        self._book, self._rules, self._scanner, self._source = book, ruleset.rules, scanner, source
        self._whole = source
        self._grouper = tracebacks.Grouper(source)
        self._lines = _LineCounter()
        self._counted, self._lean = chosen.counted, chosen.lean
        self._window = chosen.window.fresh() if chosen.window else spans.Window()
        self._carry = b""
        self._carry_at = 0
        self._chunk, self._looked = log_data.Chunk(0, b""), 0
        """What is read now, and up to where in it a stamp was looked for."""
        self._said: set[int] | None = None
        """Ranks that spoke in this part; None where the log has no parts."""
        self._learnt = False
        """Whether the rank of this part is that of the lines in it."""
        self._leads = False
        """Whether a part of a master was met: workers are counted behind it."""
        self._usual: frozenset[int] = frozenset()
        """What the last piece of bulk data held, where that was nothing but calm lines."""
        self._held: Sequence[log_data.Hit] = ()
        """Hits of a piece that held the usual: of many such pieces only the first and the last one are judged."""

    def feed(self, chunk: log_data.Chunk) -> None:
        """Take the next bytes of the source."""
        if chunk.restarted:
            self._lines = _LineCounter()
            self._carry = b""
        self._book.note_chunk(self._whole, chunk.data)
        if self._counted:
            self._lines.chunk(chunk.data, chunk.offset)
        cursor = 0
        hits = self._scanner.feed(chunk.data, chunk.offset, bulk=chunk.bulk and self._lean)
        if self._is_usual(hits, chunk):
            self._held = hits
            return
        self._release()
        self._chunk, self._looked = chunk, 0
        for hit in self._some(hits) if chunk.bulk else hits:
            cursor = self._hit(hit, chunk, cursor)
        self._follow(chunk, cursor, len(chunk.data), last=True)
        if self._window.limited:
            self._window.holds(spans.before(chunk.data, len(chunk.data), self._source.year))
        if self._counted:
            self._lines.done()

    def finish(self) -> None:
        """The source has ended: judge its unfinished last line."""
        self._release()
        for hit in self._scanner.flush():
            self._signal(hit)
        if self._grouper.busy and self._carry:
            self._show(self._carry, self._carry_at)
        self._carry = b""
        self._book.settle()

    def _is_usual(self, hits: Sequence[log_data.Hit], chunk: log_data.Chunk) -> bool:
        """Whether a piece of bulk data says no more than the one before it, of the kinds of lines that repeat."""
        calm = (
            chunk.bulk and self._lean and not self._counted and not self._grouper.busy and not chunk.restarted
        )
        kinds = frozenset(hit.pattern for hit in hits) if calm else frozenset()
        before, self._usual = self._usual, frozenset()
        if all(self._rules[pattern].repeats for pattern in kinds):
            self._usual = kinds
        return bool(kinds) and kinds == before == self._usual

    def _release(self) -> None:
        """Judge the last piece that was held back: what follows is something else."""
        held, self._held = self._held, ()
        for hit in self._some(held) if held else ():
            self._signal(hit)

    def _some(self, hits: Sequence[log_data.Hit]) -> list[log_data.Hit]:
        """Of many progress lines in a row the first and the last ones, and those around anything else."""
        keep = set(range(_AROUND)) | set(range(len(hits) - _AROUND, len(hits)))
        for place, hit in enumerate(hits):
            if self._rules[hit.pattern].role is not signals.Role.PROGRESS:
                keep |= set(range(place - _AROUND, place + _AROUND + 1))
        return [hit for place, hit in enumerate(hits) if place in keep]

    def _number(self, offset: int) -> int | None:
        return self._lines.number(offset) if self._counted else None

    def _hit(self, hit: log_data.Hit, chunk: log_data.Chunk, cursor: int) -> int:
        begin = max(0, hit.line_offset - chunk.offset)
        if self._grouper.busy and begin > cursor:
            self._follow(chunk, cursor, begin, last=False)
            cursor = begin
        rule = self._rules[hit.pattern]
        self._signal(hit)
        if rule.name == IGNORED_RULE:
            self._grouper.ignore_next()
        if rule.name == rules.TRACEBACK:
            self._grouper.introduce(_line_before(chunk.data, begin))
            self._show(hit.line, hit.line_offset)
            end = _LINE_END.search(chunk.data, begin)
            self._carry = b""
            return end.end() if end else len(chunk.data)
        return cursor

    def _signal(self, hit: log_data.Hit) -> None:
        rule = self._rules[hit.pattern]
        if rule.name == SECTION:
            self._section(next((hit.groups[name] for name in _TITLES if hit.groups.get(name)), ""))
        elif rule.name == NODE_SECTION:
            self._source = self._source._replace(node=hit.groups["node"])
            self._grouper.speak(self._source)
        text = hit.line.decode("utf-8", "replace")
        place = signals.Place(text, self._number(hit.line_offset), hit.line_offset)
        found = signals.extract(rule, place, hit.groups, self._source)
        if found is not None and self._counts(found.at, hit.line_offset):
            self._hear(found)
            self._book.add(found)

    def _section(self, name: str) -> None:
        """A part of the log is another file (as `tail` and `head` join them): its name tells the rank."""
        rank = log_names.rank_of(name)
        self._leads = self._leads or "master" in name.lower()
        if rank is not None and self._leads and "worker" in name.lower():
            rank += 1
        self._said, self._learnt = set(), False
        part = signals.part(self._source.file, name)
        self._source = self._source._replace(rank=rank, node=log_names.node_of(name), file=part)
        self._grouper.speak(self._source)

    def _hear(self, found: signals.Signal) -> None:
        """In a part whose name tells no rank its first lines may: one that all of them name."""
        rank = found.rank if found.voice.assumed else found.voice.rank
        if self._said is None or rank is None:
            return
        self._said.add(rank)
        told = rank if self._said == {rank} else None
        if self._source.rank is None or self._learnt:
            self._learnt = True
            self._source = self._source._replace(rank=told)
            self._grouper.speak(self._source)

    def _follow(self, chunk: log_data.Chunk, cursor: int, end: int, *, last: bool) -> None:
        """Show the lines from `cursor` to `end` to the open tracebacks; keep an unfinished last one."""
        data = chunk.data
        while self._grouper.busy and cursor < end:
            stop = _LINE_END.search(data, cursor, end)
            if stop is None:
                if last:
                    self._carry_at = chunk.offset + cursor if not self._carry else self._carry_at
                    self._carry = (self._carry + data[cursor:end])[:_LONGEST]
                return
            line, at = data[cursor : stop.start()], chunk.offset + cursor
            if self._carry:
                line, at = (self._carry + line)[:_LONGEST], self._carry_at
                self._carry = b""
            if line.strip():
                self._show(line, at)
            cursor = stop.end()

    def _show(self, raw: bytes, offset: int) -> None:
        text = _ANSI.sub(b"", raw[:_LONGEST]).decode("utf-8", "replace")
        found = self._grouper.feed(signals.Place(text, self._number(offset), offset))
        if found is not None and self._counts(found.at, offset if found.start is None else found.start):
            self._book.add_traceback(found)

    def _counts(self, at: float | None, offset: int) -> bool:
        """Whether the line there lies in the span of time. One without a stamp goes with the last that has one."""
        stop = offset - self._chunk.offset
        if self._window.limited and (at is None or at < spans.DATED) and stop > 0:
            at = spans.before(self._chunk.data, stop, self._source.year, max(0, self._looked))
            self._looked = stop
        return self._window.holds(at)


def _line_before(data: bytes, begin: int) -> str:
    """The line before the one that begins at `begin`, as far as this piece holds it."""
    end = data.rfind(b"\n", 0, begin)
    start = data.rfind(b"\n", max(0, end - _LONGEST), max(0, end)) + 1
    return _ANSI.sub(b"", data[start:end]).decode("utf-8", "replace").rstrip("\r") if end > 0 else ""


class _LineCounter:
    """1-based line numbers of ascending offsets, counted by newline."""

    def __init__(self) -> None:
        self._before = 0
        self._data, self._offset, self._at, self._count = b"", 0, 0, 0

    def chunk(self, data: bytes, offset: int) -> None:
        """The next bytes begin at `offset`."""
        self._data, self._offset, self._at, self._count = data, offset, 0, 0

    def number(self, offset: int) -> int:
        """The line in which `offset` lies; of an earlier chunk: its unfinished last line."""
        place = offset - self._offset
        if place <= 0:
            return self._before + 1
        if place < self._at:
            return self._before + 1 + self._data.count(b"\n", 0, place)
        self._count += self._data.count(b"\n", self._at, place)
        self._at = place
        return self._before + 1 + self._count

    def done(self) -> None:
        """The chunk is finished."""
        self._before += self._data.count(b"\n")
        self._data = b""


class Log(NamedTuple):
    """One log to read: who speaks in it, and its pieces in order."""

    source: signals.Source
    chunks: Iterable[log_data.Chunk]
    counted: bool = True
    """Whether lines are counted while reading; else `line` stays empty and can be had from `offset`."""
    lean: bool = True
    """As in `Options`."""
    notes: list[str] | None = None
    """Where a file's reader adds what it met. Such a log can be read in another process."""
    timeless: bool = False
    """No line of it has a time stamp: a span of time does not bound it."""


class Engine(NamedTuple):
    """What is needed to read logs: rules, and a way to make scanners of them."""

    ruleset: rules.RuleSet
    scanner: MakeScanner


def read(engine: Engine, logs: Iterable[Log], window: spans.Window | None = None) -> casebook.Casebook:
    """A casebook of these logs. Raises what reading them raises (OSError, ContactLost)."""
    book = casebook.Casebook(engine.ruleset)
    for log in logs:
        read_one(engine, log, book, window)
    return book


def read_one(engine: Engine, log: Log, book: Book, window: spans.Window | None = None) -> None:
    """Read one log into a book."""
    options = Options(log.counted, log.lean, None if log.timeless else window)
    reader = Reader(book, engine.ruleset, engine.scanner(), log.source, options)
    for chunk in log.chunks:
        reader.feed(chunk)
    reader.finish()


def judge(
    engine: Engine, logs: Sequence[Log], ctx: context.Context, attempt: int | None = None
) -> failures.Diagnosis:
    """Read logs, and the words of other witnesses by the same rules, and give the verdict."""
    return diagnosis.diagnose(book_of(engine, logs, ctx), ctx, attempt)


_OF_A_NODE = ("kernel", "dmesg")
"""Witnesses that tell of one machine: of that which is named beside them."""


def book_of(
    engine: Engine,
    logs: Sequence[Log],
    ctx: context.Context,
    window: spans.Window | None = None,
    how: "Callable[[Engine, Sequence[Log], spans.Window | None], casebook.Casebook]" = read,
) -> casebook.Casebook:
    """A casebook of logs and of the words of other witnesses. `how`: `read`, or what does the same."""
    more = [
        Log(
            signals.Source(file=text.source, node=ctx.node if text.source in _OF_A_NODE else None),
            [log_data.Chunk(0, text.text.encode("utf-8", "replace") + b"\n")],
        )
        for text in ctx.texts
    ]
    return how(engine, [*logs, *more], window)


Dumps = Callable[[Sequence[str]], "flight.FlightSummary | None"]
"""What the flight-recorder dumps of an attempt say, given the prefixes that its log names; None without any."""


def concluded(
    book: casebook.Casebook, ctx: context.Context, dumps: Dumps, attempt: int | None = None
) -> tuple[failures.Diagnosis, context.Context]:
    """The verdict, and what it rests on. Where ranks waited for one that is not known, their recorders are asked."""
    found = diagnosis.diagnose(book, ctx, attempt)
    if found.verdict.cause not in failures.TIMEOUTS:
        return found, ctx
    named = [entry.signal.fields["dump"].rstrip("0123456789") for entry in book.with_field("dump")]
    named += [entry.signal.fields["dump_prefix"] for entry in book.with_field("dump_prefix")]
    said = dumps(list(dict.fromkeys(named))[:_NAMED])
    if said is None:
        return found, ctx
    ctx = ctx._replace(flight=said)
    return diagnosis.diagnose(book, ctx, attempt), ctx
