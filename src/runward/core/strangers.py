"""Records of a node's kernel log that tell of processes which are none of the run's.

Such a log is the whole machine's, since its start. A death or a fault on a GPU in it, of which the run's own log has no
record, is a stranger's where another record names a process of the run; and, as process ids in a container are others
than the kernel's, where the run's log shows an error of the program and no sign of what the record tells.
"""

from runward.core import candidates, context, failures, job, regexes, vicinity

_C = failures.Cause
_OWN_ERRORS = frozenset(
    {
        _C.EXCEPTION,
        _C.CONFIG_ERROR,
        _C.IMPORT_ERROR,
        _C.DATA_ERROR,
        _C.GPU_OOM,
        _C.DISK_FULL,
        _C.PERMISSION,
        _C.CHECKPOINT_CORRUPT,
        _C.CHECKPOINT_MISMATCH,
        _C.CUDA_ERROR,
        _C.NUMERICAL_INSTABILITY,
        _C.RESOURCE_LIMIT,
    }
)
"""What a process ends itself for; a lost peer, a broken pipe and an I/O error may follow from another one's death."""
_KILLED = (r"(?i)\bSIGKILL\b|\bkilled\b|\bsignal:? 9\b|(?<!\d)-9\b|\b137\b", (9,))
_CRASHED = (
    r"(?i)\bSIG(?:SEGV|ILL|TRAP|ABRT|BUS)\b|segmentation|segfault|core dumped|(?<!\d)-(?:11|4|5|6|7)\b",
    (11, 4, 5, 6, 7),
)
_SIGNS = {
    "kernel_oom_memcg": _KILLED,
    "kernel_oom_node": _KILLED,
    "kernel_segfault": _CRASHED,
    "kernel_trap": _CRASHED,
    "invalid_opcode": _CRASHED,
}
"""By the record's rule: how the log of a run shows such a death, and the signals of it."""


def apart(found: list[candidates.Candidate], ctx: context.Context) -> list[candidates.Candidate]:
    """The candidates, with records of strangers made light."""
    found = _of_other_containers(_of_other_jobs(found, ctx))
    own = [c for c in found if c.source == "log" and c.rule not in _SIGNS]
    files = {c.file for c in own}
    records = [c for c in found if _tells_of_a_process(c) and c.file not in files]
    if not records:
        return found
    pids = {pid for c in own if (pid := (c.fields or {}).get("pid"))}
    theirs = [c for c in records if _pid(c) not in pids]
    if len(theirs) == len(records):  # of another namespace, or strangers
        theirs = [c for c in theirs if any(map(_is_own_error, own)) and not _shown(c, own, ctx)]
    return [c._replace(weight=candidates.TEARDOWN, ends=False) if c in theirs else c for c in found]


def _of_other_containers(found: list[candidates.Candidate]) -> list[candidates.Candidate]:
    """With what an engine tells of the memory of other containers than those that it saw end made light."""
    told = [c for c in found if c.rule == _MEMORY_EVENT]
    ended = {one for c in found for one in regexes.ready(_CONTAINER_ENDS).findall(c.text)} if told else set()
    others = {id(c) for c in told if ended and (one := _container(c)) and one not in ended}
    return [c._replace(weight=candidates.TEARDOWN) if id(c) in others else c for c in found]


def _of_other_jobs(found: list[candidates.Candidate], ctx: context.Context) -> list[candidates.Candidate]:
    """With what a scheduler tells of jobs of other numbers than the run's made light."""
    own = next((ctx.extra[key] for key in _JOB_KEYS if ctx.extra.get(key, "").isdigit()), "")
    if not own:
        return found
    return [
        c._replace(weight=candidates.TEARDOWN, ends=False)
        if c.cause in candidates.ENDS and c.entry and _names_others(c.text, own)
        else c
        for c in found
    ]


_JOB_KEYS = ("job", "job_id", "jobid", "slurm_job_id", "SLURM_JOB_ID")
_JOB_NUMBERS = r"\b(?:[Jj]ob ?(?:Id|ID|id)?|JOB|STEP)(?: ?[=:] ?| )[#<]?(\d{3,12})\b(?!\S*[_+\[])"


def _names_others(text: str, own: str) -> bool:
    """Whether a text names jobs by their numbers, and not this one. A task of an array has two, so it names none."""
    named = set(regexes.ready(_JOB_NUMBERS).findall(text[:600]))
    return bool(named) and own not in named and own not in text


_MEMORY_EVENT = "container_oom_event"
_CONTAINER_ENDS = r"\bcontainer die ([0-9a-f]{4,64})\b"


def _container(one: candidates.Candidate) -> str:
    fields = one.fields or {}
    return fields.get("container") or fields.get("container2") or ""


def _tells_of_a_process(one: candidates.Candidate) -> bool:
    return one.rule in _SIGNS or (one.source == "kernel" and one.cause is _C.CUDA_ERROR)


def _pid(one: candidates.Candidate) -> str:
    """The process that a record names, if it does."""
    return next(iter(vicinity.pids(one.entry.signal)), "") if one.entry is not None else ""


def _is_own_error(one: candidates.Candidate) -> bool:
    lost = (one.fields or {}).get("exc") == "EOFError"  # of a pipe: who was at its other end is gone
    return one.cause in _OWN_ERRORS and one.weight >= candidates.GENERIC and not (one.aside or lost)


def _shown(one: candidates.Candidate, own: list[candidates.Candidate], ctx: context.Context) -> bool:
    """Whether the run's own log, or how it ended, shows what a record tells."""
    if one.rule not in _SIGNS:
        return any(c.cause is _C.CUDA_ERROR for c in own)
    words, signums = _SIGNS[one.rule]
    ends: list[job.ExitStatus] = [*ctx.children, *([ctx.exit] if ctx.exit is not None else [])]
    if any(end.signum in signums for end in ends):
        return True
    return any(regexes.ready(words).search(c.text[:600]) for c in own)
