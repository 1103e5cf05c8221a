"""Runs whose log accuses nobody: finished, alive, hung, ended early, or simply not explained."""

from runward.core import (
    candidates,
    casebook,
    context,
    exits,
    failures,
    rules,
    schedulers,
    signals,
    told_states,
)

_C, _A = failures.Cause, failures.Action
SILENT_S = 600.0
"""Silence of a live run from which it is called a hang."""
SURE_S, _SEVERAL = 300.0, 3
"""The same where it makes steps and several ranks wait for one that is not the first, or asked for a peer so often."""
PATIENT_S = 3600.0
"""The same while it evaluates, compiles, saves or loads."""
FRESH_S = 120.0
"""A checkpoint file that grew this recently is a sign of work."""
_LAST_LINE = 8
"""Bytes that may stand behind the last line."""
LONG_PHASES = ("evaluation", "compile", "checkpoint", "download", "startup")


def judge(book: casebook.Casebook, ctx: context.Context) -> candidates.Candidate:
    """The verdict without an accused line."""
    if ctx.running is True:
        return _alive(book, ctx)
    if ctx.ended_well:
        return _finished(book, ctx)
    gone = told_states.gone(ctx.extra.get("process", ""))
    if (gone or told_states.container_gone(ctx.extra.get("docker", ""))) and not end_mark(book):
        return _made(_C.UNKNOWN, _A.RESTART, "its process is gone, and nothing says how it ended")
    if ctx.exit is None and not schedulers.failed(ctx.state):
        return _made(_C.NONE, _A.NONE, "nothing in the log speaks of a failure")
    if ctx.exit is not None and not ctx.exit.seen:
        complete = _complete(book, ctx)
        if complete is not None:
            return complete
    if end_mark(book):
        return _made(_C.NONE, _A.NONE, "the training's own end mark is there; it failed while shutting down")
    words = _last_words(book, ctx)
    if words is not None:
        return words
    said = f" ({exits.words(ctx.exit)})" if ctx.exit else ""
    return _made(_C.UNKNOWN, _A.RESTART, f"it ended{said} and nothing in the log says why")


def _made(
    cause: failures.Cause, action: failures.Action, text: str, entry: casebook.Entry | None = None
) -> candidates.Candidate:
    return candidates.Candidate(
        cause, action, 1, f"by_{cause}", text, entry, source="exit" if not entry else "log"
    )


def end_mark(book: casebook.Casebook) -> casebook.Entry | None:
    """The last mark with which a training says that it is done."""
    marks = book.entries(signals.Role.END_MARK)
    return marks[-1] if marks else None


def _complete(book: casebook.Casebook, ctx: context.Context) -> candidates.Candidate | None:
    """Nobody saw how it exited, and its own words say that it came to its end."""
    span, mark = _span(book, ctx), end_mark(book)
    if mark is not None:
        text = "the training's own end mark is there; how it exited was not seen"
    elif span.all_made:
        mark, text = _last_progress(book), f"all {span.total} steps were reached; how it exited was not seen"
    else:
        return None
    return _made(_C.NONE, _A.NONE, text, mark)._replace(weight=candidates.SYMPTOM)


def _finished(book: casebook.Casebook, ctx: context.Context) -> candidates.Candidate:
    mark, last, total = end_mark(book), book.span().last_step, ctx.total_steps
    if mark is None and total and last is not None and last < 0.98 * total:
        return _made(_C.UNKNOWN, _A.HOLD, f"it ended early at {last} of {total} with exit 0")
    short = None if mark is not None or total else _short(book)
    if short is not None:
        return short
    return _made(_C.NONE, _A.NONE, "it finished: exit 0", mark)


def _short(book: casebook.Casebook) -> candidates.Candidate | None:
    from runward.core import stopped_short  # noqa: PLC0415 -- of runs that ended well without a mark alone

    found = stopped_short.find(book)
    if found is None:
        return None
    text = f"it ended early at {found.last} of {found.total} with exit 0, and its log breaks off"
    return _made(_C.UNKNOWN, _A.HOLD, text, found.entry)


def _last_words(book: casebook.Casebook, ctx: context.Context) -> candidates.Candidate | None:
    from runward.core import complaints  # noqa: PLC0415 -- of runs that nothing else explains alone

    return complaints.find(book, ctx)


