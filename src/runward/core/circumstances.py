"""What other lines tell of a failure that its own words do not: that it never passes, or that it has passed already."""

from typing import TYPE_CHECKING

from runward.core import casebook, failures, hosts, regexes, signals

if TYPE_CHECKING:
    from runward.core import candidates

_C, _A = failures.Cause, failures.Action
_OF_A_SERVICE = (_C.NETWORK, _C.HUB_NETWORK)
_BY_DEFAULT = "no address was set, and at the default one, on this machine, nobody answers: {text}"


def settled(candidate: "candidates.Candidate", book: casebook.Casebook) -> "candidates.Candidate":
    """The candidate, as a configuration's fault where nobody answered at an address that nobody had set.

    Or where GPUs that are kept for one process are asked by another.
    """
    if candidate.rule == _NO_DEVICE:
        return _without_device(candidate, book)
    if candidate.rule == _BUSY:
        return in_exclusive_mode(candidate, book)
    if candidate.cause not in _OF_A_SERVICE or not regexes.ready(hosts.LOOPBACK).search(candidate.text):
        return candidate
    ports = {entry.signal.fields.get("port", "") for entry in book.of_rule("address_by_default")}
    asked = any(port and regexes.ready(rf"(?<!\d){port}(?!\d)").search(candidate.text) for port in ports)
    if not asked or any(step.order < candidate.order for step in book.advances):
        return candidate  # one that let it make steps was there
    return candidate._replace(cause=_C.CONFIG_ERROR, action=_A.CHANGE, summary=_BY_DEFAULT)


_NO_DEVICE = "nccl_ofi_no_device"
_BY_SOCKETS = (b"NET/Socket : Using", b"Using network Socket")


def _without_device(candidate: "candidates.Candidate", book: casebook.Casebook) -> "candidates.Candidate":
    """NCCL takes another network where its plugin finds no device, if it may: what it does without hurts nobody."""
    went_on = any(step.order > candidate.order for step in book.advances)
    if went_on or any(word in edges.text for edges in book.edges.values() for word in _BY_SOCKETS):
        return candidate._replace(weight=1)
    return candidate._replace(aside=True)


_BUSY = "cuda_devices_busy"
_EXCLUSIVE = (
    r"(?i)\bexclusive[_ -](?:process|thread)\b|\bE\. ?(?:Process|Thread)\b|\| +Prohibited +\|"
    r"|\bcompute[_ ]?mode\b[\"']?[ :=]{1,20}[\"']?(?:is )?(?:[123]\b|exclusive|prohibited)"
)
"""How nvidia-smi writes that a GPU takes one process, or none."""
_FOR_ONE = "the GPUs are in a compute mode in which no second process may use one: {text}"


_MODES = (b"xclusive", b"XCLUSIVE", b"rohibited", b"E. Process", b"E. Thread")
_LEAVING = (
    r"(?i)\b(?:pid|process)[ :=#]{0,3}\d{1,8}\b.{0,60}\b(?:still|holds?|held|uses|using|alive|ending|exiting)\b"
    r"|\bzombies?\b|\bdefunct\b|\borphan\w*|\bleft[ -]?over\b|\b(?:an)?other (?:user|job)\b"
)
"""Words of a process, of nobody's in this start, that has the GPU: it may be gone at the next one."""


def in_exclusive_mode(
    candidate: "candidates.Candidate", book: casebook.Casebook, shown: str = ""
) -> "candidates.Candidate":
    """The candidate, as a configuration's fault where the log, or what is shown, says that busy GPUs take one process.

    Another start would put its processes on the same GPUs.
    """
    edges = book.edges.get(candidate.file)
    if candidate.rule != _BUSY or edges is None:
        return candidate
    told = any(word in part for part in (edges.head, edges.tail) for word in _MODES)
    if not told and not shown:
        return candidate
    text = edges.text.decode("utf-8", "replace") + "\n" + shown
    if regexes.ready(_EXCLUSIVE).search(text) is None or regexes.ready(_LEAVING).search(text):
        return candidate
    return candidate._replace(cause=_C.CONFIG_ERROR, action=_A.CHANGE, summary=_FOR_ONE)


def action(chosen: "candidates.Candidate", book: casebook.Casebook) -> failures.Action | None:
    """What would help, where other lines decide it; else None."""
    if chosen.rule == "address_in_use" and book.of_rule("port_in_time_wait"):
        return _A.RESTART  # its last user is gone, and the kernel gives the port back
    if chosen.cause is _C.AUTH and regexes.ready(_EXPIRED).search(chosen.text):
        renewed = any(entry.order > chosen.order for entry in book.of_rule("credentials_renewed"))
        return _A.RESTART if renewed else None
    if chosen.cause is _C.RENDEZVOUS and len(book.nodes) > 1 and _meets_itself(chosen.text):
        return _A.CHANGE
    if chosen.rule == "k8s_liveness" and not book.progress and book.entries(signals.Role.PHASE):
        return _A.HOLD  # it was still busy with its start, as it will be again
    if chosen.cause in _OF_PEERS and _at_loopback(book):
        return _A.CHANGE
    if _no_way(chosen, book):
        return _A.RESTART_ELSEWHERE
    return _A.CHANGE if _outwaited(chosen, book) else None


_NO_WAY = (
    r"(?i)\bno route to host\b|\bEHOSTUNREACH\b|\berrno:?[ =]?113\b"
    r"|\bibv_modify_qp\b.{0,60}(?:\b110\b|\btimed out)"
)
_SERVICE = r"(?i)https?\b|redis|sql\b|postgres|mongo|kafka|rabbit|\bs3\b|minio|etcd|wandb|mlflow|proxy"
_OF_PEERS = (_C.NETWORK, _C.NCCL_ERROR, _C.RENDEZVOUS)


def _at_loopback(book: casebook.Casebook) -> bool:
    """Whether one rank sends its peers to themselves."""
    if book.progress:
        return False
    from runward.core import unlike_setups  # noqa: PLC0415 -- only for these

    return unlike_setups.loopback(book) is not None


def _no_way(chosen: "candidates.Candidate", book: casebook.Casebook) -> bool:
    """Whether no step was made, and no way leads from this machine to another: the same two would not meet again."""
    if chosen.cause not in _OF_PEERS or chosen.action not in (None, _A.RESTART) or book.progress:
        return False
    if regexes.ready(_SERVICE).search(chosen.text):
        return False  # it may come back
    return regexes.ready(_NO_WAY).search(chosen.text) is not None


_EXPIRED = r"(?i)expire"
_AT_LOOPBACK = rf"(?i)connect\w*(?: to)? [\[(]?(?:{hosts.LOOPBACK})"
_ONLY_TRIED = "errno: 99"
"""What torch warns of wherever a machine has no address of IPv6; it goes on by the other."""
_FROM_FIRST = r"\bfrom \[0\] via\b|\bkeys: .{0,80}/0//"


def _meets_itself(text: str) -> bool:
    """Whether a rank of several nodes looks for the first one on its own machine."""
    return _ONLY_TRIED not in text and regexes.ready(_AT_LOOPBACK).search(text) is not None


def _outwaited(chosen: "candidates.Candidate", book: casebook.Casebook) -> bool:
    """Whether a rank waited in a store for what the first rank gives, which was at a work of its own."""
    if chosen.rule != "store_timeout" or not regexes.ready(_FROM_FIRST).search(chosen.text):
        return False
    from runward.core import lone_work  # noqa: PLC0415 -- only for these

    return lone_work.find(book, 0, chosen.order) is not None
