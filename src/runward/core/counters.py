"""One counter of a training (a rule with its total), and which of several is the training's own step.

A counter knows redraws from steps, a restarted count from lines out of order, and an epoch's end from both.
"""

from collections.abc import Iterable
from typing import NamedTuple

from runward.core import samples

_ASCENDING = 3
"""Reports in a row, rising and all below the highest, that prove a count began anew."""
_CLASS = {
    samples.Kind.USER: 5,
    samples.Kind.HEARTBEAT: 4,
    samples.Kind.LINE: 3,
    samples.Kind.EPOCH: 2,
    samples.Kind.BAR: 1,
    samples.Kind.CHECKPOINT: 0,
}


class Counter(NamedTuple):
    """The highest value of one counter in this attempt, and how it got there."""

    key: str
    kind: samples.Kind
    value: int
    """Highest raw value since the count (last) began."""
    first: int
    """First step of the attempt, epochs before it included."""
    total: int | None = None
    base: int = 0
    """Steps of the epochs that are over, where the raw value begins anew with each."""
    moves: int = 0
    restarts: int = 0
    trained: bool = False
    """Whether a loss came with it: a bar that only evaluates or maps has none."""
    epoch: float | None = None
    rising: int = 0
    low: int = -1
    """A run of values below `value`: how many rose in a row, and the last of them."""
    unit: str | None = None

    @property
    def step(self) -> int:
        """Steps counted so far, epochs before this one included."""
        return self.base + self.value

    @property
    def finished(self) -> bool:
        """Whether the total was reached."""
        return self.total is not None and self.base == 0 and self.value >= self.total

    @property
    def user(self) -> bool:
        """Whether the user named this counter: then no other counts."""
        return self.kind in (samples.Kind.USER, samples.Kind.HEARTBEAT)


def begin(key: str, sample: samples.Sample, value: int, total: int | None) -> Counter:
    """The counter after its first report. A first value is no movement yet."""
    return Counter(
        key,
        sample.kind,
        value,
        first=value,
        total=total,
        trained=sample.loss is not None,
        epoch=sample.epoch,
        unit=sample.unit,
    )


def advance(counter: Counter, value: int, epoch: float | None) -> tuple[Counter, bool]:
    """The counter after another report, and whether that is a step forward.

    The same value again is a redraw. A lower one is a line out of order until three in a row rise.
    """
    if value > counter.value:
        later = _later(counter.epoch, epoch)
        return counter._replace(value=value, moves=counter.moves + 1, rising=0, low=-1, epoch=later), True
    if _new_epoch(counter, value, epoch):
        return _cycle(counter, value, epoch), True
    if value == counter.value:
        return (counter._replace(rising=0, low=-1) if counter.rising else counter), False
    if value == counter.low:
        return counter, False
    rising = counter.rising + 1 if value > counter.low and counter.rising else 1
    if rising < _ASCENDING:
        return counter._replace(rising=rising, low=value), False
    if counter.total and counter.value >= 0.9 * counter.total:
        return _cycle(counter, value, epoch), True
    begun = counter._replace(value=value, restarts=counter.restarts + 1, rising=0, low=-1)
    return begun._replace(moves=counter.moves + 1, epoch=epoch), True


def resume(counter: Counter, step: int) -> Counter:
    """The counter after the training said from where it goes on: only what lies beyond counts."""
    return counter._replace(value=step, base=0, rising=0, low=-1, epoch=None)


def choose(counters: Iterable[Counter]) -> Counter | None:
    """The training's own step: of those that move, the one that a loss comes with; then the largest.

    Never an epoch, a micro-batch or a side bar: those are no candidates.
    """
    candidates = [counter for counter in counters if counter.kind in _CLASS]
    return max(candidates, key=_rank) if len(candidates) > 1 else next(iter(candidates), None)


def _rank(counter: Counter) -> tuple[object, ...]:
    # A bar that reached its end and never had a loss was a preparation: it must not hide the training.
    done = counter.finished and not counter.trained
    return (
        counter.user,
        counter.moves > 0 and counter.kind is not samples.Kind.CHECKPOINT,
        counter.trained,
        not done,
        _CLASS[counter.kind],
        counter.restarts == 0,
        counter.total is not None,
        counter.step,
        counter.key,
    )


def _new_epoch(counter: Counter, value: int, epoch: float | None) -> bool:
    if epoch is None or counter.epoch is None or counter.kind is samples.Kind.EPOCH:
        return False
    # Fractions of an epoch (`epoch 0.31`) rise within one: only whole ones tell that a count began anew.
    return epoch == int(epoch) and epoch > counter.epoch and value < counter.value


def _cycle(counter: Counter, value: int, epoch: float | None) -> Counter:
    length = counter.total or counter.value
    return counter._replace(
        base=counter.base + length,
        value=value,
        moves=counter.moves + 1,
        rising=0,
        low=-1,
        epoch=_later(counter.epoch, epoch),
    )


def _later(old: float | None, new: float | None) -> float | None:
    return new if new is not None else old
