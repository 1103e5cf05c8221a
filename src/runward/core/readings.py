"""What a failure was about: what was read, written or asked, by its frames, its own words and the lines before it."""

from typing import TYPE_CHECKING

from runward.core import casebook, circumstances, failures, hosts, regexes, rules, signals, tracebacks

if TYPE_CHECKING:
    from runward.core import candidates

_C, _A = failures.Cause, failures.Action
LOADED = r"(?i)\b(?:loaded|restored|resumed|continuing)\b"
"""Words that a load is over."""


def settled(
    candidate: "candidates.Candidate", traceback: tracebacks.Traceback | None, book: casebook.Casebook
) -> "candidates.Candidate":
    """The candidate, with the cause that follows from what it was about."""
    frames = traceback.reading if traceback else ""
    if candidate.entry is not None and (
        book.says(candidate.rule, rules.Says.DAMAGED) or _ended_early(candidate, frames)
    ):
        reading = frames or _said_to_read(candidate.text)
        candidate = _by_reader(candidate, reading or _announced(book, candidate.entry))
    candidate = circumstances.settled(_by_frames(candidate, frames), book)
    if candidate.rule == _NO_WEIGHTS and candidate.entry and _announced(book, candidate.entry):
        return candidate._replace(action=_A.RESUME_PREVIOUS, summary=_NOT_OWN)
    asked = candidate.cause is _C.HUB_NETWORK and candidate.action in (None, _A.WAIT)
    if asked and (frames == "service" or hosts.own(candidate.text[:1000])):
        return candidate._replace(cause=_C.NETWORK, action=_A.WAIT, rule=_OWN_SERVICE, summary=_ASKED)
    if candidate.rule in _MISSING and _pointed_at(candidate, book):
        return candidate._replace(
            cause=_C.CHECKPOINT_CORRUPT, action=_A.RESUME_PREVIOUS, summary=_POINTS_NOWHERE
        )
    if candidate.cause is _C.CUDA_ERROR and _NOT_BEGUN in candidate.text and _taken(book):
        return candidate._replace(cause=_C.GPU_OOM, action=_A.RESTART_ELSEWHERE, summary=_TAKEN)
    if candidate.rule == "nvml_unknown" and _DENIED in candidate.text and _only_from_inside(book):
        return candidate._replace(cause=_C.DRIVER, action=_A.RESTART, summary=_SHUT_OUT)
    if candidate.rule == "host_just_booted" and not any(one.order < candidate.order for one in book.advances):
        return candidate._replace(weight=1)  # it was new when the run came to it
    if candidate.rule == "faulthandler_bus" and candidate.entry and _in_mapped_file(book, candidate.entry):
        return candidate._replace(cause=_C.DATA_ERROR, action=_A.HOLD, summary=_MAPPED)
    return candidate


def _by_frames(candidate: "candidates.Candidate", reading: str) -> "candidates.Candidate":
    """What a full disk, lack of memory or a missing file is, by what the frames above it were about."""
    if candidate.cause is _C.DISK_FULL and reading == "memory":
        return candidate._replace(cause=_C.SHM, action=None, rule=_FULL_SHM, summary="")
    if candidate.rule == "cuda_error_oom" and reading == "pinned":
        return candidate._replace(cause=_C.HOST_OOM, action=None, summary=_PINNED)
    if candidate.rule == _NOT_THERE and regexes.ready(_COMPILED).search(candidate.text):
        return candidate._replace(cause=_C.EXCEPTION, action=_A.RESTART, summary=_CACHE_GONE)
    if candidate.rule == _NOT_THERE and regexes.ready(_NAMELESS).search(candidate.text):
        return candidate._replace(cause=_C.EXCEPTION, action=_A.HOLD, summary=_NO_PEER)
    if candidate.rule in (_MISSING if reading == "moved" else (_NOT_THERE,)) and reading in _NOT_THERE_IN:
        cause, action, summary = _NOT_THERE_IN[reading]
        return candidate._replace(cause=cause, action=action, summary=summary)
    return candidate


_NOT_THERE = "python_file_missing"
_NAMELESS = r"FileNotFoundError: \[Errno 2\] No such file or directory\s*$"
"""What a file's name would follow: a socket that its process took along has none."""
_COMPILED = (
    r"[/\\](?:torchinductor_\w+|\.triton|triton(?:[/\\](?:cache|dump)|_cache)|inductor_cache|torch_compile_cache|__pycache__|torch_extensions"
    r"|numba_cache|nv_?ComputeCache|jax_cache|xla_cache|cupy[/\\]kernel_cache|tilelang|deep_gemm|flashinfer)[/\\]"
)
"""What compilers keep for the next start; processes that share it take files from each other."""
_CACHE_GONE = (
    "{rank}: a file of a compiler's cache was gone: processes that share it remove each other's: {message}"
)
_NO_PEER = "{rank} came to a socket whose process is gone, or to a file that it does not name"
_MISSING = (_NOT_THERE, "named_file_missing")
_NOT_THERE_IN = {
    "checkpoint": (_C.CONFIG_ERROR, _A.CHANGE, "{rank} was told to load what is not there: {message}"),
    "config": (_C.CONFIG_ERROR, _A.CHANGE, "{rank} was told of a configuration that is not there: {message}"),
    "program": (_C.CONFIG_ERROR, _A.HOLD, "{rank} could not start a program that it needs: {message}"),
    "moved": (_C.IO_ERROR, _A.HOLD, "{rank}: a file that it moves or removes itself was gone: {message}"),
}
_FULL_SHM = "shm_insufficient"
_OWN_SERVICE, _ASKED = "own_service_down", "a service that the training asks does not answer"
_PINNED = "{rank} could not get pinned memory of the host"
_MAPPED = "{rank} died while it read a mapped file that was cut short or went away"
_POINTS_NOWHERE = "{rank}: what names the newest checkpoint names one that is not there"