def _alive(book: casebook.Casebook, ctx: context.Context) -> candidates.Candidate:
    uneven = _uneven(book)
    if uneven is not None and (ctx.gpu_util or 0) >= 90:
        return _made(
            _C.HANG, _A.CHANGE, "its ranks have different numbers of batches: one waits for ever", uneven
        )
    cpu = ctx.extra.get("cpu", "")
    if ctx.gpu_util == 0 and "100%" in cpu:
        return _made(_C.DATALOADER, _A.HOLD, f"the GPUs are idle while a loader is busy (cpu {cpu})")
    slow = _loader_bound(book)
    if slow is not None:
        return _made(_C.DATALOADER, _A.CHANGE, "nearly all of the step time is spent waiting for data", slow)
    hung = told_states.stands_still(ctx.extra.get("process", ""))
    wrong_net = book.of_rule("nccl_socket_transport")
    if wrong_net and not book.progress and (hung or _silent(book, ctx)):
        text = "it hangs, and NCCL uses a network interface that other hosts cannot reach"
        return _made(_C.HANG, _A.CHANGE, text, wrong_net[0])
    if hung or _silent(book, ctx):
        return _standing_still(book, ctx)
    stays = _stays(book)
    if stays is not None:
        return stays
    waits = _waits(book)
    if waits is not None:
        return _made(_C.HANG, _A.RESTART, "it makes no step while a process waits for another one", waits)
    return _made(_C.NONE, _A.NONE, "it is alive and nothing in the log speaks of a failure")


def _standing_still(book: casebook.Casebook, ctx: context.Context) -> candidates.Candidate:
    """Of a live run that makes no more steps: it is done, its tracker does not answer, or it hangs."""
    mark = end_mark(book)
    if mark is not None and (_span(book, ctx).all_made or not book.advances_after(mark.order)):
        return _made(_C.GPU_IDLE, _A.HOLD, "its training came to its end; the process lives on", mark)
    if ctx.gpu_util == 0 and _span(book, ctx).all_made:
        text = "all its steps are made, its GPUs are idle, and the process lives on"
        return _made(_C.GPU_IDLE, _A.HOLD, text, _last_progress(book))
    held = book.saying(rules.Says.HELD)
    if held and not ctx.gpu_util and not book.advances_after(held[-1].order):
        text = "it only keeps its machine: nothing computes, and a person may come back to it"
        return _made(_C.GPU_IDLE, _A.HOLD, text, held[-1])
    asked = book.saying(rules.Says.TRACKER)
    if asked and not book.advances_after(asked[-1].order):
        text = "no step came since its experiment tracker could not be reached"
        return _made(_C.HUB_NETWORK, _A.WAIT, text, asked[-1])
    return _made(_C.HANG, _A.RESTART, _hang_text(ctx), _last_progress(book))


def _silent(book: casebook.Casebook, ctx: context.Context) -> bool:
    if ctx.silent_s is None or (ctx.checkpoint_age_s is not None and ctx.checkpoint_age_s < FRESH_S):
        return False
    if _busy(book):
        return ctx.silent_s >= PATIENT_S
    if ctx.silent_s >= SURE_S and ctx.silent_s < _told_patience(book):
        return False
    sure = ctx.silent_s >= SURE_S and (_one_is_missed(book) or _asks_no_more(book))
    return sure or ctx.silent_s >= SILENT_S


def _told_patience(book: casebook.Casebook) -> float:
    from runward.core import told_patience  # noqa: PLC0415 -- few runs are silent

    return told_patience.seconds(book)


def _asks_no_more(book: casebook.Casebook) -> bool:
    """Whether it made no step, and its last words are that it waits for another one: it would have told so again."""
    told = book.saying(rules.Says.WAITS)
    if book.progress or not told or book.count(*book.that_say(rules.Says.WAITS)) < _SEVERAL:
        return False
    last = told[-1].signal
    edges = book.edges.get(signals.whole(last.file))
    return edges is not None and edges.size - (last.offset or 0) <= len(last.text) + _LAST_LINE


def _one_is_missed(book: casebook.Casebook) -> bool:
    """Whether the others wait for one rank; the first may do a work of its own for all."""
    if not book.progress or len(book.ranks) < _SEVERAL:
        return False
    from runward.core import collectives  # noqa: PLC0415 -- few runs are silent

    told = collectives.of_silence(book)
    return told is not None and bool(told.rank)


