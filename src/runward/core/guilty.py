"""Which rank a verdict names: the one that speaks, the one in torchrun's table, or the one that the others miss."""

from runward.core import (
    candidates,
    casebook,
    context,
    devices,
    evidence,
    failures,
    launcher_ends,
    layouts,
    numerics,
    own_numbers,
    prefixes,
    regexes,
    roster,
    rules,
    voices,
    whose,
)

_C = failures.Cause
_SILENT_ENDS = (_C.HOST_OOM, _C.KILLED, _C.GPU_HARDWARE, _C.IMAGE_ERROR, _C.CONTAINER_ERROR)
"""Ends of a rank that says nothing itself: the others wait for it."""
_LOST = (_C.NCCL_ERROR, _C.NETWORK, _C.RENDEZVOUS)
_LOST_PEER = (
    r"(?i)remote process exit|ncclRemoteError|by (?:remote )?peer|got 0 bytes|broken pipe|communicator was aborted"
    r"|connection (?:was )?(?:closed|reset|refused)|status=12\b|keep-?alive|wait timeout|timed out|rendezvous\w*error"
    r"|PTLTE_NOT_FOUND|OFI poll failed|retry count exceeded|\bRC QP 0x"
)
"""Words of a rank that only tells that another one went away or did not come."""
_SURROUNDINGS = (
    _C.CONFIG_ERROR,
    _C.IMPORT_ERROR,
    _C.DATA_ERROR,
    _C.PERMISSION,
    _C.IO_ERROR,
    _C.DISK_FULL,
    _C.CHECKPOINT_CORRUPT,
    _C.CHECKPOINT_MISMATCH,
    _C.AUTH,
    _C.HUB_NETWORK,
    _C.DRIVER,
)
_SEVERAL = 3
"""Ranks that fail in the same words for what lies around them."""
_UNLIKE = (
    r"^[\w.]{1,120}(?:Error|Exception): |Process \d+ has [\d.]+ [KMGT]iB memory in use\. |\b[KMGT]iB\b"
    r"|/dev/shm/[\w.-]+|\d+"
)
_ANY_RANK = r"(?:(?<![\w-])[Rr]anks?[ =:#]{0,2}|/job:worker/replica:\d{1,4}/task:)(\d{1,6})\b"
_FAILED = (
    r"\b(?:on|from|in|by|for|of|at) (?:global )?[Rr]ank[ =:#]{0,2}(\d{1,6})\b"
    r"|^(?:[\w.]{1,120}: )?\(?\[?[Rr]ank[ =:#]{0,2}(\d{1,6})[)\]:]{0,2} (?!timed|waits?|waiting|successfully)"
    r"|rror: From /job:worker/replica:\d{1,4}/task:(\d{1,6}):"
)
_BODY = 600
_SAVED = (_C.DISK_FULL, _C.IO_ERROR, _C.CHECKPOINT_CORRUPT)


def rank(
    chosen: candidates.Candidate,
    found: list[candidates.Candidate],
    book: casebook.Casebook,
    known: roster.Roster,
) -> int | None:
    """The rank of the chosen cause, or None where nothing tells one from the others."""
    if chosen.cause in (_C.NONE, *failures.TIMEOUTS):
        return None
    if chosen.cause is _C.CANCELLED and book.that_say(rules.Says.TOLD_TO_END):
        return None  # the launcher was asked, and asked every rank in its turn
    case = whose.Case(chosen, found, book, known)
    if lost_peer(chosen, book):
        return _awaited(book) if chosen.cause is _C.RENDEZVOUS else _missed(case)
    odd = _odd_one(book)
    odd = _first_agents(case) if odd is None else odd
    odd = _first_bad(case) if odd is None else odd
    odd = _uneven(case) if odd is None else odd
    odd = _unlike(case) if odd is None else odd
    if odd is not None or _everyones(case):
        return odd
    if chosen.cause in _LOST:
        case = case._replace(found=[one for one in found if not lost_peer(one, book)])
    ranks = (ask(case) for ask in (_SURE if _several_devices(case) else _ASKED))
    return next((told for told in ranks if told is not None), None)


