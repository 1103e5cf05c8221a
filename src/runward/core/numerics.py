"""Loss and gradient norm in the training's own reports: not a number, or a spike before an early stop."""

import itertools
import math

from runward.core import candidates, casebook, context, failures, regexes, rules, signals, voices

_C, _A = failures.Cause, failures.Action
REPORTS = "loss_reports"
"""What stands for a rule."""
SPIKE = 10.0
"""A gradient norm this many times its median is a spike."""


def bad(sample: casebook.Sample) -> bool:
    """Whether a report says that training is broken: a loss that is no number, or zero with no gradient."""
    if sample.loss is not None and not math.isfinite(sample.loss):
        return True
    no_gradient = sample.grad_norm is not None and math.isnan(sample.grad_norm)
    return no_gradient and (sample.loss == 0.0 or sample.loss is None)


def find(book: casebook.Casebook, ctx: context.Context) -> candidates.Candidate | None:
    """NaN in the last reports (two in a row, or one with which the run ended), or a spike before the stop.

    A loss that one rank alone reports is that of all: it accuses nobody. Of several that report, the one is accused
    that was bad in the first bad step while the others were not.
    """
    samples = _own(_by_step(list(book.samples)))
    found = _unstable(samples, book, ctx) if samples else _unread(book)
    if not samples or found is None or found.entry is None or _alone(found.entry, samples):
        return found
    unsigned = found.entry.signal._replace(rank=None, voice=voices.NOBODY)
    return found._replace(entry=found.entry._replace(signal=unsigned))


def _unread(book: casebook.Casebook) -> candidates.Candidate | None:
    """The same of a log in which no rule found a loss."""
    from runward.core import unread_losses  # noqa: PLC0415 -- most logs tell theirs in known words

    lost = unread_losses.find(book)
    if lost is None:
        return None
    return _made(lost.first, 64, f"the loss is not a number and stays so ({lost.reports} reports)")


_OF_ONE = r"(?i)\b(?:own|local|unreduced|replica|micro_?batch|per_rank|rank)[_ ](?:\w{1,12}[_ ])?loss\b"
"""Of a loss before it is that of all."""


def _own(samples: list[casebook.Sample]) -> list[casebook.Sample]:
    """The reports of losses of single ranks, where several ranks tell theirs: that of all says nothing of one."""
    own = [one for one in samples if regexes.ready(_OF_ONE).search(one.entry.signal.text)]
    ranks = {one.entry.signal.rank for one in own} - {None}
    return own if len(ranks) > 1 and any(map(bad, own)) else samples


def _by_step(samples: list[casebook.Sample]) -> list[casebook.Sample]:
    """The reports in the order of their steps, where several logs that are read one after another hold them."""
    steps = [one.step for one in samples if one.step is not None]
    several = len({one.entry.signal.file for one in samples}) > 1
    return (
        sorted(samples, key=lambda one: one.step or 0.0)
        if several and len(steps) == len(samples)
        else samples
    )


def _alone(entry: casebook.Entry, samples: list[casebook.Sample]) -> bool:
    """Whether its rank is the one that was bad where another rank was not."""
    step = next(one.step for one in samples if one.entry is entry)
    said = {(one.entry.signal.rank, bad(one)) for one in samples if one.step == step}
    accused = {rank for rank, is_bad in said if is_bad}
    return accused == {entry.signal.rank} and {rank for rank, _ in said} > accused


def _unstable(
    samples: list[casebook.Sample], book: casebook.Casebook, ctx: context.Context
) -> candidates.Candidate | None:
    frozen = _frozen(samples)
    if frozen is not None:
        return _made(
            frozen.entry, 64, f"no finite gradient in {_FROZEN} reports in a row, and the loss stands still"
        )
    lost = None if ctx.failed else _gradient_lost(samples, book)
    if lost is not None:
        return _made(
            lost.entry, 64, f"the gradient is not a number in {_LOST} steps in a row: nothing is learnt"
        )
    last = _last_bad(samples)
    if len(last) >= 2 or (last and ctx.failed and len(samples) > 1):
        first = last[0]
        word = (
            "is not a number"
            if first.loss is None or not math.isfinite(first.loss)
            else "is 0 without gradient"
        )
        at = f" at step {first.step:.0f}" if first.step is not None else ""
        return _made(first.entry, 64, f"the loss {word}{at} and stays so ({len(last)} reports)")
    if ctx.failed or book.saying(rules.Says.EARLY_STOP):
        return _spike(samples)
    return None


def _last_bad(samples: list[casebook.Sample]) -> list[casebook.Sample]:
    """The bad reports since the last good step. A step is good where no rank was bad in it."""
    ranks: dict[float | None, set[int | None]] = {}
    for one in samples:
        if bad(one) and one.step is not None:
            ranks.setdefault(one.step, set()).add(one.entry.signal.rank)
    found: list[casebook.Sample] = []
    for one in reversed(samples):
        if bad(one):
            found.append(one)
        elif not ranks.get(one.step, set()) - {one.entry.signal.rank}:
            break
    return found[::-1]


_FROZEN = 8
"""Reports in a row without a finite gradient, after which no loss scale brings it back."""


def _frozen(samples: list[casebook.Sample]) -> casebook.Sample | None:
    last = samples[-_FROZEN:]
    grads = [s.grad_norm for s in last if s.grad_norm is not None and not math.isfinite(s.grad_norm)]
    still = len({s.loss for s in last}) == 1
    return last[0] if len(grads) == _FROZEN and still else None


_LOST = 3
"""Steps in a row whose gradient is not a number, where no loss scale looks for its size: that skips some at first."""
_SCALED = (
    rb"(?i)loss[ _-]?scal|grad(?:ient)?[ _-]?scal|\boverflow|\bskipp|\bfp16|(?<!b)float16|\bhalf[ _-]precision|\bapex\b"
    rb"|(?<!bf)\b16-mixed|\bamp\b"
)


def _gradient_lost(samples: list[casebook.Sample], book: casebook.Casebook) -> casebook.Sample | None:
    """The first of the last steps in a row without a gradient, though the loss of a forward pass looks well."""
    told = [one for one in samples if one.grad_norm is not None and one.step is not None]
    last = list(itertools.takewhile(lambda one: math.isnan(one.grad_norm or 0.0), reversed(told)))
    if len({one.step for one in last}) < _LOST:
        return None
    scaled = any(regexes.ready(_SCALED).search(edges.text) for edges in book.edges.values())
    return None if scaled else last[-1]


def _spike(samples: list[casebook.Sample]) -> candidates.Candidate | None:
    norms = [(s, s.grad_norm) for s in samples if s.grad_norm is not None and math.isfinite(s.grad_norm)]
    if len(norms) < 5:
        return None
    import statistics  # noqa: PLC0415 -- 8 ms that few logs need

    usual = statistics.median(norm for _, norm in norms[:-2])
    sample, last = max(norms[-2:], key=lambda pair: pair[1])
    if usual <= 0 or last < SPIKE * usual or last < 5:
        return None
    text = f"the gradient norm rose to {last:.3g} (median {usual:.3g}) just before the end"
    return _made(sample.entry, 48, text)


def _made(entry: casebook.Entry, weight: int, summary: str) -> candidates.Candidate:
    signal: signals.Signal = entry.signal
    return candidates.Candidate(
        _C.NUMERICAL_INSTABILITY, _A.HOLD, weight, REPORTS, summary, entry, text=signal.text, live=True
    )
