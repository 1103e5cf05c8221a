"""Measures `runward diagnose` on small logs and on a gigabyte over 64 files, beside ripgrep with the same patterns.

Everything lies in the page cache; ripgrep only counts lines, with as many threads as it likes.
"""

import contextlib
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from bench import place

GIGABYTE, FILES = 10**9, 64
END = (
    "[rank1]: Traceback (most recent call last):\n"
    '[rank1]:   File "train.py", line 40, in step\n'
    "[rank1]:     loss.backward()\n"
    "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB. GPU 1 has a total capacity of"
    " 79.10 GiB of which 1.53 GiB is free.\n"
)


def measure(repeats: int) -> dict:
    """Seconds and megabytes of each case; wall time, processor time of all its processes, memory of all together."""
    with tempfile.TemporaryDirectory(prefix="runward-bench-") as folder:
        place = pathlib.Path(folder)
        found = {name: _small(place, name, lines, repeats) for name, lines in _SMALL.items()}
        for name, write in _LARGE.items():
            files = [place / f"rank{rank}.log" for rank in range(FILES)]
            write(files)
            found[name] = {"ours": _best(_ours(files), 3), "ripgrep": _best(_ripgrep(place, files), 2)}
        return found


def rows(found: dict) -> list[place.Row]:
    """As `start_up.rows`."""
    table: list[place.Row] = []
    for name in _SMALL:
        table.append((f"diagnose {name}: wall, median", found[name]["wall_ms"], 300, "ms"))
        table.append(
            (
                f"   processor time (python -c pass: {found[name]['bare_ms']:.0f})",
                found[name]["cpu_ms"],
                300,
                "ms",
            )
        )
    for name, limit_s in zip(_LARGE, (2, 6), strict=True):
        ours, other = found[name]["ours"], found[name]["ripgrep"]
        table.append((f"diagnose {name}: wall", ours["wall_s"], limit_s, "s"))
        table.append(
            (
                f"   processor time (ripgrep {other['cpu_s']:.1f}, wall {other['wall_s']:.1f})",
                ours["cpu_s"],
                2 * limit_s,
                "s",
            )
        )
        table.append(("   memory", ours["memory_mb"], 200, "MB"))
    return table


# -- logs ----------------------------------------------------------------------------------------------------


def _dense(chance: random.Random, step: int) -> str:
    from runward.scan import samplelogs

    kinds = (samplelogs.iteration, samplelogs._chatter, samplelogs._chatter, samplelogs._filler)
    return kinds[step % 4](chance, step)


def _sparse(chance: random.Random, step: int) -> str:
    from runward.scan import samplelogs

    return samplelogs._filler(chance, step) if step % 50 else samplelogs.iteration(chance, step)


_SMALL = {"1 MB, dense": _dense, "1 MB, sparse": _sparse}


def _text(line, size: int) -> bytes:
    chance, made, step = random.Random(1), bytearray(), 0
    while len(made) < size:
        step += 1
        made += line(chance, step).encode() + b"\n"
    return bytes(made)


def _mostly_chatter(files: list[pathlib.Path]) -> None:
    from runward.scan import samplelogs

    def noisy(chance: random.Random, step: int) -> str:
        if step % 5:
            return samplelogs._chatter(chance, step)
        return f"[rank{step % 8}]:/opt/lib/x.py:{step}: UserWarning: memory (MB) | allocated: {step % 1000}.0"

    block = _text(noisy, 2 << 20)
    for path in files[:-1]:
        _fill(path, block)
    _fill(files[-1], _text(samplelogs.iteration, GIGABYTE // FILES), END.encode())


def _iterations(files: list[pathlib.Path]) -> None:
    from runward.scan import samplelogs

    steps = _text(samplelogs.iteration, GIGABYTE // FILES)
    for path in files:
        _fill(path, steps, END.encode() if path is files[-1] else b"")


_LARGE = {
    "1 GB in 64 files, 63 of chatter": _mostly_chatter,
    "1 GB in 64 files of iteration lines": _iterations,
}


def _fill(path: pathlib.Path, block: bytes, end: bytes = b"") -> None:
    with path.open("wb") as file:
        while file.tell() < GIGABYTE // FILES:
            file.write(block)
        file.write(end)


# -- times ---------------------------------------------------------------------------------------------------


def _ours(files: list[pathlib.Path]) -> list[str]:
    return [sys.executable, "-m", "runward", "diagnose", *map(str, files)]


def _ripgrep(place: pathlib.Path, files: list[pathlib.Path]) -> list[str]:
    from runward.wiring import bench_scan

    rg = bench_scan._ripgrep()
    patterns = [pattern for pattern, _ in bench_scan._patterns(rg, str(place))]
    named = bench_scan._pattern_file(str(place), patterns)
    return [rg, "--no-config", "--no-unicode", "-a", "-c", "-f", named, *map(str, files)]


def _small(place: pathlib.Path, name: str, line, repeats: int) -> dict:
    path = place / "small.log"
    path.write_bytes(_text(line, 10**6) + END.encode())
    _timed(_ours([path]))  # compiles the rules once
    taken = [(_timed(_ours([path])), _timed([sys.executable, "-c", "pass"])) for _ in range(repeats)]
    return {
        "wall_ms": 1000 * statistics.median(ours["wall_s"] for ours, _ in taken),
        "cpu_ms": 1000 * statistics.median(ours["cpu_s"] for ours, _ in taken),
        "bare_ms": 1000 * statistics.median(bare["cpu_s"] for _, bare in taken),
        "memory_mb": max(ours["memory_mb"] for ours, _ in taken),
    }


def _best(argv: list[str], times: int) -> dict:
    """The quickest of some runs; the first one may find the files outside the page cache."""
    return min((_timed(argv) for _ in range(times)), key=lambda one: one["wall_s"])


def _timed(argv: list[str]) -> dict:
    env = {
        k: v for k, v in os.environ.items() if not k.startswith("RUNWARD_") and k != "PYTHONDONTWRITEBYTECODE"
    }
    env |= {"PYTHONPATH": str(place.ROOT / "src")}
    began = time.perf_counter()
    child = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    watch = _Memory(child.pid)
    watch.start()
    _, status, usage = os.wait4(child.pid, 0)
    wall_s = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    watch.over.set()
    watch.join()
    if child.returncode not in (0, 1):
        raise SystemExit(f"{argv[:4]} ended with {child.returncode}")
    return {
        "wall_s": wall_s,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "memory_mb": max(watch.peak_mb, usage.ru_maxrss / 1024),
    }


class _Memory(threading.Thread):
    """The most memory that a process and its children had together; shared pages count once."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid, self.peak_mb, self.over = pid, 0.0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.05):
            pids = [self._pid]
            with contextlib.suppress(OSError):
                pids += map(
                    int, pathlib.Path(f"/proc/{self._pid}/task/{self._pid}/children").read_text().split()
                )
            self.peak_mb = max(self.peak_mb, sum(map(_pss_mb, pids)))


def _pss_mb(pid: int) -> float:
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0
