"""A collective that timed out: who never came to it.

The ranks that complain are the ones that waited. Guilty is the rank whose last enqueued work is below the others'
and completed, the rank that a barrier names, or the one that says nothing while all others complain.
"""

import re
from collections import Counter
from typing import NamedTuple

from runward.core import (
    blocked,
    broken_links,
    candidates,
    casebook,
    context,
    failures,
    joined,
    last_words,
    missed,
    named_missing,
    own_links,
    rules,
    signals,
    uneven,
    unfinished,
    unlike_calls,
    unlike_setups,
)

_ENOUGH = 3
"""From so many complaining ranks on, one that lies between them and is never heard of exists."""


def suspects(
    book: casebook.Casebook, found: list[candidates.Candidate], ctx: context.Context
) -> missed.Suspects | None:
    """The ranks that did not join the collective that the others waited in; None when nothing names one."""
    told = _missed(book, found, ctx)
    return missed.placed(told, book) if told is not None else None


def _missed(
    book: casebook.Casebook, found: list[candidates.Candidate], ctx: context.Context
) -> missed.Suspects | None:
    return (
        _recorded(ctx, behind=True)
        or named_missing.named(book)
        or joined.listed(book)
        or joined.one_short(book)
        or joined.without_heartbeat(book)
        or _counters(book)
        or _sequences(book)
        or _logged(book)
        or blocked.waits(book)
        or unlike_setups.loopback(book)
        or _other_call(book)
        or own_links.cut_off(book)
        or uneven.in_other_calls(book)
        or unlike_calls.both(book)
        or uneven.left_early(book, found)
        or _reached(book)
        or _recorded(ctx, behind=False)
        or _stacks(book)
        or _own_stack(book, found)
        or _tabled(book)
        or _step_behind(book)
        or broken_links.lost(book)
        or _barrier(book)
        or _stuck(book)
        or unfinished.work(book, found)
        or _late(book, found)
        or _not_waiting(_apart(book), found)
        or _silent(book, found, ctx)
        or _straggler(book)
        or _away(book, found)
        or _at_work(book, found)
    )


