"""What a program of one process said last, after its steps, before it ended with a code of its own.

Where no rule knows why a run ended, and a complaint stands alone behind the last step, it would come to that again; as
would a run that made no step and ends with a line that it calls an error. It is the cause where it is called an error
or says that it ends the program. Words of others, of the machine or of what passes are no such complaint.
"""

from runward.core import candidates, casebook, context, failures, prefixes, regexes, signals

RULE = "last_complaint"
_OWN = range(1, 124)
"""Codes with which a program ends by its own decision."""
_MOST, _LINE = 3, 600
"""Lines that may stand behind the last step, and bytes of one."""
_WORDS = r"[A-Za-z]{2,}[^A-Za-z]+[A-Za-z]{2,}[^A-Za-z]+[A-Za-z]{2,}"
_COMPLAINT = (
    r"(?i)\b(?:errors?|empty|invalid|missing|can(?:no|')t|must|no|none|nothing|unable|expect\w*|exceed\w*|exhaust\w*"
    r"|mismatch\w*|diverge\w*|abort\w*|giv\w+ up|refus\w+|unknown|below|above|overlaps?|fail\w*)\b"
)
_LAST_LEVELS = ("FATAL", "CRITICAL")
"""Levels of lines behind which a program does not go on."""
_ENDS_IT = r"(?i)\b(?:giv\w+ up|refus\w+|abort\w*|exiting|stopping|quitting|can(?:no|')t (?:continue|go on|proceed))\b"
_OF_OTHERS = (
    r"(?i)time[sd]?[ -]?out|connect|unavailable|temporar|unreachable|reset by|retr(?:y|ies)|heartbeat|\blost\b|peer"
    r"|contact|gone|respon[ds]|answer|congest|throttl|busy|\bGPUs?\b|cuda|nccl|device|driver|\bnodes?\b|\bhost|\bdisk"
    r"|file ?system|mount|\bnfs\b|network|server|service|memory|signal|kill|preempt|interrupt|cancel|quota|again|later"
    r"|upload|exit(?:ed)? (?:code|status)|exited with|worker|process\b|\brank|\bspace\b|read-?only|I/O|socket|tracker"
    r"|\blog|wandb|mlflow|comet|tensorboard|clearml|neptune|\bapi\b|telemetry|metrics|flush|clean|close"
)
"""Words of what another one, or the machine, did."""
_NOISE = (
    r"[$+#>] |[WIEF]\d{4} |\d+%\||(?:srun|slurmstepd|make|mpirun|prterun|bash|sh)\b"
    r"|[\w./-]+: line \d+|[\w./]+:\d+: "
)


def find(book: casebook.Casebook, ctx: context.Context) -> candidates.Candidate | None:
    """The complaint as the cause; None where there is none, or where several speak."""
    own = ctx.exit is not None and ctx.exit.code in _OWN and not ctx.children
    if not own or len(book.edges) != 1 or len(book.ranks) > 1:
        return None
    file, edges = next(iter(book.edges.items()))
    lines = _behind_steps(book, file)
    if not lines or not _complains(lines[-1][:_LINE].decode("utf-8", "replace"), book):
        return None
    text = lines[-1][:_LINE].decode("utf-8", "replace").strip()
    front = prefixes.split(text)
    loud = front.level in signals.ALARMS
    if not loud and not book.entries(signals.Role.PROGRESS):
        return None
    sure = loud or regexes.ready(_ENDS_IT).search(front.body)
    cause = failures.Cause.EXCEPTION if sure else failures.Cause.UNKNOWN
    offset = edges.cut + edges.tail.rfind(lines[-1])
    said = signals.Signal(RULE, signals.Role.ROOT, text, cause, file=file, offset=offset)
    return candidates.Candidate(
        cause,
        failures.Action.HOLD,
        candidates.SYMPTOM - 1,
        RULE,
        "it ended itself: {text}" if sure else "it ended by itself; its last words: {text}",
        casebook.Entry(book.order, said),
        text=text,
    )


def _behind_steps(book: casebook.Casebook, file: str | None) -> list[bytes]:
    """The few lines behind the last step; of a run that made none, the last line."""
    edges, steps = book.edges[file], book.entries(signals.Role.PROGRESS)
    if not steps:
        return [line for line in edges.tail.splitlines() if line.strip()][-1:]
    last = steps[-1].signal
    if last.offset is None or last.offset < edges.cut or signals.whole(last.file) != file:
        return []
    lines = [line for line in edges.tail[last.offset - edges.cut :].splitlines()[1:] if line.strip()]
    return lines if len(lines) <= _MOST else []


def _complains(line: str, book: casebook.Casebook) -> bool:
    front = prefixes.split(line)
    calm = front.level in signals.CALM or front.level.startswith("WARN")
    if calm or line[:1].isspace() or regexes.ready(_NOISE).match(line):
        return False
    known = {e.signal.text.strip() for e in book.entries(*signals.Role)}
    told = front.level in _LAST_LEVELS or regexes.ready(_COMPLAINT).search(front.body)
    words = regexes.ready(_WORDS).search(front.body) and told
    return bool(words) and line.strip() not in known and not regexes.ready(_OF_OTHERS).search(front.body)
