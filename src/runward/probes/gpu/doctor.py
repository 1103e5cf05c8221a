"""Can this box's GPUs work at all? Driver and library, persistence, fabric manager, network, peer access."""

import glob
import os
import re
from collections.abc import Mapping

from runward import ports
from runward.core import gpu_health, gpus

Level = gpu_health.Level
Finding = gpu_health.Finding

_VERSION = re.compile(r"Kernel Module(?: for \w+)?\s+(\d[\d.]+)")


def findings(
    runner: ports.Runner, reading: gpus.GpuReading | gpus.GpusUnseen, root: str = "/"
) -> list[gpu_health.Finding]:
    """The GPU section of `runward doctor`, one finding a question. `root`: where /proc and /sys lie."""
    if isinstance(reading, gpus.GpusUnseen):
        if not _has_devices(root) and "Not Found" in reading.why:
            return [Finding(Level.WARN, "gpu", "all", f"no NVIDIA GPU and no driver here ({reading.why})")]
        return [_unseen(reading), *_driver(root, "")]
    found = [
        Finding(Level.PASS, "gpu", "all", f"{len(reading.samples)} GPUs answer through {reading.source}")
    ]
    found += _driver(root, reading.driver)
    found += _persistence(reading)
    found += _fabric(runner, reading)
    found += _network(root)
    found += _topology(runner, reading)
    return found


def _has_devices(root: str) -> bool:
    return bool(glob.glob(os.path.join(root, "dev/nvidia[0-9]*")))


def _unseen(reading: gpus.GpusUnseen) -> gpu_health.Finding:
    text = reading.why
    if "mismatch" in text.lower():
        text += ": the driver was updated under a running kernel module; reboot or reload it"
    return Finding(Level.FAIL, "gpu", "all", text)


def _driver(root: str, library: str) -> list[gpu_health.Finding]:
    try:
        with open(os.path.join(root, "proc/driver/nvidia/version"), encoding="utf-8") as file:
            match = _VERSION.search(file.read(4096))
    except OSError:
        return [Finding(Level.WARN, "driver", "all", "the kernel module's version cannot be read here")]
    kernel = match.group(1) if match else ""
    if library and kernel and library != kernel:
        return [Finding(Level.FAIL, "driver", "all", f"kernel module {kernel}, library {library}: reboot")]
    return [Finding(Level.PASS, "driver", "all", f"kernel module {kernel or 'unknown'}")]


def _persistence(reading: gpus.GpuReading) -> list[gpu_health.Finding]:
    off = [str(s.index) for s in reading.samples if s.get("persistence") == 0]
    if off:
        text = f"persistence is off on GPU {', '.join(off)}: queries and starts are slow"
        return [Finding(Level.WARN, "persistence", "all", text)]
    return [Finding(Level.PASS, "persistence", "all", "on, or not needed")]


def _fabric(runner: ports.Runner, reading: gpus.GpuReading) -> list[gpu_health.Finding]:
    """Boxes with NVSwitch need the fabric manager before CUDA can start (error 802)."""
    if len(reading.samples) < 2:
        return []
    done = _ask(runner, "nvidia-smi", "--query-gpu=index,fabric.state,fabric.status", "--format=csv,noheader")
    if done is None or not done.ok:
        return [Finding(Level.WARN, "fabric", "all", "the fabric's state is not readable with this driver")]
    rows = [[cell.strip() for cell in line.split(",")] for line in done.text.splitlines() if line.strip()]
    bad = [
        f"GPU {row[0]} {row[1]}" for row in rows if len(row) == 3 and row[1] in {"In Progress", "Not Started"}
    ]
    if bad:
        return [Finding(Level.FAIL, "fabric", "all", f"{', '.join(bad)}: is nvidia-fabricmanager running?")]
    return [Finding(Level.PASS, "fabric", "all", "ready, or not needed")]


def _network(root: str) -> list[gpu_health.Finding]:
    """What NCCL would find between nodes."""
    base = os.path.join(root, "sys/class/infiniband")
    names = sorted(os.listdir(base)) if os.path.isdir(base) else []
    down = [f"{name}: {state}" for name in names for state in _ports(base, name) if "ACTIVE" not in state]
    if not names:
        text = "no InfiniBand or EFA device: between nodes, NCCL would use TCP sockets"
        return [Finding(Level.PASS, "network", "all", text)]
    if down:
        return [Finding(Level.WARN, "network", "all", f"ports not active: {', '.join(down)}")]
    return [Finding(Level.PASS, "network", "all", f"{', '.join(names)} active")]


def _ports(base: str, name: str) -> list[str]:
    states = []
    for path in sorted(glob.glob(os.path.join(base, glob.escape(name), "ports", "*", "state"))):
        try:
            with open(path, encoding="ascii") as file:
                states.append(file.read(64).strip())
        except OSError:
            states.append("not readable")
    return states


def _topology(runner: ports.Runner, reading: gpus.GpuReading) -> list[gpu_health.Finding]:
    if len(reading.samples) < 2:
        return []
    done = _ask(runner, "nvidia-smi", "topo", "-m")
    links = parse_topology(done.text) if done is not None and done.ok else {}
    if not links:
        return [Finding(Level.WARN, "topology", "all", "the topology cannot be read")]
    far = sorted(pair for pair, link in links.items() if link in {"SYS", "NODE"})
    kinds = ", ".join(sorted(set(links.values())))
    if far:
        pairs = ", ".join("-".join(pair) for pair in far[:4])
        return [Finding(Level.WARN, "topology", "all", f"no direct way between {pairs}: {kinds}")]
    return [Finding(Level.PASS, "topology", "all", f"links between GPUs: {kinds}")]


def parse_topology(text: str) -> Mapping[tuple[str, str], str]:
    """Link by pair of GPUs, from `nvidia-smi topo -m` (which underlines its header by escape sequences)."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [line.split("\t") for line in plain.splitlines() if "GPU" in line]
    if not lines:
        return {}
    header = [cell.strip() for cell in lines[0]]
    columns = {i: name for i, name in enumerate(header) if re.fullmatch(r"GPU\d{1,3}", name)}
    links: dict[tuple[str, str], str] = {}
    for cells in lines[1:]:
        row = cells[0].strip()
        if not re.fullmatch(r"GPU\d{1,3}", row):
            continue
        for i, name in columns.items():
            if i < len(cells) and row < name:
                links[row, name] = cells[i].strip()
    return links


def _ask(runner: ports.Runner, *argv: str) -> ports.Completed | None:
    try:
        return runner.run(ports.Call(argv, deadline_s=15.0))
    except ports.ContactLost:
        return None
