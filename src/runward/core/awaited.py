"""A wait that came to nothing: whom the others waited for, what that one was at, and what it told of it."""

from dataclasses import replace

from runward.core import (
    candidates,
    casebook,
    collectives,
    context,
    failures,
    hidden_errors,
    lone_work,
    missed,
    uneven,
    unfinished,
)


def find(
    chosen: candidates.Candidate,
    found: list[candidates.Candidate],
    book: casebook.Casebook,
    ctx: context.Context,
) -> tuple[candidates.Candidate, missed.Suspects | None]:
    """The cause of such a wait, and those that did not come: of one that told an error that is the cause."""
    suspects = collectives.suspects(book, found, ctx)
    if suspects is None:
        return chosen, None
    if suspects.rank is not None and chosen.rule != _STUCK:
        hidden = hidden_errors.last_of(suspects.rank, chosen, book)
        if hidden is not None:
            return hidden, None
        suspects = _at(suspects, suspects.rank, chosen, found, book)
    if suspects.proven and suspects.ranks and not (suspects.work or suspects.helps):
        chosen = chosen._replace(cause=failures.Cause.HANG)
    return chosen, suspects


def _at(
    suspects: missed.Suspects,
    rank: int,
    chosen: candidates.Candidate,
    found: list[candidates.Candidate],
    book: casebook.Casebook,
) -> missed.Suspects:
    """The same with what the one was at instead."""
    work = lone_work.find(book, rank, chosen.order)
    if work is not None:
        suspects = replace(suspects, work=work, entries=(*suspects.entries, work))
    if suspects.helps is not None:
        return suspects
    told = (unfinished.work(book, found), uneven.left_early(book, found))
    same = next((one for one in told if one is not None and one.rank == rank), None)
    return suspects if same is None else replace(suspects, helps=same.helps)


_STUCK = "kernel_hung_task"
"""The rule for a process that the kernel sees wait: what it began does not go on, however long the others wait."""
