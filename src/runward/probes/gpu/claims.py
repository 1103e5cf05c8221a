"""What a process tree on this machine says about the GPUs it was given: environment and device cgroup."""

from collections.abc import Collection, Mapping

from runward.core import gpu_ownership

_WANTED = (
    "CUDA_VISIBLE_DEVICES",
    "SLURM_STEP_GPUS",
    "SLURM_JOB_GPUS",
    "NVIDIA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ROCR_VISIBLE_DEVICES",
)
_LIMIT = 1 << 20


def read_environment(pid: int, proc: str = "/proc") -> Mapping[str, str] | None:
    """The variables about GPUs that a process was started with; None when it may not be read.

    Only these few names leave this function: an environment is full of secrets.
    """
    try:
        with open(f"{proc}/{pid}/environ", "rb") as file:
            data = file.read(_LIMIT)
    except OSError:
        return None
    pairs = (item.partition(b"=") for item in data.split(b"\0"))
    table = {key.decode("utf-8", "replace"): value.decode("utf-8", "replace") for key, _, value in pairs}
    return {name: table[name] for name in _WANTED if name in table}


def of_tree(pids: Collection[int], proc: str = "/proc") -> gpu_ownership.Claims:
    """Claims of a run's processes. Ranks may see different GPUs: what any of them sees counts."""
    visible: list[str] = []
    granted: tuple[str, ...] = ()
    by = ""
    for pid in sorted(pids):
        found = read_environment(pid, proc)
        if not found:
            continue
        visible += _words(found.get("CUDA_VISIBLE_DEVICES"))
        if not granted:
            granted, by = _granted(found)
    return gpu_ownership.Claims(
        pids=frozenset(pids),
        visible=",".join(dict.fromkeys(visible)) if visible else None,
        granted=granted,
        granted_by=by,
        devices=_devices(proc),
    )


def _words(text: str | None) -> list[str]:
    return [] if text is None else [word.strip() for word in text.split(",")]


def _granted(found: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    for name in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS"):
        if found.get(name):
            return tuple(_words(found[name])), name
    given = found.get("NVIDIA_VISIBLE_DEVICES", "")
    if given and given not in {"all", "none", "void"}:
        return tuple(_words(given)), "NVIDIA_VISIBLE_DEVICES"
    return (), ""


def _devices(proc: str) -> frozenset[int] | None:
    """GPUs that the device cgroup (v1) of this process allows; None where that cannot be read.

    With v2 the rule is a BPF program that nobody can list: the device files that can be opened say it.
    """
    try:
        with open(f"{proc}/self/cgroup", encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    path = next((line.split(":", 2)[2] for line in lines if ":devices:" in line), None)
    if path is None:
        return None
    try:
        with open(f"/sys/fs/cgroup/devices{path}/devices.list", encoding="ascii") as file:
            rules = file.read().split("\n")
    except OSError:
        return None
    if any(rule.startswith("a ") for rule in rules):
        return None
    minors = {rule.split()[1].partition(":")[2] for rule in rules if rule.startswith("c 195:")}
    return frozenset(int(minor) for minor in minors if minor.isdecimal() and int(minor) < 255) or None
