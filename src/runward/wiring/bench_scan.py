"""The scanner beside ripgrep and a plain `re` loop: same logs, same patterns, one processor, interleaved.

Ratios only are judged: they hold on any machine, absolute figures do not.
"""

import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from runward.core import errors

_DEADLINE_S = 240.0
_ONLY_PYTHON = re.compile(r"\(\?(?:=|!|<=|<!|P=|>|\(|#)|\\[1-9]|[*+?}]\+|\\[<>ZAGpPuU]")
"""What ripgrep's own engine has not, or means otherwise."""
_NAME = re.compile(r"\(\?P<\w+>")
"""ripgrep joins all patterns into one, in which a name may stand once: groups only group for it."""
LIMITS: dict[str, tuple[float, float]] = {
    "ripgrep_nccl": (0.30, 12),
    "ripgrep_onepct": (0.45, 13),
    "ripgrep_healthy": (3.5, 24),
    "ripgrep_hostile": (1.3, 7),
    "loop_nccl": (1000, 30),
    "loop_onepct": (700, 25),
    "loop_healthy": (120, 18),
    "pread_idle": (2, 2),
}
"""With a native engine, and with the standard library alone. `loop_*`: at least, the others: at most."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure."""

    mb: float = 20.0
    engine: str | None = None
    repeats: int = 3
    files: int = 5000


@dataclass(slots=True)
class _Times:
    """Seconds of processor a megabyte, by (what, log)."""

    each: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    peak_mb: float = 0.0
    hits: dict[str, int] = field(default_factory=dict)
    engine: str = ""

    def add(self, what: str, log: str, answer: dict[str, Any]) -> None:
        self.each.setdefault((what, log), []).append(answer["cpu_s"] / max(answer["bytes"], 1) * 1e6)

    def median(self, what: str, log: str) -> float:
        return statistics.median(self.each[what, log])

    def ripgrep(self, log: str) -> float:
        """Of ripgrep with and without Unicode, the faster."""
        return min(
            self.median(what, log) for what in ("ripgrep", "ripgrep --no-unicode") if (what, log) in self.each
        )


def run(plan: Plan) -> dict[str, Any]:
    """Measure; returns the answer of `runward bench scan --json`. Raises UsageError without ripgrep."""
    rg = _ripgrep()
    affinity = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {max(affinity)})
        with tempfile.TemporaryDirectory(prefix="runward-bench-") as folder:
            chosen = _patterns(rg, folder)
            _write_logs(folder, plan.mb, chosen)
            times = _Times()
            for _ in range(plan.repeats):
                for log, count in (("nccl", 200), ("onepct", 200), ("healthy", 200), ("hostile", 60)):
                    _round(times, plan, (rg, folder, log), [pattern for pattern, _ in chosen[:count]])
            idle = _child(
                {"kind": "idle", "path": folder, "files": plan.files, "patterns": ["out of memory"]}
            )
    finally:
        os.sched_setaffinity(0, affinity)
    return _answer(plan, times, idle, min(200, len(chosen)))


def _ripgrep() -> str:
    beside = os.path.join(os.path.dirname(sys.executable), "rg")
    found = beside if os.access(beside, os.X_OK) else shutil.which("rg")
    if not found:
        raise errors.UsageError(
            errors.Problem("ripgrep is not here", next_step="pip install 'runward[bench]'")
        )
    return found


def _patterns(rg: str, folder: str) -> list[tuple[str, str]]:
    """Shipped rules that ripgrep understands too, each with a line that it matches; what the logs hold first."""
    from runward.config import rulesets
    from runward.scan import samplelogs

    held = [samplelogs.PLANTED[0].decode(), samplelogs.iteration(random.Random(1), 1)]  # noqa: S311 -- a sample
    rules = [(rule.pattern, rule.match[0]) for rule in rulesets.full(user=False).rules if rule.match]
    able = [(pattern, line) for pattern, line in rules if not _ONLY_PYTHON.search(pattern)]
    if _rg_code(rg, folder, [pattern for pattern, _ in able]) == 2:
        able = [(pattern, line) for pattern, line in able if _rg_code(rg, folder, [pattern]) != 2]
    return sorted(able, key=lambda rule: not any(re.search(rule[0], line) for line in held))


_ROOM = "--regex-size-limit=1G"
"""For ripgrep's own automaton: two hundred rules with Unicode's classes pass the 100 MB that it takes unasked."""


def _rg_code(rg: str, folder: str, patterns: Sequence[str]) -> int:
    argv = [rg, _ROOM, "-f", _pattern_file(folder, patterns), "-"]
    return subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60
    ).returncode


def _pattern_file(folder: str, patterns: Sequence[str]) -> str:
    path = os.path.join(folder, f"{len(patterns)}.patterns")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(_NAME.sub("(?:", pattern) + "\n" for pattern in patterns)
    return path


