"""What the lines around a failure tell of why it came: memory that was nearly full, a batch that one rank left out, a
checkpoint without its metadata, folders that machines do not share, a command that did not work.
"""

from runward.core import candidates, casebook, failures, regexes, vicinity

_C, _A = failures.Cause, failures.Action
_MEMORY, _SKIPPED, _LACKS = "host_memory_told", "batch_skipped_for_memory", "checkpoint_lacks_metadata"
_TYPED, _MISSING = "killed_by_hand", "checkpoint_missing_part"


def settled(found: list[candidates.Candidate], book: casebook.Casebook) -> list[candidates.Candidate]:
    """The candidates, with the cause that their surroundings tell."""
    told = [_settled(one, book) for one in found]
    return [one for one in told if not (one.rule == _TYPED and _in_vain(one, book))]


def _settled(one: candidates.Candidate, book: casebook.Casebook) -> candidates.Candidate:
    match one.cause:
        case _C.KILLED:
            return _memory_was_full(one, book)
        case _C.EXCEPTION | _C.CHECKPOINT_MISMATCH if one.entry is not None:
            return _of_checkpoint(_of_skipped_batch(one, book), book)
        case _C.CHECKPOINT_CORRUPT if one.rule == _MISSING:
            return _of_own_folders(one, book)
    return one


# -- memory --------------------------------------------------------------------------------------------------

_NEARLY = 97.0
"""Percent of a host's memory from which a SIGKILL after it is the kernel's, for memory."""
_STEPS = 2
"""New steps after a reading from which it is of another time."""


def _memory_was_full(one: candidates.Candidate, book: casebook.Casebook) -> candidates.Candidate:
    told = [entry for entry in book.of_rule(_MEMORY) if entry.order < one.order]
    if not told or book.advances_after(told[-1].order) > _STEPS:
        return one
    share = _share(told[-1])
    if share is None or share < _NEARLY:
        return one
    summary = f"{{rank}} was killed while {share:.0f} % of the host's memory were in use"
    return one._replace(cause=_C.HOST_OOM, action=_A.CHANGE, summary=summary)


def _share(entry: casebook.Entry) -> float | None:
    fields = entry.signal.fields
    percent, used, total = (fields.get(key) or "" for key in ("percent", "used", "whole"))
    if percent:
        return float(percent)
    return 100.0 * float(used) / float(total) if used and total and float(total) > 0 else None


_UNEQUAL = (
    r"(?i)\b(?:gradients?|parameters?|params|weights|models?|batch(?:es)?|steps|losses)\b.{0,40}"
    r"\b(?:inconsistent|differ\w*|not (?:equal|the same|identical)|unequal|out of sync|diverged?)\b.{0,40}"
    r"\b(?:workers?|ranks?|replicas?|processes|GPUs|devices)\b"
)


def _of_skipped_batch(one: candidates.Candidate, book: casebook.Casebook) -> candidates.Candidate:
    """A rank that left a batch out for its memory makes what all compute alike unequal."""
    if not regexes.ready(_UNEQUAL).search(one.text):
        return one
    before = [entry for entry in book.of_rule(_SKIPPED) if entry.order < one.order]
    if not before or book.advances_after(before[-1].order) > _STEPS:
        return one
    summary = "{rank} left a batch out because its GPU was full, and the others did not"
    said = before[-1].signal
    return one._replace(
        cause=_C.GPU_OOM,
        action=_A.CHANGE,
        rule=_SKIPPED,
        summary=summary,
        entry=before[-1],
        traceback=None,
        text=said.text,
        fields=said.fields,
    )


# -- checkpoints ---------------------------------------------------------------------------------------------


