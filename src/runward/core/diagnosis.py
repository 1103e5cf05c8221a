"""From a casebook and what is known beside it to one verdict with its evidence. Pure, deterministic, total."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from runward.core import (
    actions,
    advice,
    again,
    boundaries,
    candidates,
    casebook,
    caught,
    choice,
    context,
    exits,
    failures,
    followed,
    foretold,
    guilty,
    hidden_ends,
    numerics,
    rank_numbers,
    redact,
    reports,
    rhythm,
    roster,
    rules,
    serving,
    signals,
    standing,
    strangers,
    survival,
    tallies,
    testimony,
    unusual,
    voices,
    whose,
)
from runward.core import evidence as evidences

if TYPE_CHECKING:
    from runward.core import missed

_C = failures.Cause
_ECHOED = (_C.UNKNOWN, _C.NETWORK, _C.NCCL_ERROR)
"""Of which the others speak when one rank left."""
_SHUTDOWN = candidates.GENERIC
_CRASHES = (_C.SEGFAULT, _C.ABORT)
"""Of native code while the interpreter shuts down: the training's own work is done."""


class Finding(NamedTuple):
    """The chosen candidate and everything that it was chosen from."""

    chosen: candidates.Candidate
    found: list[candidates.Candidate]
    suspects: "missed.Suspects | None"
    dropped: list[candidates.Candidate]
    """What was survived or belongs to an older attempt."""
    known: roster.Roster
    """Who is who."""


def diagnose(
    book: casebook.Casebook, ctx: context.Context | None = None, attempt: int | None = None
) -> failures.Diagnosis:
    """Why this attempt ended (or how it stands). `attempt`: which one of an appended log, from 1; None: the last."""
    known = ctx or context.Context()
    book = _judged(book, known)
    finding = _find(book, known, attempt)
    action = actions.choose(finding.chosen, book, known, finding.suspects)
    verdict = _verdict(finding, known, action, book)
    return _diagnosis(finding, verdict, book, known)


def weighed(
    book: casebook.Casebook, ctx: context.Context | None = None, attempt: int | None = None
) -> list[Mapping[str, object]]:
    """What was considered, strongest first, and why each is or is not the cause: for people (`--explain`)."""
    known = ctx or context.Context()
    book = _judged(book, known)
    finding = _find(book, known, attempt)
    rows = [(c, "chosen" if c is finding.chosen else "weaker, later or an echo") for c in finding.found]
    rows += [(c, "survived, or of an earlier attempt") for c in finding.dropped]
    if finding.chosen not in finding.found:
        rows.append((finding.chosen, "chosen: no line decides"))
    rows.sort(key=lambda row: (row[1] != "chosen", -row[0].weight, row[0].order))
    return [
        {
            "rule": c.rule,
            "cause": str(c.cause),
            "weight": c.weight,
            "rank": c.rank,
            "why": why,
            "text": redact.text(c.text[:300]),
        }
        for c, why in rows[:24]
    ]


def _judged(book: casebook.Casebook, ctx: context.Context) -> casebook.Casebook:
    """The book as it is judged: whole, without what is told of other logs, with steps that no rule knows."""
    book.settle()
    return rhythm.heard(reports.apart(book), ctx)


def attempts(book: casebook.Casebook) -> int:
    """How many attempts the logs hold: of several logs, that with the most."""
    book = reports.apart(book)
    bounds = boundaries.find(candidates.gather(book), book)
    return 1 + max(map(len, bounds.values()), default=0)


def _find(book: casebook.Casebook, ctx: context.Context, attempt: int | None) -> Finding:
    known = roster.learn(book)
    world = ctx.world_size if ctx.world_size is not None else known.world
    ctx, known = ctx._replace(world_size=world), known._replace(world=world)
    everything = [whose.sure(candidate, book) for candidate in candidates.gather(book)]
    current = boundaries.of_last_attempt(everything, book, attempt)
    found = survival.alive(current, book, ctx)
    kept = {id(c) for c in found}
    dropped = [c for c in everything if id(c) not in kept]
    found = strangers.apart(found, ctx)
    unstable = numerics.find(book, ctx)
    found += [unstable] if unstable else []
    found = foretold.settled([*found, *testimony.gather(ctx)], book)
    found = _beside(found, book, ctx) if ctx.extra else found
    offsets = candidates.skews(book)
    chosen = choice.best(_admitted(found, book, ctx), offsets)
    chosen = followed.cause(chosen, found, book) or chosen
    if attempt is None and _only_echoes(chosen, ctx):
        # a launcher that began again by itself, and whose last try left no words of its own
        before = [c for c in dropped if c.traceback is not None and not c.traceback.quoted]
        chosen = (before[-1] if before and not book.advances_after(before[-1].order) else None) or chosen
    if attempt is None and ctx.running is not True:
        chosen = again.raised_before(chosen, dropped, book) or chosen
    if chosen is None or chosen.weight < _floor(ctx):
        chosen = standing.judge(book, ctx)
        suspects = _of_silence(chosen, book)
    else:
        chosen, suspects = _awaited(chosen, found, book, ctx)
    if chosen.weight < candidates.GENERIC and chosen.cause in _ECHOED and ctx.running is not True:
        left = _left_first(whose.Case(chosen, found, book, known))
        chosen, found = (left[0], [*found, *left]) if left else (chosen, found)
    return Finding(chosen, found, suspects, dropped, known)