def _first_bad(case: whose.Case) -> int | None:
    """The one rank whose loss was no number at a step at which those of others were: from it all others have it."""
    if case.chosen.cause is not _C.NUMERICAL_INSTABILITY:
        return None
    reported = next((one.rank for one in case.found if one.rule == numerics.REPORTS), None)
    if reported is not None:
        return reported
    own = own_numbers.ranks(case.book)
    return own.pop() if len(own) == 1 else None


def _first_agents(case: whose.Case) -> int | None:
    """Of several agents of torchrun that each saw a rank end alike the rank that ended in the earliest second."""
    roots = {row.node: row for row in case.known.rows if row.root and row.code != whose.TERMINATED}
    if (
        not case.chosen.rule.startswith("elastic")
        or len(roots) < 2
        or len({r.code for r in roots.values()}) > 1
    ):
        return None
    first, second = sorted(roots.values(), key=lambda row: row.at)[:2]
    return first.rank if "" < first.at < second.at else None


def _everyones(case: whose.Case) -> bool:
    """Whether every rank that is known, or each of one node, says the same, or several lack the same thing.

    That is the matter of no single one.
    """
    chosen, ranks = case.chosen, case.book.ranks
    if case.book.says(chosen.rule, rules.Says.TAKEN) and _several_taken(case):
        return True
    around = chosen.cause in _SURROUNDINGS or case.book.says(chosen.rule, rules.Says.STORE)
    if case.book.says(chosen.rule, rules.Says.SHARED):
        return True
    if chosen.cause in _SAVED and case.book.with_field("several"):
        return True  # a gathered report of a checkpoint names them
    if chosen.cause is _C.NUMERICAL_INSTABILITY and len(own_numbers.ranks(case.book)) > 1:
        return True  # several lost their numbers before any could have it from another
    if around and chosen.rank is None:
        own = {row.rank for row in case.known.rows if not row.code.startswith("-")}
        return len(own) >= _SEVERAL or _said_by_several(case)
    if chosen.rank is None or len(ranks) <= 1:
        return False
    words = _words(chosen)
    alike = {c.rank for c in case.found if c.cause is chosen.cause and _words(c) == words} - {None}
    own = case.book.voices.on_node(chosen.node or "")
    of_node = len(own) >= _SEVERAL and alike >= own
    return alike >= ranks or of_node or (around and len(alike) >= _SEVERAL)


def _several_taken(case: whose.Case) -> bool:
    """Whether the machines of several ranks were taken away."""
    told = (case._replace(chosen=one) for one in case.found if one.rule == case.chosen.rule)
    ranks = {
        rank
        for one in told
        if (rank := whose.by_pod(one)) is not None or (rank := whose.by_node(one)) is not None
    }
    return len(ranks) > 1


def _said_by_several(case: whose.Case) -> bool:
    """Whether nobody signs, and the same stands in one log twice: two processes wrote it."""
    chosen = case.chosen
    same = [c for c in case.found if c.rule == chosen.rule and c.rank is None and c.file == chosen.file]
    return sum(1 for one in same if one.text == chosen.text) > 1


def _several_devices(case: whose.Case) -> bool:
    """Whether the kernel tells of several GPUs at once: which process ended first says nothing of the first GPU."""
    if case.chosen.cause is not _C.GPU_HARDWARE:
        return False
    told = (c for c in case.found if c.rule == case.chosen.rule and c.entry is not None)
    return len({bus for c in told for bus in devices.addresses(c.text)}) > 1


def _words(candidate: candidates.Candidate) -> str:
    """What a line says but for its speaker, the class of its exception and all numbers."""
    return regexes.ready(_UNLIKE).sub("", prefixes.split(candidate.text).body)


def lost_peer(one: candidates.Candidate, book: casebook.Casebook) -> bool:
    """Whether the line only tells that somebody else is gone: who says so is not the one."""
    if one.cause not in _LOST or book.says(one.rule, rules.Says.STORE):
        return False
    if regexes.ready(_LOST_PEER).search(one.text[:_BODY]) is not None:
        return True
    return one.entry is not None and any(told.place == one.entry.place for told in book.with_field("lost"))