def _of_checkpoint(one: candidates.Candidate, book: casebook.Casebook) -> candidates.Candidate:
    """What a loader misses in a checkpoint of which a line above says that it has no metadata."""
    lacks = [entry for entry in book.of_rule(_LACKS) if entry.order < one.order]
    if not lacks or book.advances_after(lacks[-1].order) or not regexes.ready(_LACKED).search(one.text):
        return one
    above = vicinity.above(one.entry.signal, book)[-_TRACEBACK:] if one.entry else b""
    if not regexes.ready(_LOADS).search(above.decode("utf-8", "replace")):
        return one
    summary = "{rank}: the checkpoint that is named as the newest was never finished: it has no metadata"
    return one._replace(cause=_C.CHECKPOINT_CORRUPT, action=_A.RESUME_PREVIOUS, summary=summary)


_LACKED = r"\b(?:Key|Attribute|Type|Index|FileNotFound)Error\b"
_LOADS = r"(?i)\b\w*(?:load|restore|resume)\w*(?:checkpoint|ckpt|state)|checkpoint\w*\.py|\bstate_dict\["
_TRACEBACK = 1500
_SHARD = r"(?P<path>[^\s'\"]{0,300}?)(?:__(?P<dcp>\d{1,5})_\d{1,5}\.distcp|zero_pp_rank_(?P<zero>\d{1,5})_mp_rank_\d)"
_MACHINE = 2
"""Ranks at least of a machine whose shards are listed."""
_LOCAL = r"^(?!/)|^/(?:tmp|local|localdisk|raid|nvme\d?|mnt/(?:nvme|local|ssd)|scratch/local|var/tmp)\b"
_NAMES = rb"__(\d{1,5})_\d{1,5}\.distcp"


def _of_own_folders(one: candidates.Candidate, book: casebook.Casebook) -> candidates.Candidate:
    """A shard of a rank of another machine is missing where each machine has a folder of its own.

    Told by who misses it: ranks that come after the owner's machine, and none beside the owner.
    """
    found = regexes.ready(_SHARD).search(one.text)
    if found is None or not regexes.ready(_LOCAL).search(found["path"].removeprefix("./")):
        return one
    owner = int(found["dcp"] or found["zero"])
    missing = {entry.signal.rank for entry in book.of_rule(_MISSING)}
    ranks = {rank for rank in missing if rank is not None}
    if not ranks or owner in ranks or min(ranks) <= owner or not _apart(owner, ranks, one, book):
        return one
    summary = "{rank}: each machine keeps only the shards of its own ranks: the folder is not shared"
    return one._replace(cause=_C.CONFIG_ERROR, action=_A.CHANGE, summary=summary)


def _apart(owner: int, ranks: set[int], one: candidates.Candidate, book: casebook.Casebook) -> bool:
    """Whether the owner of a shard and who misses it are on different machines."""
    nodes = [book.voices.on_node(node) for node in book.voices.nodes]
    if any(owner in on and not on & ranks for on in nodes):
        return True
    edges = book.edges.get(one.file)
    names = regexes.ready(_NAMES).findall(edges.tail) if edges is not None else []
    listed = {int(name) for name in names} - {owner}
    if len(listed) < _MACHINE or not listed & ranks:
        return False
    first, many = min(listed), len(listed)
    return max(listed) - first == many - 1 and first % many == 0 and owner // many != first // many


# -- commands ------------------------------------------------------------------------------------------------

_FAILED = (
    r"(?i)^(?:Error\b|.{0,60}\berror: |.{0,60}\b(?:No such (?:process|container)|not permitted|Permission denied)\b"
    r"|Cannot kill|.{0,60}\b(?:cannot|could not|failed to) (?:kill|stop|cancel|delete)\b|.{0,60}\bInvalid job id)"
)


def _in_vain(one: candidates.Candidate, book: casebook.Casebook) -> bool:
    """Whether a command by which somebody would end a run did not work: its answer says so."""
    if one.entry is None:
        return False
    answer = vicinity.below(one.entry.signal, book).partition(b"\n")[0].decode("utf-8", "replace")
    return bool(regexes.ready(_FAILED).search(answer))