def _beside(
    found: list[candidates.Candidate], book: casebook.Casebook, ctx: context.Context
) -> list[candidates.Candidate]:
    """The candidates as disks, cards and nodes beside the log explain them, and what those say themselves."""
    from runward.core import beside, full_disks  # noqa: PLC0415 -- few runs have more than a log

    found = beside.killed_for_memory(beside.settled(found, book, ctx), ctx)
    found = full_disks.settled(found, book, ctx)
    return [*found, *beside.gather(ctx, book), *full_disks.gather(book, ctx)]


def _left_first(case: whose.Case) -> list[candidates.Candidate]:
    from runward.core import leavers  # noqa: PLC0415 -- see `_awaited`

    return leavers.find(case)


def _awaited(
    chosen: candidates.Candidate,
    found: list[candidates.Candidate],
    book: casebook.Casebook,
    ctx: context.Context,
) -> "tuple[candidates.Candidate, missed.Suspects | None]":
    """Who did not come, where others waited; and the cause, which such a one may have told itself."""
    if chosen.cause not in failures.TIMEOUTS:
        return chosen, None
    from runward.core import awaited  # noqa: PLC0415 -- a start without it is 2 ms shorter

    return awaited.find(chosen, found, book, ctx)


def _of_silence(chosen: candidates.Candidate, book: casebook.Casebook) -> "missed.Suspects | None":
    if chosen.cause is not _C.HANG:
        return None
    from runward.core import collectives  # noqa: PLC0415 -- see `_awaited`

    return collectives.of_silence(book)


def _only_echoes(chosen: candidates.Candidate | None, ctx: context.Context) -> bool:
    return ctx.failed and (
        chosen is None or (chosen.cause is _C.UNKNOWN and chosen.weight < candidates.SYMPTOM)
    )


def _floor(ctx: context.Context) -> int:
    """How much a candidate must say: little where the run failed, more where it may be fine."""
    if ctx.running is True:
        return 40
    return 5 if ctx.exit is not None else 25


def _admitted(
    found: list[candidates.Candidate], book: casebook.Casebook, ctx: context.Context
) -> list[candidates.Candidate]:
    """Candidates that may speak although the run may be well, ended well or is over."""
    found = tallies.unaccounted(serving.left(caught.left(found, book, ctx), book, ctx), book, ctx)
    if ctx.running is True or (ctx.exit is None and ctx.running is None):
        found = [c for c in found if not c.aside]
    if (ctx.ended_well or standing.end_mark(book) is not None) and _parted(found, book):
        return found
    if ctx.ended_well and not ctx.children:
        if hidden_ends.launcher_failed(found, book, step=not ctx.state.startswith("COMPLETED")):
            return found
        last = hidden_ends.uncaught(found, book) or hidden_ends.gave_up(found, book)
        own_end = standing.reached(book, ctx)
        beside = [c for c in found if c.entry is None and not (own_end and _only_near_its_limit(c))]
        asked = [c for c in found if _asked(c) and not standing.beside_it(c, ctx)]
        stopped = [c for c in asked if not own_end and book.advances_after(c.order) <= 1]
        counted = [c for c in beside if c.weight >= candidates.PROOF]
        return [c for c in found if c.live or c is last or c in counted or c in stopped]
    mark = standing.end_mark(book)
    if mark is not None and ctx.running is not True:
        done = mark.order
        over = () if book.advances_after(done) else _CRASHES
        found = [c for c in found if c.order < done or c.cause not in over]
        return [c for c in found if c.order < done or c.weight >= _SHUTDOWN or c.entry is None]
    return found


def _parted(found: list[candidates.Candidate], book: casebook.Casebook) -> bool:
    """Whether some ranks ended for want of data while others waited for them: no good end, whoever says so."""
    if not any(one.cause in failures.TIMEOUTS for one in found):
        return False
    from runward.core import uneven  # noqa: PLC0415 -- see `_awaited`

    return uneven.left_early(book, found) is not None


def _asked(candidate: candidates.Candidate) -> bool:
    """Whether somebody else ended the run: a program that obeys may exit with 0, after the step under way."""
    return candidate.ends or candidate.cause in (_C.CANCELLED, _C.PREEMPTED)


def _only_near_its_limit(candidate: candidates.Candidate) -> bool:
    """Whether the scheduler names a limit that was near when a program ended by its own will."""
    return candidate.source == "scheduler" and candidate.cause is _C.TIME_LIMIT


# -- the verdict ---------------------------------------------------------------------------------------------


def _verdict(
    finding: Finding, ctx: context.Context, action: failures.Action, book: casebook.Casebook
) -> failures.Verdict:
    chosen = finding.chosen
    rank = _rank(finding, book, ctx)
    rule = book.rules.get(chosen.rule)
    return failures.Verdict(
        cause=chosen.cause,
        scope=(rule.scope if rule and rule.scope else None) or actions.scope(chosen.cause),
        action=action,
        certainty=_certainty(finding, ctx),
        summary=_summary(finding, rank),
        rank=rank,
        node=_missed_node(finding) or chosen.node or (ctx.node if chosen.cause is not _C.NONE else None),
        root=fingerprint(chosen),
    )


