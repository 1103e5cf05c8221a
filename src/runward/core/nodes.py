"""A small memory of bad nodes and GPUs that fades: it proposes whom to leave out, and never too many.

A mark weighs 1 when it was proven to be the hardware, less when it was only near. Marks lose half their weight
in a week. A node is proposed at a weight of 0.7 (one proven mark: for three and a half days); proposals are
capped, so that a bad rule cannot empty a cluster.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from runward.core import failures

HALF_LIFE_S = 7 * 86400.0
PROPOSE_AT = 0.7
CAP_SHARE = 0.10
CAP_LEAST = 1

WEIGHTS: Mapping[failures.Cause, float] = MappingProxyType(
    {
        failures.Cause.GPU_HARDWARE: 1.0,
        failures.Cause.NODE_FAILURE: 1.0,
        failures.Cause.DRIVER: 0.5,
        failures.Cause.NCCL_ERROR: 0.4,
        failures.Cause.NETWORK: 0.4,
        failures.Cause.CUDA_ERROR: 0.4,
        failures.Cause.HANG: 0.4,
        failures.Cause.IO_ERROR: 0.4,
        failures.Cause.NCCL_TIMEOUT: 0.3,
    }
)
"""What a node is suspected by; other causes mark nobody."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One reason to distrust a node or one of its GPUs."""

    node: str
    at: float
    cause: failures.Cause
    run: str
    gpu: str | None = None
    """UUID, when one GPU is to blame."""
    proven: bool = False
    text: str = ""

    def weight(self, now: float) -> float:
        """What is left of it; a mark from the future (a clock that was wrong) weighs as one of now."""
        full = WEIGHTS.get(self.cause, 0.0)
        if self.proven and full:
            full = 1.0
        return full * float(0.5 ** (max(0.0, now - self.at) / HALF_LIFE_S))


@dataclass(frozen=True, slots=True)
class Standing:
    """A node as the memory has it."""

    node: str
    weight: float
    marks: tuple[Mark, ...]
    """Newest first."""
    proposed: bool = False
    """Whether leaving it out is proposed."""
    capped: bool = False
    """Bad enough, but too many others are proposed already."""

    @property
    def gpus(self) -> tuple[str, ...]:
        """UUIDs that are blamed."""
        return tuple(sorted({mark.gpu for mark in self.marks if mark.gpu}))


def cap(known_nodes: int) -> int:
    """How many nodes may be proposed at once."""
    return max(CAP_LEAST, int(known_nodes * CAP_SHARE))


def standings(marks: Iterable[Mark], now: float, known_nodes: int = 0) -> Sequence[Standing]:
    """All nodes with a mark that still weighs, worst first, with the capped proposals."""
    by_node: dict[str, list[Mark]] = {}
    for mark in marks:
        if mark.weight(now) >= 0.01:
            by_node.setdefault(mark.node, []).append(mark)
    weighed = [(_weight(found, now), node, found) for node, found in by_node.items()]
    weighed.sort(key=lambda item: (-item[0], item[1]))
    limit = cap(max(known_nodes, 0))
    result = []
    for position, (weight, node, found) in enumerate(weighed):
        bad = weight >= PROPOSE_AT
        newest_first = tuple(sorted(found, key=lambda mark: -mark.at))
        result.append(
            Standing(node, weight, newest_first, bad and position < limit, bad and position >= limit)
        )
    return result


def _weight(marks: Sequence[Mark], now: float) -> float:
    """Many marks of one run are one incident: its heaviest counts."""
    heaviest: dict[str, float] = {}
    for mark in marks:
        heaviest[mark.run] = max(heaviest.get(mark.run, 0.0), mark.weight(now))
    return sum(heaviest.values())


def proposals(marks: Iterable[Mark], now: float, known_nodes: int = 0) -> tuple[str, ...]:
    """Nodes to leave out of the next attempt."""
    return tuple(standing.node for standing in standings(marks, now, known_nodes) if standing.proposed)