def _awaited(book: casebook.Casebook) -> int | None:
    """The rank for whose word the others waited at the start."""
    ranks = {int(entry.signal.fields["awaited"]) for entry in book.with_field("awaited")}
    if ranks:
        return ranks.pop() if len(ranks) == 1 else None
    from runward.core import collectives  # noqa: PLC0415 -- see `_missed`

    missing = collectives.of_meeting(book)
    return missing.rank if missing is not None else None


def _odd_one(book: casebook.Casebook) -> int | None:
    """The one rank of all pairs of which one says that the other is in another call than it is itself."""
    entries = [entry for entry in book.with_field("odd") if entry.signal.rank is not None]
    pairs = {frozenset((entry.signal.rank, int(entry.signal.fields["odd"]))) for entry in entries}
    in_all = frozenset.intersection(*pairs) if len(pairs) > 1 else frozenset()
    return next(iter(in_all)) if len(in_all) == 1 else None


def _culprit(case: whose.Case) -> int | None:
    """The one rank that the message names as the one that failed, whoever prints it."""
    chosen = case.chosen
    if chosen.entry is None or chosen.weight <= candidates.SYMPTOM or "rank" in (chosen.fields or {}):
        return None
    body = prefixes.split(chosen.text).body[:_BODY]
    named = {number for found in regexes.ready(_ANY_RANK).finditer(body) for number in found.groups()}
    found = regexes.ready(_FAILED).search(body)
    return int(found[found.lastindex or 0]) if found and len(named) == 1 else None


def _saved(case: whose.Case) -> int | None:
    """The one rank that a gathered report of a checkpoint names."""
    if case.chosen.cause not in _SAVED:
        return None
    failed = {entry.signal.rank for entry in case.book.of_rule("checkpoint_exception")}
    return failed.pop() if len(failed) == 1 else None


def _same_cause(case: whose.Case) -> int | None:
    """The one rank of all lines that say the cause; where none has one, of those that speak for it."""
    own, speaking = (case.chosen.cause,), evidence.related(case.chosen.cause)
    told = ({c.rank for c in case.found if c.cause in causes} - {None} for causes in (own, speaking))
    same = next((ranks for ranks in told if ranks), set())
    return same.pop() if len(same) == 1 else None


def _first_task(case: whose.Case) -> int | None:
    """The task that srun names first, before it ends others, where only a witness beside the log tells the cause."""
    if case.chosen.entry is not None or case.chosen.cause in candidates.ENDS:
        return None
    first = candidates.first_task(case.found, case.book)
    return first.rank if first is not None else None


def _silent(case: whose.Case) -> int | None:
    """The one that others miss, where the cause is one of those that leave no words."""
    chosen = case.chosen
    if case.book.says(chosen.rule, rules.Says.TAKEN):
        return _named(case.book) if sum(c.rule == chosen.rule for c in case.found) == 1 else None
    return _missed(case) if chosen.cause in _SILENT_ENDS else None


def words(chosen: candidates.Candidate, rank: int | None) -> str:
    """Who it is, for people: a local rank goes with its node where the global one is not known."""
    if rank is not None:
        return f"rank {rank}"
    signal = chosen.entry.signal if chosen.entry else None
    if signal is None or signal.rank is not None or signal.voice.number is None or not signal.voice.node:
        return "the run"
    kind = "local rank" if signal.voice.number < layouts.MOST_LOCAL else "process"
    return f"{kind} {signal.voice.number} on {signal.voice.node}"


def _missed(case: whose.Case) -> int | None:
    from runward.core import collectives  # noqa: PLC0415 -- a start without it is 2 ms shorter

    known = context.Context(world_size=case.known.world)
    missing = collectives.suspects(case.book, case.found, known)
    return missing.rank if missing is not None else None


def _named(book: casebook.Casebook) -> int | None:
    from runward.core import named_missing  # noqa: PLC0415 -- see `_missed`

    return named_missing.rank(book)


