"""Whether a pod that the kubelet evicted took the room itself, or was in the way of another that did.

The message names what each container used and had requested. Only who uses more than it requested is named; where
nothing was requested, that is true of every container, and the amount decides.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from runward.core import regexes

if TYPE_CHECKING:
    from runward.core import candidates

_USED = (
    r"Container [\w.-]{1,80} was using (?P<used>\d{1,18}(?:\.\d{1,3})?[A-Za-z]{0,2}),"
    r"(?: request is| which exceeds its request of) (?P<request>\d{1,18}(?:\.\d{1,3})?[A-Za-z]{0,2})"
)
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12} | {
    f"{letter}i": 1 << (10 * power) for power, letter in enumerate("KMGT", 1)
}
_GIB = 1 << 30
_MUCH: Mapping[str, int] = {"ephemeral_own_use": 8 * _GIB, "k8s_evicted_memory_own": _GIB}
"""By the rule of its message: what a container without a request must use to be the one."""


def in_the_way(rule: str, text: str) -> bool:
    """Whether the pod of an eviction's message used little: the node was filled by others.

    >>> told = "Container a was using 52Ki, request is 0. Container b was using {}, request is 0"
    >>> [in_the_way("ephemeral_own_use", told.format(used)) for used in ("61Gi", "80Mi")]
    [False, True]
    """
    if rule not in _MUCH:
        return False
    used = [(_bytes(one["used"]), _bytes(one["request"])) for one in regexes.ready(_USED).finditer(text)]
    return bool(used) and not any(amount > (asked or _MUCH[rule]) for amount, asked in used)


_GONE = "k8s_container_gone"
_EVICTED = (*_MUCH, "ephemeral_evicted", "k8s_evicted_memory", "k8s_evicted_processes")


def decide(found: "list[candidates.Candidate]") -> "list[candidates.Candidate]":
    """The candidates without containers that the kubelet no longer knows, where it says that it evicted a pod.

    It takes the container away before its status is read: that its node failed is then no longer said.
    """
    if not any(one.rule in _EVICTED for one in found):
        return found
    return [one for one in found if one.rule != _GONE]


def _bytes(quantity: str) -> float:
    """Bytes of a quantity as Kubernetes writes it; what it does not know is nothing."""
    number = quantity.rstrip("kKMGTi")
    return float(number) * _UNITS.get(quantity[len(number) :], 0) if number[-1:].isdigit() else 0.0
