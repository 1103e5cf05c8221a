"""Which failures a training went on after: they were retried, skipped, or no more than text."""

import bisect
import math
from collections.abc import Sequence

from runward.core import candidates, casebook, context, failures, regexes, rules, signals

_C = failures.Cause
_COLLECTIVE = (_C.NCCL_TIMEOUT, _C.DISTRIBUTED_TIMEOUT, _C.HANG, _C.NCCL_ERROR)
_ASKED = (_C.CANCELLED, _C.PREEMPTED)
"""Who is asked to end makes the step under way all the same."""
_OF_START = (_C.UNSCHEDULABLE, _C.IMAGE_ERROR, _C.CONTAINER_ERROR)
"""What keeps a run from its start: of one that runs and makes steps it is over, wherever its events are printed."""


def alive(
    found: list[candidates.Candidate], book: casebook.Casebook, ctx: context.Context
) -> list[candidates.Candidate]:
    """Without candidates that the training went on after."""
    found = [c for c in _before_teardown(found, book) if _in_its_time(c, book, ctx)]
    terminals = sorted(c.order for c in found if c.terminal and not _went_on(c, book, ctx))
    return [c for c in found if not (_recovered(c, book) if c.live else survived(c, book, ctx, terminals))]


def _before_teardown(
    found: list[candidates.Candidate], book: casebook.Casebook
) -> list[candidates.Candidate]:
    """Without collectives that failed in a log whose launcher was told to end: its ranks leave one by one."""
    told = {c.file: c.order for c in reversed(found) if book.says(c.rule, rules.Says.TOLD_TO_END)}

    def torn(one: candidates.Candidate) -> bool:
        end = told.get(one.file, one.order)
        return end < one.order and not any(end < step.order < one.order for step in book.advances)

    return [c for c in found if c.cause not in _COLLECTIVE or not torn(c)] if told else found


def _in_its_time(candidate: candidates.Candidate, book: casebook.Casebook, ctx: context.Context) -> bool:
    rule = book.rules.get(candidate.rule)
    if ctx.running is not True:
        return rule is None or not rule.running
    return not book.advances or (candidate.cause not in _OF_START and _phase(candidate, book) != "startup")


def _recovered(candidate: candidates.Candidate, book: casebook.Casebook) -> bool:
    """Whether the loss was finite in every later report, or the phase that failed was entered again and did not."""
    phase = _phase(candidate, book)
    if phase:
        later = (entry for entry in book.entries(signals.Role.PHASE) if entry.order > candidate.order)
        return any(_phase(entry.signal, book) == phase for entry in later)
    if candidate.cause is not _C.NUMERICAL_INSTABILITY:
        return False
    own = [s for s in book.samples if s.order > candidate.order and s.entry.signal.file == candidate.file]
    losses = [s.loss for s in own if s.loss is not None]
    return len(losses) >= _AGAIN and all(map(math.isfinite, losses))


def _phase(found: candidates.Candidate | signals.Signal, book: casebook.Casebook) -> str:
    rule = book.rules.get(found.rule)
    return rule.phase if rule is not None else ""


def survived(
    candidate: candidates.Candidate, book: casebook.Casebook, ctx: context.Context, terminals: Sequence[int]
) -> bool:
    """Whether new steps were made after it: by its own rank or in its file, and before any process ended."""
    if candidate.entry is None:
        return False
    if _long_before(candidate, book) or (_of_some_time(candidate, book) and ctx.may_be_well):
        return True
    if ctx.may_be_well and not candidate.ends and _before_the_first(candidate, book):
        return True
    if candidate.ends or candidate.terminal:
        return _went_on(candidate, book, ctx)
    if not book.advances or (book.advances[-1].order < candidate.order and len(book.progress) < 2):
        return False
    place = bisect.bisect_left(terminals, candidate.order)
    end = terminals[place] if place < len(terminals) else math.inf
    later = [
        one for one in book.advances if one.order > candidate.order and _same_life(one, candidate, ctx, end)
    ]
    well = ctx.may_be_well
    if not well and (candidate.file, candidate.rank) in book.streams:
        later = [one for one in later if one.rank == candidate.rank]  # it tells its own steps
    return len({one.step for one in later}) >= _needed(candidate, ctx, well=well)