def _recorded(ctx: context.Context, *, behind: bool) -> missed.Suspects | None:
    """Those that are behind by the flight recorders' counters; or the few of which there is no dump."""
    seen = ctx.flight
    if seen is None:
        return None
    if behind:
        proof = seen.evidence()
        return (
            missed.Suspects(seen.behind, f"flight recorder: {seen.text}", proven=True, proof=proof)
            if seen.behind
            else None
        )
    few = 0 < len(seen.silent) <= max(1, (len(seen.silent) + len(seen.ranks)) // 4) and len(seen.ranks) > 1
    why = f"no flight-recorder dump of it: {seen.text}"
    return missed.Suspects(seen.silent, why, proven=False, proof=seen.evidence()) if few else None


def of_silence(book: casebook.Casebook) -> missed.Suspects | None:
    """Who holds up a training that is merely silent: named by a tool, behind in calls, or elsewhere by its stack."""
    asked = (
        named_missing.named,
        joined.listed,
        joined.one_short,
        _counters,
        _logged,
        _reached,
        _stacks,
        _tabled,
        _step_behind,
        _apart,
    )
    return next((told for told in (ask(book) for ask in asked) if told is not None), None)


def of_meeting(book: casebook.Casebook) -> missed.Suspects | None:
    """Who did not come where the others waited for its word."""
    asked = (joined.listed, joined.one_short, joined.without_heartbeat, last_words.stopped)
    return next((told for told in (ask(book) for ask in asked) if told is not None), None)


def _counters(book: casebook.Casebook) -> missed.Suspects | None:
    """Last enqueued and last completed work of each rank, as the ranks print them when they give up.

    Each group of ranks counts its own.
    """
    groups: dict[str, dict[int, _Counted]] = {}
    for entry in book.with_field("enqueued"):
        fields, rank = entry.signal.fields, entry.signal.rank
        numbers = (fields.get("enqueued", ""), fields.get("completed", ""))
        if rank is not None and all(re.fullmatch(r"-?\d{1,15}", text) for text in numbers):
            counted = _Counted(int(numbers[0]), int(numbers[1]), entry)
            groups.setdefault(fields.get("pg", ""), {})[rank] = counted
    found = (_behind(state) for state in groups.values())
    return next((told for told in found if told is not None), None)


class _Counted(NamedTuple):
    enqueued: int
    completed: int
    entry: casebook.Entry


def _behind(state: dict[int, _Counted]) -> missed.Suspects | None:
    """Who completed all that it enqueued, and that is less than others of its group wait in."""
    top = max(one.enqueued for one in state.values())
    behind = {r: one for r, one in state.items() if one.enqueued < top and one.enqueued <= one.completed}
    if not behind or len(behind) == len(state):
        return None
    low = min(one.enqueued for one in behind.values())
    ranks = tuple(sorted(r for r, one in behind.items() if one.enqueued == low))
    why = f"its last enqueued collective {low} is completed, while others wait in {low + 1} or later"
    waiting = next(one.entry for r, one in state.items() if r not in behind)
    return missed.Suspects(ranks, why, proven=True, entries=(behind[ranks[0]].entry, waiting))


def _sequences(book: casebook.Casebook) -> missed.Suspects | None:
    """Ranks that timed out in an earlier collective than the others are behind."""
    seqs: dict[int, tuple[int, casebook.Entry]] = {}
    for entry in book.with_field("seq"):
        rank, text = entry.signal.rank, entry.signal.fields["seq"]
        if rank is not None and rank not in seqs and re.fullmatch(r"\d{1,15}", text):
            seqs[rank] = (int(text), entry)
    if len(seqs) < 3:
        return None
    low, high = min(s for s, _ in seqs.values()), max(s for s, _ in seqs.values())
    ranks = tuple(sorted(rank for rank, (seq, _) in seqs.items() if seq == low))
    if low == high or len(ranks) > len(seqs) // 3:
        return None
    why = f"it waits in collective {low}, the others in {high}"
    status = [entry for entry in book.with_field("enqueued") if entry.signal.rank == ranks[0]]
    return missed.Suspects(ranks, why, proven=False, entries=(seqs[ranks[0]][1], *status[:1]))


def _logged(book: casebook.Casebook) -> missed.Suspects | None:
    """The process that NCCL logs in another call than all others."""
    from runward.core import logged_calls  # noqa: PLC0415 -- few logs hold calls

    return logged_calls.odd_one(book)


def _reached(book: casebook.Casebook) -> missed.Suspects | None:
    """The rank whose recorded calls end before those of all others."""
    last: dict[int, tuple[int, casebook.Entry]] = {}
    for entry in book.with_field("reached"):
        rank, number = entry.signal.rank, int(entry.signal.fields["reached"])
        if rank is not None and number >= last.get(rank, (0, entry))[0]:
            last[rank] = (number, entry)
    low = min((number for number, _ in last.values()), default=0)
    behind = [rank for rank, (number, _) in last.items() if number == low]
    if len(behind) != 1 or len(last) < _ENOUGH:
        return None
    why = f"its recorded calls end with {low}, those of all others later"
    return missed.Suspects((behind[0],), why, proven=False, entries=(last[behind[0]][1],))


def _stacks(book: casebook.Casebook) -> missed.Suspects | None:
    """The rank that by its printed stack is no waiting one, while the others are."""
    from runward.core import printed_stacks  # noqa: PLC0415 -- few logs hold stacks

    return printed_stacks.elsewhere(book)


def _own_stack(book: casebook.Casebook, found: list[candidates.Candidate]) -> missed.Suspects | None:
    """The rank that alone printed its stack, while the others waited."""
    from runward.core import printed_stacks  # noqa: PLC0415 -- see `_stacks`

    return printed_stacks.alone(book, found)


def _tabled(book: casebook.Casebook) -> missed.Suspects | None:
    """The rank that a printed table of all ranks shows behind the others."""
    from runward.core import rank_tables  # noqa: PLC0415 -- few logs hold tables

    odd = rank_tables.odd_one(book)
    if odd is None:
        return None
    row, why = odd
    proof = failures.Evidence(row.text, file=row.file, offset=row.offset, rank=row.rank, source="log")
    return missed.Suspects((row.rank,), why, proven=False, proof=(proof,))


def _step_behind(book: casebook.Casebook) -> missed.Suspects | None:
    """The one rank that told every step with the others but their last one."""
    told: dict[int, list[casebook.Entry]] = {}
    for entry in book.entries(signals.Role.PROGRESS):
        if entry.signal.rank is not None and "step" in entry.signal.fields:
            told.setdefault(entry.signal.rank, []).append(entry)
    steps = {rank: tuple(e.signal.fields["step"] for e in entries[-3:]) for rank, entries in told.items()}
    usual, count = next(iter(Counter(steps.values()).most_common(1)), ((), 0))
    rank = next((rank for rank, own in steps.items() if own != usual), None)
    if rank is None or count < _ENOUGH or count + 1 < len(steps) or len(set(usual)) < _ENOUGH:
        return None
    if steps[rank][-2:] != usual[:2]:
        return None
    why = f"its steps end with {usual[1]}, those of all others with {usual[2]}"
    return missed.Suspects((rank,), why, proven=False, entries=(told[rank][-1],))


def _apart(book: casebook.Casebook) -> missed.Suspects | None:
    """The one rank whose last words, or place in a list of all, are unlike those of all others."""
    return last_words.behind(book) or last_words.elsewhere(book) or last_words.stopped(book)


def _barrier(book: casebook.Casebook) -> missed.Suspects | None:
    """The few ranks that did not come to the barrier at the start in which all others wait."""
    at = [e for e in book.with_field("barrier") if e.signal.rank is not None]
    last = at[-1].signal.fields["barrier"] if at else ""
    waiting = {e.signal.rank: e for e in at if e.signal.fields["barrier"] == last}
    worlds = {int(e.signal.fields["world"]) for e in waiting.values() if "world" in e.signal.fields}
    if len(worlds) != 1 or min(worlds) > _MOST_RANKS:
        return None
    missing = tuple(sorted(set(range(min(worlds))) - set(waiting)))
    if not missing or len(missing) > max(1, min(worlds) // 4):
        return None
    return missed.Suspects(missing, "the others wait for it at the start", proven=False, entries=(at[-1],))


_MOST_RANKS = 65536


def _other_call(book: casebook.Casebook) -> missed.Suspects | None:
    """The one rank that waits in another call than all others, at the same number."""
    apart = unlike_calls.split(book)
    if apart is None or len(apart.few) > 1 or apart.many < _ENOUGH:
        return None
    (entry,) = apart.few
    _, op, numel = unlike_calls.operation(entry)
    what = f"{op} of {numel}" if numel else op
    ranks = (entry.signal.rank,) if entry.signal.rank is not None else ()
    return missed.Suspects(ranks, f"it is in {what}, all others are not", proven=False, entries=(entry,))


def _stuck(book: casebook.Casebook) -> missed.Suspects | None:
    """The one rank whose own watchdog could not go on: it hangs below the collective."""
    entries = book.of_rule(*_STUCK)
    ranks = {entry.signal.rank for entry in entries}
    (rank,) = ranks if len(ranks) == 1 else (None,)
    if rank is None:
        return None
    return missed.Suspects(
        (rank,), "its own watchdog got no sign of it", proven=False, entries=tuple(entries[:1])
    )


def _away(book: casebook.Casebook, found: list[candidates.Candidate]) -> missed.Suspects | None:
    """The rank that began a long work of its own as the last thing before, and does not complain."""
    begun = [e for e in book.entries(signals.Role.PHASE) if _begins(e, book)]
    steps = book.entries(signals.Role.PROGRESS)
    if not begun or (steps and steps[-1].order > begun[-1].order):
        return None
    last = begun[-1]
    rank = last.signal.rank if last.signal.rank is not None else 0  # what nobody signs is the first rank's
    if any(c.rank == rank and c.complains for c in found):
        return None
    why = "it began a long work of its own just before, and does not complain"
    return missed.Suspects((rank,), why, proven=False, entries=(last,))


def _at_work(book: casebook.Casebook, found: list[candidates.Candidate]) -> missed.Suspects | None:
    """The one rank that is at a work of its own."""
    from runward.core import lone_work  # noqa: PLC0415 -- asked last

    return lone_work.suspect(book, found)


_STUCK = ("nccl_heartbeat_stuck", "rank_monitor_heartbeat")
_LONG = ("checkpoint", "evaluation", "compile", "download")


def _begins(entry: casebook.Entry, book: casebook.Casebook) -> bool:
    rule = book.rules.get(entry.signal.rule)
    return rule is not None and rule.phase in _LONG and rule.edge != "end"


def _straggler(book: casebook.Casebook) -> missed.Suspects | None:
    """The one rank that was said to be slower than the others before."""
    ranks = missed.lagging(book)
    entries = tuple(book.with_field("straggler")[:1])
    if len(ranks) != 1:
        return None
    return missed.Suspects(tuple(ranks), "it was the slowest before", proven=False, entries=entries)


def _says_itself(candidate: candidates.Candidate) -> bool:
    """Whether the rank speaks, and not its launcher of it: that one had to kill it tells that it was stuck."""
    return candidate.rule != candidates.TASK_KILLED


def _late(book: casebook.Casebook, found: list[candidates.Candidate]) -> missed.Suspects | None:
    """The one rank that only lost the others, in the same log after all of them had timed out."""
    waited = {c.rank: c for c in reversed(found) if c.rank is not None and c.cause in failures.TIMEOUTS}
    lost = [c for c in found if c.cause in _LOST and c.entry is not None and c.rank not in (None, *waited)]
    late = {c.rank for c in lost}
    if len(late) != 1 or len(waited) < _ENOUGH - 1 or book.ranks - late != waited.keys():
        return None
    (rank,) = late
    first = lost[0]
    if (
        rank is None
        or first.entry is None
        or any(c.file != first.file or c.order > first.order for c in waited.values())
    ):
        return None
    why = "it lost the others only after they had waited for it"
    return missed.Suspects((rank,), why, proven=False, entries=(first.entry,))


def _not_waiting(told: missed.Suspects | None, found: list[candidates.Candidate]) -> missed.Suspects | None:
    """Those of whom something is told, unless one says that it waited itself."""
    waited = {c.rank for c in found if c.cause in failures.TIMEOUTS}
    return told if told is not None and not waited & set(told.ranks) else None


_LOST = (failures.Cause.NETWORK, failures.Cause.NCCL_ERROR)


def _silent(
    book: casebook.Casebook, found: list[candidates.Candidate], ctx: context.Context
) -> missed.Suspects | None:
    """The few ranks that say nothing while all others complain of the time-out."""
    asked = {entry.place for entry in book.saying(rules.Says.ASKED)}
    complaining = {
        c.rank
        for c in found
        if c.rank is not None
        and c.complains
        and _says_itself(c)
        and (not c.entry or c.entry.place not in asked)
    }
    known = set(book.ranks)
    if ctx.world_size and ctx.world_size <= _MOST_RANKS:
        known |= set(range(ctx.world_size))
    if len(complaining) >= _ENOUGH:
        known |= set(range(min(complaining), max(complaining)))
    if known and len(known) * 2 < max(known) + 1:
        return None  # of most nothing was heard
    silent = sorted(known - complaining)
    if not complaining or not silent or len(silent) > max(1, len(known) // 4):
        return None
    why = "it alone does not report the time-out" if len(silent) == 1 else "they alone report nothing"
    return missed.Suspects(tuple(silent), why, proven=len(silent) == 1 and len(known) == 2)