def _write_logs(folder: str, mb: float, chosen: Sequence[tuple[str, str]]) -> None:
    from runward.scan import samplelogs

    size = int(mb * 1e6)
    examples = [line for _, line in chosen[:200]]
    logs: dict[str, Iterator[bytes]] = {
        "nccl": samplelogs.repeated(samplelogs.chatter(random.Random(1)), size),  # noqa: S311 -- the same every time
        "onepct": samplelogs.repeated(samplelogs.one_percent(random.Random(2), examples), size),  # noqa: S311
        "healthy": samplelogs.repeated(samplelogs.healthy(random.Random(3)), size),  # noqa: S311
        "hostile": samplelogs.hostile(random.Random(4), size),  # noqa: S311
    }
    for name, blocks in logs.items():
        with open(os.path.join(folder, f"{name}.log"), "wb") as file:
            file.writelines(blocks)


def _round(times: _Times, plan: Plan, place: tuple[str, str, str], patterns: list[str]) -> None:
    """Each contender once over one log."""
    rg, folder, log = place
    path = os.path.join(folder, f"{log}.log")
    request = {"path": path, "patterns": patterns, "engine": plan.engine}
    answer = _child({"kind": "ours", **request})
    times.add("ours", log, answer)
    times.engine, times.hits[log] = answer["engine"], answer["hits"]
    times.peak_mb = max(times.peak_mb, answer["peak_mb"])
    times.add("loop", log, _child({"kind": "loop", **request}))
    rules = _pattern_file(folder, patterns)
    if log != "hostile":  # with Unicode it falls to an engine that does not end on such bytes
        times.add("ripgrep", log, _rg([rg, _ROOM, "-f", rules], path))
    times.add("ripgrep --no-unicode", log, _rg([rg, _ROOM, "--no-unicode", "-f", rules], path))


def _child(request: dict[str, Any]) -> dict[str, Any]:
    argv = [sys.executable, "-m", "runward.scan.measure"]
    done = subprocess.run(
        argv, input=json.dumps(request).encode(), capture_output=True, check=False, timeout=_DEADLINE_S
    )
    if done.returncode:
        raise errors.InternalError(
            errors.Problem(f"a measurement failed: {done.stderr[-400:].decode(errors='replace')}")
        )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _rg(argv: list[str], path: str) -> dict[str, Any]:
    """Its processor time without what an empty input costs; the output goes into a pipe, as to any reader."""
    full = [*argv, "-a", "-b", "-N", "-j1", "-"]
    spent = _spent(full, path) - _spent(full, os.devnull)
    return {"bytes": os.path.getsize(path), "cpu_s": max(spent, 1e-6)}


def _spent(argv: list[str], path: str) -> float:
    quiet = subprocess.DEVNULL
    with (
        open(path, "rb") as log,
        subprocess.Popen(argv, stdin=log, stdout=subprocess.PIPE, stderr=quiet) as process,
    ):
        assert process.stdout is not None  # noqa: S101 -- for the type checker
        while os.read(process.stdout.fileno(), 1 << 20):
            pass
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode > 1:
        raise errors.InternalError(errors.Problem(f"ripgrep ended with {process.returncode}"))
    return usage.ru_utime + usage.ru_stime


def _answer(plan: Plan, times: _Times, idle: dict[str, Any], count: int) -> dict[str, Any]:
    logs = ("nccl", "onepct", "healthy", "hostile")
    ratios = {f"ripgrep_{log}": times.median("ours", log) / times.ripgrep(log) for log in logs}
    ratios |= {f"loop_{log}": times.median("loop", log) / times.median("ours", log) for log in logs[:3]}
    ratios["pread_idle"] = idle["tick_us"] / idle["bare_us"]
    column = times.engine == "stdlib"
    return {
        "schema_version": 1,
        "engine": times.engine,
        "ratios": {name: float(f"{ratio:.3g}") for name, ratio in ratios.items()},
        "limits": {name: limit[column] for name, limit in LIMITS.items()},
        "missed": [name for name, ratio in ratios.items() if _missed(name, ratio, LIMITS[name][column])],
        "mb": plan.mb,
        "patterns": count,
        "hits": times.hits,
        "mb_per_s": {f"{what}_{log}": round(1 / times.median(what, log), 1) for what, log in times.each},
        "idle_us_per_file": round(idle["tick_us"], 3),
        "peak_mb": round(times.peak_mb, 1),
    }


def _missed(name: str, ratio: float, limit: float) -> bool:
    return ratio < limit if name.startswith("loop_") else ratio > limit


def table(answer: dict[str, Any]) -> str:
    """The same for a person."""
    rows = [
        f"engine {answer['engine']}, {answer['patterns']} patterns, {answer['mb']:g} MB a log, captures included"
    ]
    for name, ratio in answer["ratios"].items():
        word = "MISS" if name in answer["missed"] else "ok"
        meaning = _MEANINGS[name.partition("_")[0]].format(name.partition("_")[2])
        bound = "at least" if name.startswith("loop_") else "at most"
        rows.append(f"{word:4}  {meaning:52} {ratio:8.4g}  ({bound} {answer['limits'][name]:g})")
    speeds = ", ".join(
        f"{log} {answer['mb_per_s'][f'ours_{log}']:.0f}" for log in ("nccl", "onepct", "healthy", "hostile")
    )
    return "\n".join([*rows, f"MB/s of ours: {speeds}; peak memory {answer['peak_mb']:.0f} MB"])


_MEANINGS = {
    "ripgrep": "our processor time / ripgrep's, {}",
    "loop": "a plain re loop's processor time / ours, {}",
    "pread": "a tick over idle files / one bare read each",
}
