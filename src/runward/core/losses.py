"""Loss that is not finite: some reports in a row, and since when checkpoints are suspect."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from runward.core import checkpoints, samples

IN_A_ROW = 3
_SPANS = 8
_SOURCES = 16


@dataclass(frozen=True, slots=True)
class Streak:
    """Reports in a row that were not finite, of one source."""

    source: str
    count: int
    since: float | None
    """Wall time of the first of them."""
    step: int | None
    """Step of the first of them."""
    last: tuple[int | None, float | None]
    """Step and epoch of the last: every rank's copy of one report counts once."""


@dataclass(frozen=True, slots=True)
class Span:
    """A confirmed time without a finite loss; `until` is None while it lasts."""

    since: float | None
    until: float | None
    step: int | None


class Losses(NamedTuple):
    """The last finite loss, and what was not finite."""

    last: float | None = None
    streaks: tuple[Streak, ...] = ()
    spans: tuple[Span, ...] = ()
    in_a_row: int = IN_A_ROW
    """Reports in a row that make an alert."""

    @property
    def nonfinite(self) -> bool:
        """Whether the alert holds now: so many reports in a row, and no finite one since."""
        return any(span.until is None for span in self.spans)

    @property
    def first_nonfinite_at(self) -> float | None:
        """Wall time of the first report of the (last) confirmed time; None when there was none."""
        return self.spans[-1].since if self.spans else None


def report_is_finite(sample: samples.Sample) -> bool | None:
    """False for NaN or Inf, True for a finite report, None when the sample reports no loss.

    A gradient norm that is not finite counts only beside a loss of 0 or none (a loss scaler skips such
    steps in health). `number of nan iterations: 0` is health.
    """
    if sample.nan_iterations:
        return False
    if sample.loss is None and sample.grad_norm is None:
        return None
    if sample.loss is not None and not math.isfinite(sample.loss):
        return False
    if sample.grad_norm is not None and math.isnan(sample.grad_norm):
        return bool(sample.loss)
    return None if sample.loss is None else True


def observe(losses: Losses, sample: samples.Sample) -> Losses:
    """The state after one more sample."""
    finite = report_is_finite(sample)
    if finite is None:
        return losses
    if finite:
        return _mended(losses, sample)
    return _broken(losses, sample)


def suspect(losses: Losses, written_at: float) -> bool:
    """Whether a checkpoint of that time was written after a first NaN and before the loss was finite."""
    return any(
        span.since is not None
        and span.since <= written_at
        and (span.until is None or written_at < span.until)
        for span in losses.spans
    )


def judged(losses: Losses, listing: checkpoints.Listing) -> checkpoints.Listing:
    """The listing with what was written in a time without a finite loss as suspect, also where it has ended."""
    rows = tuple(
        replace(one, state=checkpoints.State.SUSPECT, reason="written while the loss was not finite")
        if one.state is checkpoints.State.COMPLETE and suspect(losses, one.at)
        else one
        for one in listing.checkpoints
    )
    return replace(listing, checkpoints=rows)


def _mended(losses: Losses, sample: samples.Sample) -> Losses:
    streaks = tuple(streak for streak in losses.streaks if streak.source != sample.source)
    if len(streaks) == len(losses.streaks):
        return losses._replace(last=sample.loss)
    spans = losses.spans
    if not any(streak.count >= losses.in_a_row for streak in streaks):
        spans = tuple(span if span.until is not None else replace(span, until=sample.at) for span in spans)
    return losses._replace(last=sample.loss, streaks=streaks, spans=spans)


def _broken(losses: Losses, sample: samples.Sample) -> Losses:
    mark = (sample.step, sample.epoch)
    old = next((streak for streak in losses.streaks if streak.source == sample.source), None)
    if old is not None and mark == old.last and mark != (None, None):
        return losses
    streak = (
        Streak(sample.source, 1, sample.at, sample.step, mark)
        if old is None
        else replace(old, count=old.count + 1, last=mark)
    )
    others = tuple(other for other in losses.streaks if other.source != sample.source)
    spans = losses.spans
    if streak.count >= losses.in_a_row and not losses.nonfinite:
        spans = (*spans, Span(streak.since, None, streak.step))[-_SPANS:]
    return losses._replace(streaks=(*others, streak)[-_SOURCES:], spans=spans)