_A_DAY_S = 86400.0
"""Clocks of two logs may be kept in different zones."""
_YEAR = r"\b20\d\d\b"
"""A stamp that tells none is only guessed to be of this year."""


def _long_before(candidate: candidates.Candidate, book: casebook.Casebook) -> bool:
    """Whether steps were made more than a day after its stamp, wherever it is printed: a machine's log is old, too."""
    at = candidate.at
    if at is None or not regexes.ready(_YEAR).search(candidate.text[:80]):
        return False
    return len({one.step for one in book.advances if one.at and one.at - at > _A_DAY_S}) >= _AGAIN


def _of_some_time(candidate: candidates.Candidate, book: casebook.Casebook) -> bool:
    """Whether it is a link of the machine that went down since its start, by a log in which the run makes no step."""
    if candidate.cause is not _C.NETWORK or candidate.at is not None:
        return False
    steps = [one.file != candidate.file for one in book.advances]
    return len(steps) >= _AGAIN and all(steps)


def _needed(candidate: candidates.Candidate, ctx: context.Context, *, well: bool) -> int:
    """How many new steps show that it was survived: what is still in other ranks' buffers comes after it."""
    if candidate.cause in _COLLECTIVE:
        return 2 if well else 5
    if well:
        return 2 if candidate.cause in _ASKED else 1
    one = candidate.traceback
    uncaught = one is not None and not one.quoted and not candidate.aside and candidate.rank is not None
    by_signal = ctx.exit is not None and ctx.exit.signum is not None
    return _LONG_AFTER if uncaught and not by_signal else 2


_AGAIN, _LONG_AFTER = 3, 10
"""New steps after the word that it ended: of a run that lives or ended well, and of any other."""


_CONTROLLER = ("slurmctld", "error: Nodes ")
"""Whose records are those of a whole cluster, and how it alone begins one."""


def _went_on(candidate: candidates.Candidate, book: casebook.Casebook, ctx: context.Context) -> bool:
    """Whether what a line says has ended went on in the same log: it was begun anew, or the line was no more than text.

    No rank makes many steps without another that is dead.
    """
    well = ctx.may_be_well
    later = {one.step for one in book.advances if one.order > candidate.order and one.file == candidate.file}
    if candidate.ends and not well and candidate.cause is not _C.NODE_FAILURE:
        return False  # in the time of grace that it is given it makes steps; a lost node gives none
    if ctx.running is True and any(word in candidate.text[:200] for word in _CONTROLLER):
        return bool(later)  # it tells of all jobs and nodes
    if well and _before_any(candidate, book):
        return len(later) >= _needed(candidate, ctx, well=True) + candidate.ends  # none of them is a buffer's
    return len(later) >= (_AGAIN if well else _LONG_AFTER)


def _before_any(candidate: candidates.Candidate, book: casebook.Casebook) -> bool:
    """Whether no step stands before it, and who speaks, or nobody by name, makes those behind it."""
    own = [one for one in book.advances if one.file == candidate.file]
    return all(one.order > candidate.order and one.rank == candidate.rank for one in own)


_FIRST = 10
"""Up to this step a training begins: what stands before is its start, or what its script printed."""


def _before_the_first(candidate: candidates.Candidate, book: casebook.Casebook) -> bool:
    own = [one for one in book.advances if one.file == candidate.file]
    begun = bool(own) and own[0].step <= _FIRST and own[0].order > candidate.order
    of_launcher = candidate.tells_end or candidate.text.startswith("srun: ")  # of one of several
    return begun and not of_launcher and candidate.rank in (None, own[0].rank)


def _same_life(
    one: casebook.Advance, candidate: candidates.Candidate, ctx: context.Context, end: float
) -> bool:
    if one.file != candidate.file:
        return candidate.at is not None and one.at is not None and one.at > candidate.at + 60
    other = None not in (one.rank, candidate.rank) and one.rank != candidate.rank
    if other and ctx.running is not True and one.order > end:
        return False
    return one.order < end
