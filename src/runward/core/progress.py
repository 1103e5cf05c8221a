"""How far a training is: a frozen tracker folded from samples.

Chooses the training's own counter among all that a log shows, knows redraws, duplicates and resumed counts,
and gives rate, time left, first and last step. `now` is monotonic seconds, an argument.
"""

import itertools
import statistics
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from runward.core import counters, failures, losses, samples

_COUNTERS = 32
_POINTS = 64
_FILES = 512
_RECENT = 17
"""Points whose intervals give the rate: 16 intervals."""
_APART_S = 0.5
"""Reports closer than this are one point, as those of one look: their times say when they were read."""


class Point(NamedTuple):
    """The step at an instant (monotonic seconds)."""

    at: float
    step: int


class Tracker(NamedTuple):
    """Everything known about the progress of one attempt."""

    counted: tuple[counters.Counter, ...] = ()
    chosen: counters.Counter | None = None
    """The one of them that is the training's step: many ask, once a report."""
    resumed_step: int | None = None
    """Step that the training said, or was told, to go on from."""
    checkpoint_step: int | None = None
    epoch: float | None = None
    advanced_at: float | None = None
    """Monotonic time of the last step forward; None before the first."""
    side_at: float | None = None
    """The same for described bars that are no training (download, map, shards)."""
    other_at: float | None = None
    """The same for undescribed counters that are not the chosen one: an evaluation, a preparation."""
    points: tuple[Point, ...] = ()
    read: Mapping[str, int] = MappingProxyType({})
    """Highest offset seen of each file and rule."""
    loss: losses.Losses = losses.Losses()
    throughput: float | None = None
    said_eta_s: float | None = None
    """Time left as the training itself printed it."""
    memory: tuple[samples.Memory, ...] = ()
    seen_before: bool = False
    """Whether an earlier attempt of this run showed steps."""

    @property
    def step(self) -> int | None:
        """The last step; None when no step was recognised yet."""
        chosen = self.chosen
        return chosen.step if chosen else self.checkpoint_step

    @property
    def first_step(self) -> int | None:
        """The first step that this attempt showed."""
        chosen = self.chosen
        return chosen.first if chosen else self.checkpoint_step

    @property
    def total(self) -> int | None:
        """Steps to do, where a line said so."""
        chosen = self.chosen
        if chosen is None or chosen.base:
            return None
        return chosen.total if chosen.total is not None else self._total_beside(chosen)

    def _total_beside(self, chosen: counters.Counter) -> int | None:
        """The total of another counter that stands at the same step: a bar beside lines without a total."""
        totals = (
            other.total
            for other in self.counted
            if other.kind is not samples.Kind.SIDE and other.moves and abs(other.step - chosen.step) <= 1
        )
        return next((total for total in totals if total is not None), None)

    @property
    def observable(self) -> bool:
        """Whether a step of this run was ever recognised."""
        return self.seen_before or self.step is not None

    @property
    def rate(self) -> float | None:
        """Steps a second: the median of the last intervals, so that one pause does not bend it."""
        recent = self.points[-_RECENT:]
        rates = [(b.step - a.step) / (b.at - a.at) for a, b in itertools.pairwise(recent) if b.step > a.step]
        return statistics.median(rates) if rates else None

    @property
    def eta_s(self) -> float | None:
        """Seconds left: by the mean over the attempt, checkpoints and evaluations included."""
        total, step = self.total, self.step
        if total is None or step is None:
            return None
        if step >= total:
            return 0.0
        first, last = (self.points[0], self.points[-1]) if self.points else (None, None)
        if first and last and last.at - first.at >= _APART_S and last.step > first.step:
            return (total - step) * (last.at - first.at) / (last.step - first.step)
        return self.said_eta_s

    def span(self) -> failures.ProgressSpan:
        """First and last step in the words of a diagnosis."""
        chosen = self.chosen
        unit = (chosen.unit or _UNIT.get(chosen.kind, "step")) if chosen else None
        return failures.ProgressSpan(self.first_step, self.step, unit, self.total)


_UNIT = {samples.Kind.EPOCH: "batch", samples.Kind.CHECKPOINT: "step"}


def observe(tracker: Tracker, sample: samples.Sample, now: float) -> Tracker:
    """The tracker after one more sample. Total: no sample makes it raise."""
    if sample.after_abort:
        return tracker
    read = tracker.read
    if sample.file is not None and sample.offset is not None:
        key = f"{sample.file}\n{sample.source}"
        if sample.offset <= read.get(key, -1):
            return tracker
        read = _noted(read, key, sample.offset)
    tracker = _details(tracker, sample, read)
    if sample.kind is samples.Kind.CHECKPOINT:
        return _checkpoint(tracker, sample, now)
    if sample.kind in (samples.Kind.REPORT, samples.Kind.MARK):
        return _credited(tracker) if sample.kind is samples.Kind.REPORT else tracker
    return _counted(tracker, sample, now)


def reopened(tracker: Tracker, file: str) -> Tracker:
    """The tracker after a log was truncated or made anew: its offsets begin again."""
    kept = {key: offset for key, offset in tracker.read.items() if not key.startswith(file + "\n")}
    return tracker._replace(read=kept)


def resumed(tracker: Tracker, step: int | None) -> Tracker:
    """The tracker after the training said that it goes on from `step` (None: from the beginning)."""
    begin = step or 0
    kept = tuple(counters.resume(counter, begin) for counter in tracker.counted)
    return _with(tracker, kept)._replace(resumed_step=step, points=())


def _with(tracker: Tracker, counted: tuple[counters.Counter, ...]) -> Tracker:
    return tracker._replace(counted=counted, chosen=counters.choose(counted))


