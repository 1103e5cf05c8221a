"""A snapshot of the box as text: for people, in the classic sections, as one row of a table."""

import time
from collections.abc import Iterator, Sequence

from runward.core import box, durations
from runward.ui import view_box

_size = durations.format_size


def plain(one: box.Snapshot) -> str:
    """For people: one block, empty parts left out."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.at))
    head = f"== {stamp} {one.host}" + (f" run {one.run}" if one.run else "")
    lines = [head, *_host(one), *_rows(one), *(f"not observable: {why}" for why in one.blind)]
    return "\n".join(lines) + "\n\n"


def brief(one: box.Snapshot) -> str:
    """One line: what was scarce, and who used most of it."""
    words = []
    if one.memory:
        swap = f", swap {_size(one.memory.swap_used)}" if one.memory.swap_used else ""
        words.append(f"memory {one.memory.percent} % of {_size(one.memory.total)}{swap}")
    if one.cpu is not None:
        words.append(f"cpu {one.cpu:.0f} %")
    words += [f"{p.resource} pressure {p.some:.0f} %" for p in one.pressures if p.some >= 10]
    words += [
        f"GPU {gpu.index} {_number(gpu.util)} %, {_number(gpu.mem_used_mib)} MiB" for gpu in one.gpus[:8]
    ]
    words += [f"disk {disk.path} {disk.percent} %" for disk in one.disks if disk.percent >= 90]
    words += [f"inodes {disk.path} {disk.inode_percent} %" for disk in one.disks if disk.inode_percent >= 90]
    if one.oom_new:
        words.append(f"{one.oom_new} new kills for memory")
    largest = max(one.containers, key=lambda use: use.memory or 0, default=None)
    if largest is not None and largest.memory:
        words.append(f"largest container {largest.name} {_size(largest.memory)}")
    process = max(one.processes, key=lambda each: each.rss, default=None)
    if process is not None:
        words.append(f"largest busy process {process.name} {_size(process.rss)}")
    return "; ".join(words) or "nothing could be seen"


def _host(one: box.Snapshot) -> Iterator[str]:
    if one.memory:
        memory = one.memory
        yield (
            f"memory   {_size(memory.used)} of {_size(memory.total)} ({memory.percent} %), "
            f"swap {_size(memory.swap_used)} of {_size(memory.swap_total)}"
        )
    load = " ".join(f"{value:.2f}" for value in one.load or ())
    cpu = "first look" if one.cpu is None else f"{one.cpu:.1f} % of {one.cores} cores"
    yield f"cpu      {cpu}, load {load}"
    if one.pressures:
        shares = [
            f"{p.resource} {p.some:.1f}/{'-' if p.full is None else f'{p.full:.1f}'}" for p in one.pressures
        ]
        yield f"pressure {', '.join(shares)}  (percent of 10 s that some/all tasks waited)"
    if one.oom_new:
        yield f"OOM      {one.oom_new} new kills for memory"
        yield from (f"         {line}" for line in one.oom_lines)


def _rows(one: box.Snapshot) -> Iterator[str]:
    for process in one.processes:
        yield f"process  {process.pid:>7} {process.cpu:>6.1f} % {_size(process.rss):>10}  {process.name}"
    for gpu in one.gpus:
        yield (
            f"gpu      {gpu.index} {gpu.name}: {_number(gpu.util)} %, memory {_number(gpu.mem_used_mib)} of "
            f"{_number(gpu.mem_total_mib)} MiB, {_number(gpu.temp_c)} C"
        )
    for use in one.containers:
        cpu = "N/A" if use.cpu is None else f"{use.cpu:g} %"
        yield f"docker   {use.name}: cpu {cpu}, memory {_known(use.memory)}, {use.status}"
    for disk in one.disks:
        yield (
            f"disk     {disk.path}: {disk.percent} % used, {_size(disk.free)} free, "
            f"inodes {disk.inode_percent} % used"
        )
    yield from (f"daemon   {line}" for line in one.daemon_errors)


def _number(value: float | None) -> str:
    return "N/A" if value is None else f"{value:g}"


def classic(one: box.Snapshot) -> str:
    """The section texts of the shell monitor that many runners know, each line with its time."""
    stamp = time.strftime("[%Y-%m-%d %H:%M:%S]", time.localtime(one.at))
    return "".join(f"{stamp} {line}".rstrip() + "\n" for line in _classic_lines(one)) + "\n"


def classic_banner(host: str, at: float, path: str) -> str:
    """What stands before the first snapshot in the classic form."""
    watched = ("System memory", "CPU and top processes", "GPUs", "Docker containers", "Disks and OOM kills")
    return "\n".join(
        (
            "GPU Runner Real-Time Monitoring",
            f"Host: {host}",
            f"Started: {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))}",
            f"Log file: {path}",
            "Monitoring:",
            *(f"  - {what}" for what in watched),
            "Press Ctrl+C to stop monitoring",
        )
    )


def _classic_lines(one: box.Snapshot) -> Iterator[str]:
    yield "===== Monitoring Snapshot ====="
    yield "--- System Memory ---"
    yield from memory_table(one)
    yield "--- CPU Usage (top 5 processes) ---"
    yield from (
        f"{p.pid:>7} {p.cpu:>5.1f} {_size(p.rss):>10} {p.cmdline or p.name}" for p in one.processes[:5]
    )
    yield "--- GPU Status ---"
    yield from (f"GPU: {', '.join(_cells(gpu))}" for gpu in one.gpus)
    yield from _unseen(one, "GPUs")
    yield "--- Docker Containers ---"
    names = [(use.id[:12], use.image, use.status, use.name) for use in one.containers]
    yield from _table([("ID", "Image", "Status", "Names"), *names])
    yield from _unseen(one, "containers")
    yield "--- Docker Resource Usage ---"
    yield from _table([_USAGE_HEAD, *(_usage(use) for use in one.containers)])
    yield "--- Disk Space ---"
    yield from disk_table(one)
    yield "--- Recent Docker Errors (last 1 min) ---"
    unseen = _unseen(one, "daemon log")
    yield from one.daemon_errors or unseen or ("No Docker errors found",)
    if one.oom_new:
        yield f"⚠️  WARNING: OOM KILLER DETECTED! {one.oom_new} new kills"
        yield "Recent OOM events:"
        yield from one.oom_lines
    yield from (f"not observable: {why}" for why in one.blind if not why.startswith(_IN_PLACE))
    yield "===== End Snapshot ====="


_IN_PLACE = ("GPUs", "containers", "daemon log")
"""What cannot be seen of these stands where they would."""


def _unseen(one: box.Snapshot, what: str) -> Sequence[str]:
    return [f"not observable: {why}" for why in one.blind if why.startswith(what)]


_USAGE_HEAD = ("Container", "CPUPerc", "MemUsage", "MemPerc", "NetIO", "BlockIO")


def _known(size: int | None) -> str:
    return "N/A" if size is None else _size(size)


def _usage(use: box.ContainerUse) -> tuple[str, ...]:
    memory, limit = use.memory, use.memory_limit
    share = "N/A" if not memory or not limit else f"{100 * memory / limit:.2f}%"
    return (
        use.name,
        "N/A" if use.cpu is None else f"{use.cpu:.2f}%",
        "N/A" if memory is None else f"{_size(memory)} / {_known(limit)}",
        share,
        f"{_known(use.net_in)} / {_known(use.net_out)}",
        f"{_known(use.disk_read)} / {_known(use.disk_written)}",
    )


def memory_table(one: box.Snapshot) -> Sequence[str]:
    """Total, used, free and available, each under its own heading."""
    if one.memory is None:
        return ("N/A",)
    return _table([view_box.FREE, *view_box.free(one.memory)])


def disk_table(one: box.Snapshot) -> Sequence[str]:
    """The columns of df, with the inodes."""
    head = ("Mounted on", "Size", "Used", "Avail", "Use%", "IUse%")
    rows = [
        (d.path, _size(d.total), _size(d.used), _size(d.free), f"{d.percent}%", f"{d.inode_percent}%")
        for d in one.disks
    ]
    return _table([head, *rows])


def _cells(gpu: box.Gpu) -> Sequence[str]:
    numbers = (gpu.util, gpu.mem_util, gpu.mem_used_mib, gpu.mem_total_mib, gpu.temp_c)
    return (str(gpu.index), gpu.name, *(_number(value) for value in numbers))


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "   ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


TSV_HEAD = (
    "timestamp", "cgroup_gb", "cpu_pct", "main_pid", "main_rss_gb", "main_threads", "main_fds", "n_python",
    "total_python_rss_gb", "wandb_pid", "wandb_rss_gb", "gpu_util_pct", "gpu_mem_mb",
)  # fmt: skip


def tsv(at: float, values: Sequence[object]) -> str:
    """One row of the memory table: the values after the time stamp; what is not known stays empty."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at))
    cells = [
        "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
        for value in values
    ]
    return "\t".join([stamp, *cells]) + "\n"
