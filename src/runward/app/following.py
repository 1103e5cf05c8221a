"""Follows the logs of one attempt while it lives: casebook, progress, losses and phases from the same bytes.

Everything is rebuilt from the log's beginning when another watcher takes over, so nothing of it is journalled but
what a decision rests on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from runward import ports
from runward.app import diagnose
from runward.core import casebook, observations, progress, run, samples, signals, stall

BYTES_A_TICK = 64 << 20
"""At most so many bytes of all logs are read in one tick: a tick stays under a tenth of a second."""
_CHUNK = 1 << 20
_MANY = 8 << 10
_LITTLE = 64 << 10
"""A read that brought less ends the look: what a busy log gains meanwhile goes with the next one, in one piece."""
_LOADED_ONCE = 8


@dataclass(slots=True)
class Standing:
    """How the training stands, by its own logs."""

    tracker: progress.Tracker = field(default_factory=progress.Tracker)
    silence: stall.Watch | None = None
    end_mark: bool = False
    loaded: list[observations.Loaded] = field(default_factory=list)
    """What the log says was loaded, not yet told."""
    step_at: float | None = None
    """Wall time of the newest step."""


class _Book(casebook.Casebook):
    """A casebook that also tells a live listener of each signal."""

    def __init__(self, engine: diagnose.Engine, hear: Callable[[signals.Signal], None]) -> None:
        super().__init__(engine.ruleset)
        self._hear = hear

    def add(self, signal: signals.Signal) -> None:
        super().add(signal)
        self._hear(signal)


class Follower:
    """The logs of one attempt."""

    def __init__(
        self,
        engine: diagnose.Engine,
        streams: Callable[[], Sequence[ports.LogStream]],
        clock: ports.Clock,
        standing: Standing,
    ) -> None:
        self._engine = engine
        self._find_streams = streams
        self._clock = clock
        self.standing = standing
        self.book = _Book(engine, self._hear)
        self.scanner_engine = ""
        self.scanner_notes: Sequence[str] = ()
        self._readers: dict[str, tuple[ports.LogStream, diagnose.Reader]] = {}
        self._aborted = False

    def advance(self, budget: int = BYTES_A_TICK) -> int:
        """Read what came; returns how many bytes that were. Raises ContactLost."""
        got = 0
        for stream, reader in self._open():
            while got < budget:
                chunks = stream.read_new(_CHUNK)
                for chunk in chunks:
                    self._feed(stream, reader, chunk)
                size = sum(len(chunk.data) for chunk in chunks)
                got += size
                if size < _LITTLE:
                    break
        return got

    def _feed(self, stream: ports.LogStream, reader: diagnose.Reader, chunk: ports.Chunk) -> None:
        if chunk.restarted:
            self.standing.tracker = progress.reopened(self.standing.tracker, stream.name)
        if len(chunk.data) > _MANY and not chunk.bulk:
            chunk = chunk._replace(
                bulk=True
            )  # hundreds of step lines in one tick: the first and last will do
        reader.feed(chunk)

    def _open(self) -> list[tuple[ports.LogStream, diagnose.Reader]]:
        for stream in self._find_streams():
            if stream.name not in self._readers:
                scanner = self._engine.scanner()
                self.scanner_engine, self.scanner_notes = scanner.engine, scanner.engine_notes
                source = signals.Source(file=stream.name, rank=stream.rank)
                self._readers[stream.name] = (
                    stream,
                    diagnose.Reader(self.book, self._engine.ruleset, scanner, source),
                )
        return list(self._readers.values())

    def finish(self) -> None:
        """The attempt is over: judge unfinished last lines."""
        for _, reader in self._readers.values():
            reader.finish()

    # -- what a signal says of the training ------------------------------------------------------------------

    def _hear(self, signal: signals.Signal) -> None:
        match signal.role:
            case signals.Role.PROGRESS:
                self._progress(signal)
            case signals.Role.PHASE:
                self._phase(signal)
            case signals.Role.RESUME:
                self._resume(signal)
            case signals.Role.END_MARK:
                self.standing.end_mark = True
            case signals.Role.ROOT | signals.Role.ECHO:
                self._aborted = self._aborted or signal.rule in _ABORTS
            case _:
                pass

    def _progress(self, signal: signals.Signal) -> None:
        sample = samples.from_signal(signal, after_abort=self._aborted, read_at=self._clock.wall())
        if sample is not None:
            self.take(sample)

    def take(self, sample: samples.Sample) -> None:
        """One report of progress, from the log or from beside it."""
        standing, now = self.standing, self._clock.mono()
        sample = sample if sample.at is not None else replace(sample, at=self._clock.wall())
        before = standing.tracker.step
        if standing.silence is not None:
            standing.silence, standing.tracker = stall.take(standing.silence, standing.tracker, sample, now)
        else:
            standing.tracker = progress.observe(standing.tracker, sample, now)
        if standing.tracker.step != before:
            standing.step_at = self._clock.wall()

    def _phase(self, signal: signals.Signal) -> None:
        rule = self._engine.ruleset.by_name[signal.rule]
        if self.standing.silence is not None and rule.phase:
            self.standing.silence = stall.phase(
                self.standing.silence, rule.phase, rule.edge, self._clock.mono()
            )

    def _resume(self, signal: signals.Signal) -> None:
        text = signal.fields.get("step")
        at_step = samples.whole(text)
        path = signal.fields.get("path")
        self.standing.tracker = progress.resumed(self.standing.tracker, at_step)
        if len(self.standing.loaded) < _LOADED_ONCE:
            self.standing.loaded.append(observations.Loaded(path, at_step))

    # -- what is new ------------------------------------------------------------------------------------------

    def news(self, live: run.Attempt, told: "Told") -> list[observations.Observation]:
        """Observations since the last time; `told` remembers what was said."""
        standing, seen = self.standing, list[observations.Observation]()
        seen.extend(standing.loaded)
        standing.loaded = []
        step = standing.tracker.step
        if step is not None and step != told.step:
            told.step = step
            seen.append(observations.Moved(step, standing.tracker.total))
        since = standing.tracker.loss.first_nonfinite_at
        if standing.tracker.loss.nonfinite and since is not None:
            seen.append(observations.LossNonfinite(standing.tracker.loss.spans[-1].step, since))
        elif live.nonfinite_since is not None and not standing.tracker.loss.nonfinite:
            seen.append(observations.LossFinite(step))
        return seen


@dataclass(slots=True)
class Told:
    """What was already said of an attempt."""

    step: int | None = None


_ABORTS = frozenset({"nccl_watchdog_timeout", "nccl_communicator_aborted"})
"""Rules after which a step line was printed without being computed."""