def _noted(read: Mapping[str, int], key: str, offset: int) -> Mapping[str, int]:
    noted = dict(read)
    noted[key] = offset
    if len(noted) > _FILES:
        del noted[next(iter(noted))]
    return noted


def _details(tracker: Tracker, sample: samples.Sample, read: Mapping[str, int]) -> Tracker:
    memory = tracker.memory
    if sample.memory is not None:
        others = tuple(item for item in memory if item.gpu != sample.memory.gpu)
        memory = (*others, sample.memory)[-64:]
    return tracker._replace(
        read=read,
        loss=losses.observe(tracker.loss, sample),
        memory=memory,
        epoch=tracker.epoch if sample.epoch is None else sample.epoch,
        throughput=tracker.throughput if sample.throughput is None else sample.throughput,
        said_eta_s=tracker.said_eta_s if sample.eta_s is None else sample.eta_s,
    )


def _checkpoint(tracker: Tracker, sample: samples.Sample, now: float) -> Tracker:
    old = tracker.checkpoint_step
    if sample.step is None or (old is not None and sample.step <= old):
        return tracker
    points = tracker.points if tracker.counted else _points(tracker, sample.step, now)
    return tracker._replace(checkpoint_step=sample.step, advanced_at=now, points=points)


def _credited(tracker: Tracker) -> Tracker:
    """A loss without a step belongs to the bar that moved last (counters are kept in that order)."""
    if not tracker.counted or tracker.counted[-1].trained:
        return tracker
    if tracker.counted[-1].kind is samples.Kind.SIDE:
        return tracker
    return _with(tracker, (*tracker.counted[:-1], tracker.counted[-1]._replace(trained=True)))


def _counted(tracker: Tracker, sample: samples.Sample, now: float) -> Tracker:
    if sample.step is None:
        return tracker
    value, total = _absolute(tracker, sample)
    key = f"{sample.source}/{sample.total or ''}"
    old = next((counter for counter in tracker.counted if counter.key == key), None)
    if old is None:
        if sample.step == 0 and sample.kind in (samples.Kind.BAR, samples.Kind.EPOCH):
            return tracker  # a bar is drawn before its first step
        first = counters.begin(key, sample, value, total)
        return _begun(tracker, first, now)
    new, moved = counters.advance(old, value, sample.epoch)
    if sample.loss is not None and not new.trained:
        new = new._replace(trained=True)
    if not moved:
        return tracker if new is old else _replaced(tracker, new)
    if total and total != new.total:
        new = new._replace(total=total)
    return _moved(tracker, new, now)


def _absolute(tracker: Tracker, sample: samples.Sample) -> tuple[int, int | None]:
    """Step and total over all epochs, where a batch within one is what the line shows."""
    step = sample.step or 0
    epoch = sample.epoch if sample.epoch is not None else tracker.epoch
    if sample.kind is not samples.Kind.EPOCH or not sample.total or epoch is None or epoch != int(epoch):
        return step, sample.total
    total = sample.epochs * sample.total if sample.epochs else None
    return int(epoch) * sample.total + step, total


def _begun(tracker: Tracker, counter: counters.Counter, now: float) -> Tracker:
    """A first report is progress when it lies beyond the resumed step, or begins the attempt's steps."""
    kept = _kept(tracker, counter)
    chosen = counters.choose(kept)
    if counter.kind is samples.Kind.SIDE:
        return tracker._replace(counted=kept, chosen=chosen, side_at=now)
    if chosen is None or chosen.key != counter.key:
        return tracker._replace(counted=kept, chosen=chosen)
    behind = tracker.resumed_step is not None and counter.step <= tracker.resumed_step
    advanced_at = tracker.advanced_at if behind else now
    points = _points(tracker, counter.step, now)
    return tracker._replace(counted=kept, chosen=chosen, advanced_at=advanced_at, points=points)


def _moved(tracker: Tracker, counter: counters.Counter, now: float) -> Tracker:
    kept, again = _kept(tracker, counter), bool(counter.restarts or counter.base)
    chosen = counters.choose(kept)
    if counter.kind is samples.Kind.SIDE:
        return tracker._replace(counted=kept, chosen=chosen, side_at=tracker.side_at if again else now)
    if chosen is not None and chosen.key == counter.key:
        points = _points(tracker, counter.step, now)
        return tracker._replace(counted=kept, chosen=chosen, advanced_at=now, points=points)
    # Another counter that rises to where it never was is work too, unless the user named the one that counts.
    # One that begins again and again (evaluation bars) is not.
    aside = again or (chosen is not None and chosen.user)
    return tracker._replace(counted=kept, chosen=chosen, other_at=tracker.other_at if aside else now)


def _points(tracker: Tracker, step: int, now: float) -> tuple[Point, ...]:
    points = tracker.points
    if points and (step < points[-1].step or now < points[-1].at):
        points = ()
    if points and now - points[-1].at < _APART_S:
        return (*points[:-1], Point(points[-1].at, step))
    points = (*points, Point(now, step))
    if len(points) > _POINTS:
        half = _POINTS // 2
        points = (*points[:half:2], *points[half:])
    return points


def _kept(tracker: Tracker, counter: counters.Counter) -> tuple[counters.Counter, ...]:
    """The counter put last: the order is that of the last movement, and the oldest falls out."""
    others = [other for other in tracker.counted if other.key != counter.key]
    if len(others) >= _COUNTERS:
        best = counters.choose(others)
        drop = next(index for index, other in enumerate(others) if other is not best)
        del others[drop]
    return (*others, counter)


def _replaced(tracker: Tracker, counter: counters.Counter) -> Tracker:
    return _with(tracker, tuple(counter if other.key == counter.key else other for other in tracker.counted))
