"""Everything worth keeping about one attempt while its logs are read, in bounded memory.

The same book is filled by a watcher while a run lives and by a post-mortem; `diagnosis` judges it. A line without
a hit costs nothing: of the text itself only the first and the last 64 KiB of each source are kept.
"""

import itertools
import math
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from runward.core import failures, file_ranks, rules, signals, tracebacks, voices

if TYPE_CHECKING:
    from runward.core import homes

FIRST, LAST = 4, 6
"""Signals kept of one rule and rank: the first and the last ones."""
MAX_KEYS = 4096
MAX_TRACEBACKS = 96
MAX_FILES = 4096
MAX_CALM = 1024
ADVANCES = 64
_MOST = 65536
HEAD, TAIL = 64 << 10, 64 << 10
_POSITIONS = (signals.Role.ROOT, signals.Role.ECHO)


@dataclass(slots=True, repr=False)
class Bucket:
    """Signals of one rule and rank."""

    first: list["Entry"] = field(default_factory=list)
    last: deque["Entry"] = field(default_factory=lambda: deque(maxlen=LAST))
    count: int = 0

    def add(self, entry: "Entry") -> None:
        """Keep the entry among the first or the last ones."""
        self.count += 1
        if len(self.first) < FIRST:
            self.first.append(entry)
        else:
            self.last.append(entry)

    def __iter__(self) -> Iterator["Entry"]:
        yield from self.first
        yield from self.last


class Entry(NamedTuple):
    """A signal and when it was read: `order` grows with every signal of the book."""

    order: int
    signal: signals.Signal

    @property
    def place(self) -> tuple[str | None, int | None]:
        """Where its line begins: file and offset."""
        return self.signal.file, self.signal.offset


class Advance(NamedTuple):
    """A line that shows a step beyond all earlier ones of its stream."""

    order: float
    """Between those of two signals where no rule knows the line."""
    file: str | None
    offset: int
    at: float | None
    step: float
    rank: int | None


@dataclass(slots=True, repr=False)
class Progress:
    """What the progress lines of one file say."""

    first_step: int | None = None
    last_step: int | None = None
    top: float = -math.inf
    total: int | None = None
    unit: str | None = None
    count: int = 0
    restarted_at: int | None = None
    """Order of the last line at which the steps went back."""
    stamps: dict[int, float] = field(default_factory=dict)
    """Time of some steps, for the estimate of clock skew between files."""


class Sample(NamedTuple):
    """Loss and gradient norm of one report; NaN and infinities as such."""

    order: int
    step: float | None
    loss: float | None
    grad_norm: float | None
    entry: Entry


@dataclass(slots=True, repr=False)
class Edges:
    """The beginning and the end of one source's text."""

    head: bytes = b""
    tail: bytes = b""
    size: int = 0
    node: str = ""
    """Whose log it is, by its name."""

    @property
    def cut(self) -> int:
        """Where in the source the kept end begins."""
        return self.size - len(self.tail)

    @property
    def text(self) -> bytes:
        """All that is kept, nothing of it twice."""
        return self.head + self.tail[max(0, len(self.head) - self.cut) :]