def _stays(book: casebook.Casebook) -> candidates.Candidate | None:
    if not book.of_rule("stands_at_step"):
        return None
    from runward.core import stays_at  # noqa: PLC0415 -- few runs say so

    found = stays_at.find(book, busy=_busy(book))
    if found is None:
        return None
    cause = _C.DATALOADER if found.for_data else _C.HANG
    text = f"it says again and again that it stands at step {found.step}, for {found.seconds:.0f} s"
    return _made(cause, _A.RESTART, text, found.entry)


def _waits(book: casebook.Casebook) -> casebook.Entry | None:
    """The last word of a process that says for too long that it waits for another one, while no step comes."""
    names, last = book.that_say(rules.Says.WAITS), _last_progress(book)
    told = book.of_rule(*names)
    since = [entry for entry in told if last is None or entry.order > last.order]
    if len(since) < 2:
        return None
    begun, end = since[0].signal, since[-1].signal
    if begun.at is not None and end.at is not None:
        waited = end.at - begun.at
    else:
        times = book.count(*names) if since == told else len(since)
        waited = times * float(end.fields.get("seconds") or 0)
    return since[-1] if waited >= (PATIENT_S if last is None or _busy(book) else SILENT_S) else None


def _busy(book: casebook.Casebook) -> bool:
    """Whether the last thing said is that a long phase began. The phase's own bar is no step after it."""
    begun: casebook.Entry | None = None
    for entry in book.entries(signals.Role.PHASE):
        rule = book.rules.get(entry.signal.rule)
        if rule is not None and rule.phase in LONG_PHASES:
            begun = entry if rule.edge != "end" else None
    last = _last_progress(book)
    if begun is None or last is None:
        return begun is not None
    return begun.order > last.order or begun.place == last.place


def _last_progress(book: casebook.Casebook) -> casebook.Entry | None:
    found = book.entries(signals.Role.PROGRESS)
    return found[-1] if found else None


def _hang_text(ctx: context.Context) -> str:
    parts = [f"no new line for {ctx.silent_s:.0f} s" if ctx.silent_s else "it makes no progress"]
    if ctx.gpu_util is not None:
        parts.append(f"GPU at {ctx.gpu_util:.0f} %")
    if ctx.gpu_util == 100 and ctx.gpu_mem_util == 0:
        parts.append("memory at 0 %: it waits in a collective")
    return "it hangs: " + ", ".join(parts)


def _uneven(book: casebook.Casebook) -> casebook.Entry | None:
    """The last progress lines stand at one step with different totals, close to their end."""
    last = book.entries(signals.Role.PROGRESS)[-6:]
    steps = {entry.signal.fields.get("step") for entry in last}
    totals = {entry.signal.fields.get("total") for entry in last if entry.signal.fields.get("total")}
    if len(last) < 2 or len(steps) != 1 or len(totals) < 2:
        return None
    return last[-1]


def _loader_bound(book: casebook.Casebook) -> casebook.Entry | None:
    entries = book.with_field("data_time")[-6:]
    shares = [share for share in map(_share, entries) if share is not None]
    if len(shares) < 2 or sum(1 for share in shares if share > 0.8) * 2 < len(shares):
        return None
    return max(entries, key=lambda entry: float(entry.signal.fields.get("data_time", "0")[:12]))


def _share(entry: casebook.Entry) -> float | None:
    fields = entry.signal.fields
    try:
        step, data = float(fields["step_time"]), float(fields["data_time"])
    except (KeyError, ValueError):
        return None
    return data / step if step > 1.0 else 0.0


def beside_it(candidate: candidates.Candidate, ctx: context.Context) -> bool:
    """Whether Slurm ended a step of a job that it calls complete: a service beside the training."""
    return ctx.state.startswith("COMPLETED") and candidate.rule in candidates.TORN_DOWN


def reached(book: casebook.Casebook, ctx: context.Context) -> bool:
    """Whether the training came to its own end: it said so, or made all of its steps."""
    return _span(book, ctx).all_made or end_mark(book) is not None


def _span(book: casebook.Casebook, ctx: context.Context) -> failures.ProgressSpan:
    """How far it came; how far it should come is known better from outside."""
    span = book.span()
    return span._replace(total=ctx.total_steps or span.total)