_NO_WEIGHTS = "weights_are_no_weights"
_NOT_OWN = "{rank} cannot read a checkpoint of its own: it does not begin as one does"
_NOT_BEGUN = "_STATUS_NOT_INITIALIZED"
_TAKEN = "{rank}: a CUDA library could not begin: the GPU's memory is taken by others"
_FULL = 0.95


def _taken(book: casebook.Casebook) -> bool:
    """Whether each GPU that the log shows is full; it does so before the training, or when that is over.

    What is known beside the log may be of any time: see `beside`.
    """
    rows = [
        entry.signal.fields for entry in book.of_rule("gpu_memory_row") if entry.signal.file != "nvidia_smi"
    ]
    return bool(rows) and all(int(row["used"]) >= _FULL * int(row["total"]) for row in rows)


_DENIED = "Failed to initialize NVML: Unknown Error"
"""What NVML says where the device files are there and may not be opened."""
_SHUT_OUT = "the container has lost its right to the GPUs, which are well: a new one is given it again"
_RELOADED = rb"\bsystemd\[\d+\]: Reloading\b|\bsystemctl daemon-reload\b|\bdaemon-reload(?:ed)?\b"
_HOST_SEES = (
    rb"(?i)\b(?:host|outside)\b[^;\n]{0,40}\b(?:all|sees?|lists?|listed|shows?|fine|ok|healthy|works?)\b"
)
_HOST_SICK = rb"(?i)\bXid\b|\bfallen off\b|\bERR!|\bnot (?:listed|seen|there|all)\b|\bGPU[^\n]{0,30}\blost\b"


def _only_from_inside(book: casebook.Casebook) -> bool:
    """Whether the host sees its GPUs, or systemd was reloaded: it takes from containers what it did not give them."""
    text = b"\n".join(edges.tail for edges in book.edges.values())
    if regexes.ready(_HOST_SICK).search(text):
        return False
    return any(regexes.ready(one).search(text) is not None for one in (_RELOADED, _HOST_SEES))


def _pointed_at(candidate: "candidates.Candidate", book: casebook.Casebook) -> bool:
    """Whether a line before it said that the newest checkpoint is just what was not found."""
    told = [one.signal.fields.get("tag", "") for one in book.of_rule("checkpoint_pointer")]
    return any(len(tag) >= _TAG and tag.rstrip("/.") in candidate.text for tag in told)


_TAG = 3


def _in_mapped_file(book: casebook.Casebook, entry: casebook.Entry) -> bool:
    """Whether the innermost frames that a bus error prints read a mapped file: then it is no shared memory."""
    frames = [one.order for one in book.of_rule("mapped_file_frame") if one.order > entry.order]
    return bool(frames) and frames[0] - entry.order <= _NEXT


_NEXT = 3


def _announced(book: casebook.Casebook, entry: casebook.Entry) -> str:
    """`checkpoint` where the last thing that was announced before `entry` is that one is being loaded."""
    before = [e for e in book.entries(signals.Role.RESUME, signals.Role.PHASE) if e.order < entry.order]
    before = sorted([*before, *_just_read(book, entry)], key=lambda one: one.order)
    if not before or (before[-1].signal.role is signals.Role.PHASE):
        return ""
    last = before[-1]
    gone_on = any(last.order < one.order < entry.order for one in book.advances)
    return "" if gone_on or regexes.ready(LOADED).search(last.signal.text) else "checkpoint"


def _just_read(book: casebook.Casebook, entry: casebook.Entry) -> list[casebook.Entry]:
    """Lines that tell of a file of a checkpoint that is opened, just before `entry` in its log."""
    at = entry.signal.offset or 0
    return [
        one
        for one in book.of_rule("checkpoint_opened")
        if one.signal.file == entry.signal.file and 0 < at - (one.signal.offset or 0) < _JUST
    ]


_JUST = 6000
"""Bytes that a traceback and the line before it may be apart."""
_READS = (
    r"(?i)\b(?:load|resum|restor|read)\w*.{0,40}\b(?:checkpoint|ckpt)|/(?:checkpoints?|ckpts?)/"
    rf"|\.(?:pth|ckpt|distcp)\b|{tracebacks.CHECKPOINT_FILE}"
)


def _ended_early(candidate: "candidates.Candidate", reading: str) -> bool:
    """Whether a reader came to the end of a file too soon and says no more than that."""
    bare = candidate.rule == "python_exception" and (candidate.fields or {}).get("exc") == "EOFError"
    return bare and bool(reading)


def _said_to_read(text: str) -> str:
    return "checkpoint" if regexes.ready(_READS).search(text[:600]) else ""


_READ = {
    "data": (_C.DATA_ERROR, "its data"),
    "checkpoint": (_C.CHECKPOINT_CORRUPT, "a checkpoint"),
    "config": (_C.CONFIG_ERROR, "its configuration"),
}


def _by_reader(candidate: "candidates.Candidate", reading: str) -> "candidates.Candidate":
    cause, thing = _READ.get(reading, (candidate.cause, ""))
    if candidate.cause is cause:
        return candidate
    summary = f"{{rank}} cannot read {thing}: cut short or damaged"
    return candidate._replace(cause=cause, action=None, summary=summary)