class Casebook:
    """Signals, tracebacks, progress and edges of text of one attempt."""

    def __init__(self, ruleset: rules.RuleSet) -> None:
        self.rules: Mapping[str, rules.Rule] = ruleset.by_name
        self.buckets: dict[tuple[str, int | None], Bucket] = {}
        self.tracebacks: deque[tracebacks.Traceback] = deque(maxlen=MAX_TRACEBACKS)
        self.first_tracebacks: list[tracebacks.Traceback] = []
        self.progress: dict[str | None, Progress] = {}
        self.advances: deque[Advance] = deque(maxlen=ADVANCES)
        self.samples: deque[Sample] = deque(maxlen=64)
        self.edges: dict[str | None, Edges] = {}
        self.voices = voices.Voices()
        self.homes: Mapping[str | None, homes.Home] = {}
        """Whose a log or section is, where several are read together and what stands in them tells it."""
        self.file_ranks = file_ranks.FileRanks()
        self.misnamed: frozenset[str | None] = frozenset()
        """Logs and sections in whose names the number is no rank."""
        self._ranks: set[int] = set()
        self.nodes: set[str] = set()
        self.calm: dict[tuple[str | None, int], None] = {}
        """Places of the last lines that a benign rule explains."""
        self.order = 0
        self._line: tuple[str | None, int | None] | None = None
        self._pending: list[signals.Signal] = []
        self._last_step: dict[tuple[str | None, int | None], float] = {}

    # -- filling ------------------------------------------------------------------------------------------

    def add(self, signal: signals.Signal) -> None:
        """Take one signal. Signals of one line come one after another: a benign one explains the others away."""
        line = (signal.file, signal.offset)
        if line != self._line or signal.offset is None:
            self.settle()
            self._line = line
        self._pending.append(signal)

    def add_traceback(self, found: tracebacks.Traceback) -> None:
        """Take a finished traceback, behind all signals of its last line."""
        if (found.file, found.offset) == self._line:
            known = tuple(signal.rule for signal in self._pending if signal.role in _POSITIONS)
            found = found._replace(rules=known)
        if len(self.first_tracebacks) < MAX_TRACEBACKS:
            self.first_tracebacks.append(found)
        else:
            self.tracebacks.append(found)

    def note_chunk(self, source: signals.Source, data: bytes) -> None:
        """Keep the edges of a source's text: `data` are its next bytes."""
        if source.file not in self.edges and len(self.edges) >= MAX_FILES:
            return
        edges = self.edges.setdefault(source.file, Edges(node=source.node or ""))
        self.file_ranks.name(source)
        if len(edges.head) < HEAD:
            edges.head += data[: HEAD - len(edges.head)]
        edges.tail = (edges.tail + data[-TAIL:])[-TAIL:] if len(data) < TAIL else data[-TAIL:]
        edges.size += len(data)

    def settle(self) -> None:
        """Judge the pending line: done at the next line, and by `diagnosis` at the end."""
        pending, self._pending, self._line = self._pending, [], None
        benign = any(signal.role is signals.Role.BENIGN for signal in pending)
        if benign and pending[0].offset is not None:
            self.calm[(pending[0].file, pending[0].offset)] = None
            if len(self.calm) > MAX_CALM:
                del self.calm[next(iter(self.calm))]
        for signal in pending:
            if not (benign and signal.role in _POSITIONS):
                self._keep(signal)

    def _keep(self, signal: signals.Signal) -> None:
        self.order += 1
        entry = Entry(self.order, signal)
        if signal.voice is not voices.NOBODY:
            self.voices.hear(signal.voice)
        self.file_ranks.hear(signal)
        if (
            signal.rank is not None
            and not (signal.voice.assumed or signal.by_name)
            and len(self._ranks) < _MOST
        ):
            self._ranks.add(signal.rank)
        if signal.node and len(self.nodes) < 4096:
            self.nodes.add(signal.node)
        if signal.role is signals.Role.PROGRESS:
            self._advance(entry)
        key: tuple[str, int | None] = (signal.rule, signal.rank)
        if key not in self.buckets and len(self.buckets) >= MAX_KEYS:
            key = (signal.rule, None)
        self.buckets.setdefault(key, Bucket()).add(entry)

    # -- progress -----------------------------------------------------------------------------------------

    def _advance(self, entry: Entry) -> None:
        signal = entry.signal
        step = _number(signal.fields.get("step"))
        epoch = _number(signal.fields.get("epoch"))
        self._sample(entry, step)
        value = step if step is not None else _place(signal.fields, epoch)
        track = self.progress.setdefault(signal.file, Progress())
        track.count += 1
        if value is None or not math.isfinite(value):
            return
        if step is not None:
            self._step(track, entry, step)
        stream = (signal.file, signal.rank)
        top = self._last_step.get(stream, -math.inf)
        if value < top and value <= 0.98 * top:
            track.restarted_at = entry.order
        if value != top:
            if len(self._last_step) < MAX_KEYS or stream in self._last_step:
                self._last_step[stream] = value
            if value > top or track.restarted_at == entry.order:
                self.advances.append(
                    Advance(entry.order, signal.file, signal.offset or 0, signal.at, value, signal.rank)
                )

    def _step(self, track: Progress, entry: Entry, step: float) -> None:
        whole = int(min(step, 1e15))
        track.first_step = whole if track.first_step is None else track.first_step
        track.last_step = whole
        track.top = max(track.top, step)
        total = _number(entry.signal.fields.get("total"))
        track.total = int(total) if total is not None and 0 < total < 1e15 else track.total
        track.unit = entry.signal.fields.get("unit") or track.unit
        if entry.signal.at is not None and (len(track.stamps) < 32 or whole in track.stamps):
            track.stamps.setdefault(whole, entry.signal.at)

    def _sample(self, entry: Entry, step: float | None) -> None:
        loss = _number(entry.signal.fields.get("loss"))
        grad = _number(entry.signal.fields.get("grad_norm"))
        if loss is not None or grad is not None:
            self.samples.append(Sample(entry.order, step, loss, grad, entry))

    @property
    def ranks(self) -> set[int]:
        """Ranks that spoke or were named."""
        told = {home.rank for home in self.homes.values() if home.rank is not None}
        told |= {rank for file, rank in self.file_ranks.called.items() if file not in self.misnamed}
        return self._ranks | self.voices.assumed() | told

    def rank_of_file(self, file: str | None) -> int | None:
        """The rank of which a log is by its name or by what stands in it."""
        home = self.homes.get(file)
        if home is not None and home.base is None:
            return home.rank
        return None if file in self.misnamed else self.file_ranks.called.get(file)

    @property
    def streams(self) -> Collection[tuple[str | None, int | None]]:
        """Files and ranks that told steps."""
        return self._last_step.keys()

    # -- asking -------------------------------------------------------------------------------------------

    def entries(self, *roles: signals.Role) -> list[Entry]:
        """Kept entries of these roles, in the order they were read."""
        found = [self.named(e) for bucket in self.buckets.values() for e in bucket if e.signal.role in roles]
        return sorted(found, key=lambda entry: entry.order)

    def of_rule(self, *names: str) -> list[Entry]:
        """Kept entries of these rules, in the order they were read."""
        found = [self.named(e) for (name, _), bucket in self.buckets.items() if name in names for e in bucket]
        return sorted(found, key=lambda entry: entry.order)

    def saying(self, word: rules.Says) -> list[Entry]:
        """Kept entries of rules that say so, in the order they were read."""
        return self.of_rule(*self.that_say(word))

    def says(self, name: str, word: rules.Says) -> bool:
        """Whether the rule of that name says so; what is no rule says nothing."""
        rule = self.rules.get(name)
        return rule is not None and rule.says is word

    def that_say(self, word: rules.Says) -> list[str]:
        """Names of the rules that say so, of those that were met."""
        return [name for name in dict.fromkeys(name for name, _ in self.buckets) if self.says(name, word)]

    def with_field(self, field_name: str) -> list[Entry]:
        """Kept entries whose rule captured this field."""
        found = [
            self.named(e) for bucket in self.buckets.values() for e in bucket if field_name in e.signal.fields
        ]
        return sorted(found, key=lambda entry: entry.order)

    def named(self, entry: Entry) -> Entry:
        """The entry with the rank of its speaker, where other lines tell it."""
        signal, voice = entry.signal, entry.signal.voice
        if signal.by_name and signal.file in self.misnamed:
            return self.named(entry._replace(signal=signal._replace(rank=None)))
        home = self.homes.get(signal.file)
        if home is not None and home.covers(voice):
            at_home = home.rank_of(voice)
            rank = signal.rank if at_home is None else at_home
        elif voice.assumed or (signal.rank is None and voice is not voices.NOBODY):
            rank = self.voices.rank(voice)
        else:
            return entry
        return entry if rank == signal.rank else entry._replace(signal=signal._replace(rank=rank))

    def advances_after(self, order: int) -> int:
        """How many new steps were told after an entry, of those that are kept."""
        return sum(1 for one in self.advances if one.order > order)

    def count(self, *names: str) -> int:
        """How often these rules were seen, all ranks together."""
        return sum(bucket.count for (name, _), bucket in self.buckets.items() if name in names)

    def orders(self) -> Mapping[str | None, list[tuple[int, int]]]:
        """By file: each offset with a kept signal, and the last order up to there."""
        found: dict[str | None, list[tuple[int, int]]] = {}
        for bucket in self.buckets.values():
            for order, signal in bucket:
                found.setdefault(signal.file, []).append((signal.offset or 0, order))
        for rows in found.values():
            rows.sort()
            last = itertools.accumulate((order for _, order in rows), max)
            rows[:] = zip((at for at, _ in rows), last, strict=True)
        return found

    def span(self) -> failures.ProgressSpan:
        """First and last step over all files; the file with most progress lines speaks."""
        tracks = [track for track in self.progress.values() if track.last_step is not None]
        if not tracks:
            return failures.ProgressSpan()
        best = max(tracks, key=lambda track: track.count)
        return failures.ProgressSpan(best.first_step, best.last_step, best.unit or "step", best.total)


def _place(fields: Mapping[str, str], epoch: float | None) -> float | None:
    """Where a line stands that shows no step: epoch and batch, as one growing number."""
    epoch = epoch if epoch is not None else _number(fields.get("epoch1"))
    batch = _number(fields.get("batch"))
    if batch is None:
        return epoch
    return batch if epoch is None or not math.isfinite(epoch) else epoch * 1e9 + batch


def _number(text: str | None) -> float | None:
    """A number as training logs print it; None for anything else."""
    if not text or len(text) > 40:
        return None
    try:
        return float(text.replace(",", "").replace("%", ""))
    except ValueError:
        return None
