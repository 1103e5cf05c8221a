"""Whose GPUs: which GPUs of a node belong to a run, by whichever witness can tell.

Processes of the run on a GPU prove most; then what the run was given (container, Slurm, cgroup,
CUDA_VISIBLE_DEVICES). With no witness the answer is "unknown", never "all of them": a neighbour's job must
neither hide nor cause an alarm.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from runward.core import gpus


@dataclass(frozen=True, slots=True)
class Claims:
    """What is known about a run's use of a node."""

    pids: frozenset[int] = frozenset()
    """The process tree, the cgroup's and the container's processes, in the namespace of the GPU query."""
    visible: str | None = None
    """CUDA_VISIBLE_DEVICES of the run's processes; None when unset or not readable."""
    granted: tuple[str, ...] = ()
    """Indices or UUIDs that the container engine or Slurm gave (`SLURM_JOB_GPUS`, `NVIDIA_VISIBLE_DEVICES`)."""
    granted_by: str = ""
    devices: frozenset[int] | None = None
    """Minor numbers of /dev/nvidiaN that the cgroup allows; None when not known."""


@dataclass(frozen=True, slots=True)
class Ownership:
    """The run's GPUs, and what is odd about them."""

    own: Mapping[str, str] = field(default_factory=dict)
    """Witness by UUID (of a GPU, or of the MIG instance's GPU)."""
    without_process: tuple[str, ...] = ()
    """Given to the run but used by none of its processes. Empty when the driver lists no processes."""
    shared: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Strangers' pids on the run's GPUs."""
    unknown: str = ""
    """Why it is not known which GPUs are the run's."""
    unmatched: tuple[str, ...] = ()
    """Words of CUDA_VISIBLE_DEVICES or of the grant that name no GPU here."""


def resolve_visible(text: str, samples: Sequence[gpus.GpuSample]) -> tuple[list[str], list[str]]:
    """UUIDs that CUDA would show for CUDA_VISIBLE_DEVICES, and the first word that names nothing.

    As CUDA does: the list ends at the first invalid word, `-1` and the empty text show nothing, a UUID may
    be cut short where it stays unique, `MIG-<uuid>` and `MIG-<GPU uuid>/gi/ci` name slices.
    """
    found: list[str] = []
    for word in (part.strip() for part in text.split(",")):
        uuid = _resolve(word, samples)
        if uuid is None:
            return found, [word] if word not in {"", "-1", "NoDevFiles", "void", "none"} else []
        if uuid not in found:
            found.append(uuid)
    return found, []


def _resolve(word: str, samples: Sequence[gpus.GpuSample]) -> str | None:
    if word.isdecimal():
        return next((sample.uuid for sample in samples if sample.index == int(word)), None)
    if word.startswith("MIG-"):
        return _resolve_mig(word, samples)
    if word.startswith("GPU-") and len(word) > len("GPU-"):
        hits = [sample.uuid for sample in samples if sample.uuid.startswith(word)]
        return hits[0] if len(hits) == 1 else None
    return None


def _resolve_mig(word: str, samples: Sequence[gpus.GpuSample]) -> str | None:
    parts = word.removeprefix("MIG-").split("/")
    for sample in samples:
        if len(parts) == 3 and sample.uuid == parts[0]:
            return sample.uuid
        if any(instance.uuid.startswith(word) for instance in sample.mig):
            return sample.uuid
    return None


def own(reading: gpus.GpuReading, claims: Claims) -> Ownership:
    """Which GPUs of `reading` are the run's."""
    owned: dict[str, str] = {}
    unmatched: list[str] = []
    seen = [sample for sample in reading.samples if sample.processes is not None]
    for sample in seen:
        if any(process.pid in claims.pids for process in sample.processes or ()):
            owned[sample.uuid] = "process"
    given, unmatched = _given(reading.samples, claims)
    for uuid, witness in given.items():
        owned.setdefault(uuid, witness)
    if not owned:
        return Ownership(unknown=_why_unknown(claims, bool(seen)), unmatched=tuple(unmatched))
    return Ownership(
        own=owned,
        without_process=tuple(u for u in owned if _listed_without(reading, u, claims.pids)),
        shared=_strangers(reading, owned, claims.pids),
        unmatched=tuple(unmatched),
    )


def _given(samples: Sequence[gpus.GpuSample], claims: Claims) -> tuple[dict[str, str], list[str]]:
    """What the run was given: the narrowest of its grants, with the words that name nothing."""
    given: dict[str, str] = {}
    unmatched: list[str] = []
    allowed = [s for s in samples if claims.devices is None or s.index in claims.devices]
    if claims.granted:
        for word in claims.granted:
            uuid = _resolve(word, allowed)
            if uuid is None:
                unmatched.append(word)
            else:
                given[uuid] = claims.granted_by or "grant"
        allowed = [s for s in allowed if s.uuid in given] or allowed
    elif claims.devices is not None:
        given = {sample.uuid: "cgroup" for sample in allowed}
    if claims.visible is not None:
        # Inside a grant or a device cgroup, CUDA counts from 0 again.
        renumbered = [_renumbered(s, i) for i, s in enumerate(allowed)] if given else list(allowed)
        shown, bad = resolve_visible(claims.visible, renumbered)
        given = dict.fromkeys(shown, "CUDA_VISIBLE_DEVICES")
        unmatched += bad
    return given, unmatched


def _renumbered(sample: gpus.GpuSample, index: int) -> gpus.GpuSample:
    return gpus.GpuSample(index=index, uuid=sample.uuid, mig=sample.mig)


def _listed_without(reading: gpus.GpuReading, uuid: str, pids: Collection[int]) -> bool:
    processes = reading.by_uuid()[uuid].processes
    return processes is not None and not any(process.pid in pids for process in processes)


def _strangers(
    reading: gpus.GpuReading, owned: Mapping[str, str], pids: Collection[int]
) -> dict[str, tuple[int, ...]]:
    table = {
        sample.uuid: tuple(p.pid for p in sample.processes or () if p.pid not in pids)
        for sample in reading.samples
        if sample.uuid in owned
    }
    return {uuid: strangers for uuid, strangers in table.items() if strangers}


def _why_unknown(claims: Claims, listed: bool) -> str:
    if not listed:
        return "the driver lists no processes here and nothing says which GPUs were given to the run"
    if not claims.pids:
        return "no process of the run is known and nothing says which GPUs were given to it"
    return "no process of the run uses a GPU and nothing says which GPUs were given to it"