def _missed_node(finding: Finding) -> str | None:
    return finding.suspects.node if finding.suspects is not None else None


def _rank(finding: Finding, book: casebook.Casebook, ctx: context.Context) -> int | None:
    if finding.suspects is not None:
        return rank_numbers.settled(finding.suspects.rank, book, finding.known)
    rank = guilty.rank(finding.chosen, finding.found, book, finding.known)
    rank = rank_numbers.settled(rank, book, finding.known)
    of_pod = (
        rank is None and ctx.pod and finding.chosen.entry is None and finding.chosen.source == "scheduler"
    )
    return book.voices.rank(voices.Voice(node=ctx.pod)) if of_pod else rank


def _certainty(finding: Finding, ctx: context.Context) -> failures.Certainty:
    chosen = finding.chosen
    agree = {c.source for c in finding.found if c.cause is chosen.cause}
    if chosen.source in ("kernel", "cgroup", "scheduler", "keeper") or len(agree - {"exit"}) > 1:
        return failures.Certainty.PROVEN
    if chosen.source == "docker" and chosen.weight >= candidates.PROOF:
        return failures.Certainty.PROVEN
    if finding.suspects is not None and finding.suspects.proven:
        return failures.Certainty.PROVEN
    if chosen.cause is _C.NONE and ctx.ended_well:
        return failures.Certainty.PROVEN
    if chosen.entry is None or chosen.weight < candidates.SYMPTOM:
        return failures.Certainty.POSSIBLE
    return failures.Certainty.LIKELY


def _summary(finding: Finding, rank: int | None) -> str:
    chosen = finding.chosen
    who = guilty.words(chosen, rank)
    if finding.suspects is not None:
        return redact.text(f"a collective timed out: {finding.suspects.told}")
    text = rules.fill(chosen.summary, fields(chosen, who)) if chosen.summary else chosen.text
    return redact.text(re.sub(r"\s+", " ", text).strip()[:400])


def fields(chosen: candidates.Candidate, who: str) -> Mapping[str, str]:
    """The fields that a summary may use."""
    known = {
        "rank": who,
        "node": chosen.node or "",
        "file": signals.whole(chosen.file) or "",
        "text": chosen.text[:200],
    }
    if chosen.traceback:
        one = chosen.traceback
        known |= {"exc": one.name, "message": one.message[:200], "where": one.where}
    return {**known, **{name: text[:200] for name, text in (chosen.fields or {}).items() if name != "rank"}}


_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")


def fingerprint(chosen: candidates.Candidate) -> str:
    """Equal for the same failure in two attempts: rule, and exception with its place; never numbers or ranks."""
    one = chosen.traceback
    if one is not None and one.where:
        return f"{chosen.rule}:{one.name}@{one.where}"[:200]
    exc = (chosen.fields or {}).get("exc", "")
    return f"{chosen.rule}:{_NUMBERS.sub('N', exc)}".rstrip(":")[:200]


# -- the whole answer ----------------------------------------------------------------------------------------


def _diagnosis(
    finding: Finding, verdict: failures.Verdict, book: casebook.Casebook, ctx: context.Context
) -> failures.Diagnosis:
    chosen = finding.chosen
    proof = evidences.supporting(chosen, finding.found, finding.suspects, book)
    rare = unusual.pick(book) if verdict.cause is _C.UNKNOWN else []
    proof = evidences.once([*proof, *(evidences.unusual_line(*line) for line in rare)])
    return failures.Diagnosis(
        verdict=verdict,
        evidence=tuple(evidences.numbered(proof[:12], book)),
        counter_evidence=tuple(
            testimony.contradictions(verdict.cause, ctx) + evidences.survived(finding.dropped, verdict.cause)
        ),
        echoes=tuple(evidences.echoes(chosen, finding.found)),
        advice=advice.give(
            verdict.cause, book.rules.get(chosen.rule), _advised(chosen, verdict), verdict.action
        ),
        progress=book.span(),
        notes=tuple(actions.notes(verdict, ctx)),
        extra=_extra(ctx, [row[0] for row in rare]),
    )


def _advised(chosen: candidates.Candidate, verdict: failures.Verdict) -> Mapping[str, str]:
    """The fields that advice may use: beside those of the line the node and the rank that the verdict names."""
    guilty = f"rank {verdict.rank}" if verdict.rank is not None else ""
    return {**fields(chosen, guilty or "the run"), "node": verdict.node or "", "guilty": guilty}


def _extra(ctx: context.Context, rare: list[str]) -> Mapping[str, object]:
    facts = {
        "exit": exits.words(ctx.exit) if ctx.exit else None,
        "unusual": [redact.text(line) for line in rare],
        "flight_recorder": ctx.flight.to_json() if ctx.flight else None,
    }
    return {key: value for key, value in facts.items() if value}