def _launchers(case: whose.Case) -> int | None:
    """The rank that a launcher says ended first; of a node that is gone only one that is named."""
    if case.chosen.cause is _C.NODE_FAILURE:
        missed = _named(case.book)
        return (
            missed if missed is not None else case.book.voices.rank(voices.Voice(node=case.chosen.node or ""))
        )
    ended = launcher_ends.seen(case.found, case.chosen.cause)
    if ended is None:
        roots = [row.rank for row in case.known.rows if row.root and row.code != whose.TERMINATED]
        return roots[-1] if roots else launcher_ends.first(case.book)
    return ended.rank


def _alone(case: whose.Case) -> int | None:
    """The rank of a machine that holds one, where its own lines do not tell it."""
    from runward.core import lone_ranks  # noqa: PLC0415 -- see `_missed`

    rank = lone_ranks.of_one_process(case)
    return lone_ranks.of_last_node(case) if rank is None else rank


def _of_log(case: whose.Case) -> int | None:
    """The rank whose log alone is read, where the cause is its own and not that of its peers or of a service."""
    return None if case.chosen.cause in (*_LOST, _C.HUB_NETWORK) else whose.of_log(case)


def _uneven(case: whose.Case) -> int | None:
    """The rank with other counts than all others, where ranks are in different calls: whoever met it says so."""
    if case.chosen.rule != "collective_mismatch":
        return None
    from runward.core import uneven  # noqa: PLC0415 -- few logs tell of it

    told = uneven.counted(case.book) or uneven.ran_out(case.book)
    return told.rank if told is not None else None


def _lags(case: whose.Case) -> int | None:
    """The one rank that was found to lag behind, where a training was ended for that or a GPU runs slowed down."""
    if case.chosen.rule not in ("straggler_ended", "gpu_slowdown"):
        return None
    from runward.core import missed  # noqa: PLC0415 -- see `_missed`

    ranks = missed.lagging(case.book)
    return ranks.pop() if len(ranks) == 1 else None


_OF_SETUP = (_C.CONFIG_ERROR, _C.NCCL_ERROR, _C.RENDEZVOUS)


def _unlike(case: whose.Case) -> int | None:
    """The one rank that was set up unlike all others, where those that meet do not fit together."""
    shared = case.book.says(case.chosen.rule, rules.Says.SHARED)
    nccls = case.chosen.rule.startswith("nccl_")
    own = case.chosen.rank is not None and not shared and not nccls
    if case.chosen.cause not in _OF_SETUP or own or case.book.progress:
        return None
    from runward.core import unlike_setups  # noqa: PLC0415 -- few logs tell of it

    told = unlike_setups.other(case.book, versions=not shared) or unlike_setups.loopback(case.book)
    return told.rank if told is not None else _with_a_fault(case)


def _with_a_fault(case: whose.Case) -> int | None:
    """The one rank whose own error of NCCL is none of a lost peer, where the line of the cause names nobody."""
    if case.chosen.rank is not None or not case.chosen.rule.startswith("nccl_"):
        return None
    told = [one for one in case.found if one.cause is _C.NCCL_ERROR and one.rank is not None]
    ranks = {one.rank for one in told if not lost_peer(one, case.book)}
    return ranks.pop() if len(ranks) == 1 and ranks < {one.rank for one in told} else None


def _doubted(case: whose.Case) -> int | None:
    """The one rank whose result Megatron doubted, where another GPU then gave another one."""
    if case.chosen.rule != "megatron_rerun_elsewhere":
        return None
    told = {entry.signal.rank for entry in case.book.of_rule("megatron_local_nan", "megatron_rerun")} - {None}
    return told.pop() if len(told) == 1 else None


_SURE = (
    _culprit,
    _doubted,
    _lags,
    whose.spoken,
    whose.by_process,
    whose.by_pod,
    whose.by_gpu,
    whose.by_node,
    whose.by_name,
)
"""Who is asked where only what the line itself names counts."""
_ASKED = (
    *_SURE,
    whose.own,
    whose.by_command,
    whose.announced,
    whose.in_table,
    whose.by_exit,
    whose.by_agent,
    whose.listed,
    _saved,
    _alone,
    whose.alike,
    _same_cause,
    _first_task,
    _silent,
    _launchers,
    _of_log,
)
"""Who is asked, the surest first."""
