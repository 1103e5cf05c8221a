"""What the page of a box shows: a pure value made of a snapshot, drawn by whatever screen there is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from runward.core import box, durations

_size = durations.format_size
FREE = ("", "total", "used", "free", "available")


@dataclass(frozen=True, slots=True)
class Bar:
    """A share with the colour word that it deserves: `good`, `warn`, `bad`."""

    percent: int
    colour: str
    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a heading; empty rows: `empty` is shown instead."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    empty: str = ""
    words: tuple[int, ...] = ()
    """Columns that may be cut where the window is too narrow."""
    above: tuple[str, ...] = ()
    """Lines between the title and the heading."""


@dataclass(frozen=True, slots=True)
class Page:
    """Everything on the page, in order."""

    host: str
    at: float
    memory: Bar | None
    machine: str
    tables: tuple[Table, ...]
    oom: tuple[str, ...]
    """Kills for memory: the count and the newest lines; empty when there were none."""
    blind: tuple[str, ...]


def page(one: box.Snapshot, oom_lines: Sequence[str] = (), *, classic: bool = False) -> Page:
    """The page of a snapshot; `oom_lines`: the newest lines of the kernel about kills.

    `classic`: the tables in the columns of the shell dashboard that many runners know.
    """
    found = (_gpus(one), _containers(one), _disks(one))
    return Page(
        one.host, one.at, _memory(one), _machine(one), _classic(one, *found) if classic else found,
        _oom(one, oom_lines), one.blind,
    )  # fmt: skip


def _classic(one: box.Snapshot, gpus: Table, containers: Table, disks: Table) -> tuple[Table, ...]:
    memory = () if one.memory is None else free(one.memory)
    icons = ("🔥" if (gpu.util or 0) > 80 else "⚙️" if (gpu.util or 0) > 50 else "💤" for gpu in one.gpus)
    return (
        Table("", FREE, memory, "N/A"),
        replace(
            gpus,
            head=(*gpus.head, ""),
            rows=tuple((*row, icon) for row, icon in zip(gpus.rows, icons, strict=True)),
        ),
        replace(
            containers,
            title="DOCKER CONTAINERS",
            head=("ID", *containers.head[2:]),
            words=(0, 1, 2),
            rows=tuple((row[0], *row[2:]) for row in containers.rows),
            above=(f"Active containers: {len(containers.rows)}",) if containers.rows else (),
        ),
        disks,
    )


def free(memory: box.Memory) -> tuple[tuple[str, ...], ...]:
    """Two rows under `FREE`, as the command of that name has them."""
    swap = memory.swap_total - memory.swap_used
    used = (memory.total, memory.used, memory.total - memory.used, memory.available)
    return (
        ("Mem:", *(_size(part) for part in used)),
        ("Swap:", *(_size(part) for part in (memory.swap_total, memory.swap_used, swap)), ""),
    )


def _memory(one: box.Snapshot) -> Bar | None:
    if one.memory is None:
        return None
    memory = one.memory
    text = f"{_size(memory.used)} of {_size(memory.total)}, {_size(memory.available)} available"
    if memory.swap_total:
        text += f", swap {_size(memory.swap_used)} of {_size(memory.swap_total)}"
    return Bar(memory.percent, colour(memory.percent), text)


def colour(percent: float) -> str:
    """`bad` over 90, `warn` over 75, else `good`."""
    return "bad" if percent > 90 else "warn" if percent > 75 else "good"


def _machine(one: box.Snapshot) -> str:
    cpu = "?" if one.cpu is None else f"{one.cpu:.0f} %"
    load = " ".join(f"{value:.1f}" for value in one.load or ())
    waits = ", ".join(f"{p.resource} {p.some:.0f} %" for p in one.pressures if p.some >= 1)
    return f"cpu {cpu} of {one.cores} cores, load {load}" + (f", waiting for {waits}" if waits else "")


def _gpus(one: box.Snapshot) -> Table:
    rows = tuple(
        (
            str(gpu.index),
            gpu.name[:20],
            _with(gpu.util, "%"),
            _with(gpu.mem_util, "%"),
            _with(gpu.mem_used_mib, "MB"),
            _with(gpu.mem_total_mib, "MB"),
            _with(gpu.temp_c, "°C"),
        )
        for gpu in one.gpus
    )
    why = next((text for text in one.blind if text.startswith("GPUs")), "GPUs: none")
    return Table("GPU STATUS", ("GPU", "Name", "Util", "Mem%", "Mem Used", "Mem Total", "Temp"), rows, why)


def _containers(one: box.Snapshot) -> Table:
    ranked = sorted(one.containers, key=lambda use: use.memory or 0, reverse=True)
    rows = tuple(
        (
            use.id[:12],
            use.name[:24],
            use.image[:30],
            use.status[:28],
            _with(use.cpu, "%"),
            "N/A"
            if use.memory is None
            else f"{_size(use.memory)} / {_size(use.memory_limit) if use.memory_limit else 'N/A'}",
        )
        for use in ranked
    )
    why = next((text for text in one.blind if text.startswith("containers")), "No running containers")
    title = f"DOCKER CONTAINERS ({len(rows)} active)" if rows else "DOCKER CONTAINERS"
    return Table(title, ("ID", "Name", "Image", "Status", "CPU%", "Memory"), rows, why, words=(0, 1, 2, 3))


def _disks(one: box.Snapshot) -> Table:
    rows = tuple(
        (d.path, _size(d.total), _size(d.used), _size(d.free), f"{d.percent}%", f"{d.inode_percent}%")
        for d in one.disks
    )
    return Table(
        "DISK SPACE", ("Path", "Size", "Used", "Free", "Use%", "Inodes%"), rows, "no disk could be seen"
    )


def _oom(one: box.Snapshot, lines: Sequence[str]) -> tuple[str, ...]:
    if not one.oom_total:
        return ()
    return (f"{one.oom_total} since boot", *lines[-3:])


def _with(value: float | None, unit: str) -> str:
    return "N/A" if value is None else f"{value:.0f}{unit}" if unit != "%" else f"{value:.1f}%"
