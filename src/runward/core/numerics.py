"""Loss and gradient norm in the training's own reports: not a number, or a spike before an early stop."""

import math
from dataclasses import replace

from runward.core import candidates, casebook, context, failures, rules, signals, voices

_C, _A = failures.Cause, failures.Action
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

    A loss that one rank alone reports is that of all: it accuses nobody.
    """
    samples = list(book.samples)
    found = _unstable(samples, book, ctx)
    if found is None or found.entry is None or len({one.entry.signal.rank for one in samples}) > 1:
        return found
    unsigned = replace(found.entry.signal, rank=None, voice=voices.NOBODY)
    return replace(found, entry=found.entry._replace(signal=unsigned))


def _unstable(
    samples: list[casebook.Sample], book: casebook.Casebook, ctx: context.Context
) -> candidates.Candidate | None:
    trailing = 0
    for sample in reversed(samples):
        if not bad(sample):
            break
        trailing += 1
    frozen = _frozen(samples)
    if frozen is not None:
        return _made(
            frozen.entry, 64, f"no finite gradient in {_FROZEN} reports in a row, and the loss stands still"
        )
    ended = ctx.exit is not None and ctx.exit.code != 0
    if trailing >= 2 or (trailing and ended and len(samples) > 1):
        first = samples[-trailing]
        word = (
            "is not a number"
            if first.loss is None or not math.isfinite(first.loss)
            else "is 0 without gradient"
        )
        at = f" at step {first.step:.0f}" if first.step is not None else ""
        return _made(first.entry, 64, f"the loss {word}{at} and stays so ({trailing} reports)")
    if ended or book.saying(rules.Says.EARLY_STOP):
        return _spike(samples)
    return None


_FROZEN = 8
"""Reports in a row without a finite gradient, after which no loss scale brings it back."""


def _frozen(samples: list[casebook.Sample]) -> casebook.Sample | None:
    last = samples[-_FROZEN:]
    grads = [s.grad_norm for s in last if s.grad_norm is not None and not math.isfinite(s.grad_norm)]
    still = len({s.loss for s in last}) == 1
    return last[0] if len(grads) == _FROZEN and still else None


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
        _C.NUMERICAL_INSTABILITY, _A.HOLD, weight, "loss_reports", summary, entry, text=signal.text, live=True
    )
