"""From a cause to what would help, whose matter it is, and what would settle an open question."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from runward.core import (
    again,
    candidates,
    casebook,
    circumstances,
    context,
    evictions,
    failures,
    regexes,
    rules,
    standing,
)

if TYPE_CHECKING:
    from runward.core import missed

_C, _A, _S = failures.Cause, failures.Action, failures.Scope
DEFAULTS: Mapping[failures.Cause, failures.Action] = {
    _C.NONE: _A.NONE,
    _C.CANCELLED: _A.HOLD,
    _C.PREEMPTED: _A.RESTART,
    _C.TIME_LIMIT: _A.RESTART,
    _C.NODE_FAILURE: _A.RESTART_ELSEWHERE,
    _C.UNSCHEDULABLE: _A.WAIT,
    _C.IMAGE_ERROR: _A.CHANGE,
    _C.CONTAINER_ERROR: _A.CHANGE,
    _C.CONFIG_ERROR: _A.CHANGE,
    _C.IMPORT_ERROR: _A.CHANGE,
    _C.EXCEPTION: _A.HOLD,
    _C.DATA_ERROR: _A.HOLD,
    _C.GPU_OOM: _A.CHANGE,
    _C.HOST_OOM: _A.CHANGE,
    _C.SHM: _A.CHANGE,
    _C.RESOURCE_LIMIT: _A.CHANGE,
    _C.KILLED: _A.RESTART,
    _C.DISK_FULL: _A.HOLD,
    _C.IO_ERROR: _A.RESTART,
    _C.PERMISSION: _A.CHANGE,
    _C.CHECKPOINT_CORRUPT: _A.RESUME_PREVIOUS,
    _C.CHECKPOINT_MISMATCH: _A.CHANGE,
    _C.CUDA_ERROR: _A.RESTART,
    _C.GPU_HARDWARE: _A.RESTART_ELSEWHERE,
    _C.DRIVER: _A.RESTART_ELSEWHERE,
    _C.NCCL_ERROR: _A.RESTART,
    _C.NCCL_TIMEOUT: _A.RESTART,
    _C.DISTRIBUTED_TIMEOUT: _A.RESTART,
    _C.NETWORK: _A.RESTART,
    _C.RENDEZVOUS: _A.RESTART,
    _C.HUB_NETWORK: _A.WAIT,
    _C.AUTH: _A.HOLD,
    _C.HANG: _A.RESTART,
    _C.DATALOADER: _A.RESTART,
    _C.NUMERICAL_INSTABILITY: _A.HOLD,
    _C.SEGFAULT: _A.RESTART,
    _C.ABORT: _A.RESTART,
    _C.GPU_IDLE: _A.HOLD,
    _C.UNKNOWN: _A.RESTART,
}
_INFRA = (_C.NODE_FAILURE, _C.GPU_HARDWARE, _C.DRIVER, _C.NETWORK, _C.NCCL_ERROR, _C.IO_ERROR)
_PLATFORM = (
    _C.CANCELLED,
    _C.PREEMPTED,
    _C.TIME_LIMIT,
    _C.UNSCHEDULABLE,
    _C.IMAGE_ERROR,
    _C.CONTAINER_ERROR,
    _C.KILLED,
    _C.HUB_NETWORK,
    _C.RENDEZVOUS,
    _C.NCCL_TIMEOUT,
    _C.DISTRIBUTED_TIMEOUT,
)
_MANY = 4
"""Ranks from which one alone is told from all."""
_ASKS = "megatron_rerun_asks"
_RIGHT = "megatron_result_right"
"""The rules for a training that ends so that another GPU computes its last step again, and for what that one said."""
_EARLY_SEQ = 10
"""A time-out in one of the first collectives is one of start-up: somebody was still loading."""


def scope(cause: failures.Cause) -> failures.Scope | None:
    """Whose matter a cause is when its rule does not say."""
    if cause in (_C.NONE, _C.UNKNOWN, _C.HANG):
        return None
    if cause in _INFRA:
        return _S.INFRA
    return _S.PLATFORM if cause in _PLATFORM else _S.USER


def choose(
    chosen: candidates.Candidate,
    book: casebook.Casebook,
    ctx: context.Context,
    suspects: "missed.Suspects | None",
) -> failures.Action:
    """What would help, whatever policy and budget. `suspects`: whom the others waited for."""
    if suspects is not None and suspects.helps is not None:
        return suspects.helps
    if chosen.cause in failures.TIMEOUTS:
        special = _A.HOLD if _died_before(chosen, book) else _of_timeout(book, suspects)
    else:
        special = _special(chosen, book, ctx)
    found = special or chosen.action or DEFAULTS[chosen.cause]
    return _A.RESTART if found is _A.WAIT and _waits_in_vain(chosen, ctx) else found


def _waits_in_vain(chosen: candidates.Candidate, ctx: context.Context) -> bool:
    """Whether a run lives and says nothing since a thread of it died of what was away: nobody asks again."""
    died = chosen.traceback is not None and not chosen.traceback.quoted
    return died and ctx.running is True and (ctx.silent_s or 0) >= standing.SILENT_S


def _special(
    chosen: candidates.Candidate, book: casebook.Casebook, ctx: context.Context
) -> failures.Action | None:
    if _comes_again(chosen, book, ctx):
        return _A.HOLD
    if again.from_scratch(chosen, book):
        return _A.CHANGE
    if again.of_one_card(chosen, book):
        return _A.RESTART_ELSEWHERE
    told = circumstances.action(chosen, book) or _of_taken_card(chosen, book, ctx)
    if told is not None:
        return told
    rule = book.rules.get(chosen.rule)
    if rule is not None and rule.alone is not None and _one_of_many(chosen, book):
        return rule.alone
    evicted = chosen.cause is _C.HOST_OOM and ctx.state.startswith("EVICTED") and chosen.entry is None
    evicted = evicted or evictions.in_the_way(chosen.rule, chosen.text)
    if evicted or (
        chosen.cause is _C.NUMERICAL_INSTABILITY and chosen.rule != _RIGHT and bool(book.of_rule(_ASKS))
    ):
        return _A.RESTART_ELSEWHERE
    return None


def _of_taken_card(
    chosen: candidates.Candidate, book: casebook.Casebook, ctx: context.Context
) -> failures.Action | None:
    if chosen.cause is not _C.GPU_OOM:
        return None
    from runward.core import taken_cards  # noqa: PLC0415 -- of these alone

    return taken_cards.action(chosen, book, ctx)


def _of_timeout(book: casebook.Casebook, suspects: "missed.Suspects | None") -> failures.Action | None:
    """A program that parts its ranks would do so again, as would a work of one rank that the others do not wait out.

    One that waits for ever at its start is set up wrong; where all ranks of one node are missed, it is the node.
    """
    from runward.core import unlike_calls  # noqa: PLC0415 -- a start without it is shorter

    if unlike_calls.split(book) is not None or unlike_calls.torn(book) is not None:
        return _A.HOLD
    worked = suspects is not None and (suspects.work is not None or suspects.setup)
    if worked or _at_start(book):
        return _A.CHANGE
    return _A.RESTART_ELSEWHERE if suspects is not None and suspects.node else None


def _comes_again(chosen: candidates.Candidate, book: casebook.Casebook, ctx: context.Context) -> bool:
    """Whether a second start would only meet the same, so that a person is asked."""
    if _died_before(chosen, book):
        return True
    if chosen.cause in (_C.UNKNOWN, *again.OF_ITSELF) and _inner_restarts(book) >= 2:
        return True
    match chosen.cause:
        case _C.UNKNOWN:
            return _by_itself(book, ctx) or again.all_at_one_step(book)
        case _C.SEGFAULT | _C.ABORT:
            if again.at_each_start(chosen, book):
                return True
            alone = not book.ranks and not book.nodes
            return chosen.rule == "faulthandler_segfault" and alone and not book.progress
    return False


def _died_before(chosen: candidates.Candidate, book: casebook.Casebook) -> bool:
    return again.at_same_step(chosen, book) or again.before_any_step(chosen, book)


def _one_of_many(chosen: candidates.Candidate, book: casebook.Casebook) -> bool:
    if chosen.rank is None or max(book.ranks, default=0) + 1 < _MANY:
        return False
    return {entry.signal.rank for entry in book.of_rule(chosen.rule)} == {chosen.rank}


def _inner_restarts(book: casebook.Casebook) -> int:
    """How often a launcher restarted the ranks by itself without a step in between."""
    return book.count(*book.that_say(rules.Says.RESTARTED)) if not book.progress else 0


def _at_start(book: casebook.Casebook) -> bool:
    """Whether all time-outs are of a barrier (one element) among the first collectives."""
    fields = [entry.signal.fields for entry in book.with_field("seq")]
    early = [f["seq"].isdigit() and len(f["seq"]) < 12 and int(f["seq"]) <= _EARLY_SEQ for f in fields]
    return bool(fields) and all(early) and all(f.get("numel") == "1" for f in fields)


_OF_OTHERS = (
    rb"(?i)time[sd]?[ -]?out|connection|unavailable|temporar|unreachable|refused|reset by|retr(?:y|ies)|heartbeat"
    rb"|socket|lost|peer|contact|gone away|respond|congest|throttl|busy"
)
"""Words of those that wait for somebody else."""
_LAST = 2000


def _by_itself(book: casebook.Casebook, ctx: context.Context) -> bool:
    """Whether a program ended by its own decision before its first step, with words that no rule knows.

    Nearly always something is wrong with what it was given, and a second start meets that again.
    """
    if ctx.exit is None or ctx.exit.code is None or not 0 < ctx.exit.code < _NOT_RUN or book.progress:
        return False
    tails = [edges.tail[-_LAST:] for edges in book.edges.values() if edges.tail.strip()]
    return bool(tails) and not any(map(regexes.ready(_OF_OTHERS).search, tails))


_NOT_RUN = 125
"""Exit codes from here on are those of shells and container engines."""


def notes(verdict: failures.Verdict, ctx: context.Context) -> list[str]:
    """What was not seen, and what would settle it."""
    found = []
    if verdict.cause is _C.KILLED:
        found.append("not proven who killed it: dmesg or the memory cgroup's oom_kill would settle it")
    if verdict.cause in (_C.NCCL_TIMEOUT, _C.DISTRIBUTED_TIMEOUT) and verdict.rank is None:
        found.append("no rank is proven guilty: stacks of all ranks or flight-recorder dumps would settle it")
    if verdict.cause is _C.HOST_OOM and verdict.certainty is not failures.Certainty.PROVEN:
        found.append("only the text says so: the kernel log or memory.events would prove it")
    if verdict.cause is _C.UNKNOWN:
        found.append("the lines shown are the most unusual ones of its end, not a cause")
    if verdict.cause is _C.CUDA_ERROR:
        found.append("the kernel log (Xid lines) would tell a fault of the device from one of the program")
    if ctx.exit is None and ctx.running is None and verdict.cause is not _C.NONE:
        found.append("the exit status is not known")
    return found
