"""A child process that looks at a checkpoint directory, so that neither mount nor size stops its parent.

One JSON object a line in, one out. It ends when its input ends or its parent is gone. Nothing in a checkpoint
makes it fail: a request that does is answered with the error.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import sys
import time
from typing import IO, Any

from runward.checkpoint_readers import files, findings, growth, hashes, mounts, reader, scanner
from runward.checkpoint_readers.pace import OutOfTime, Pace

_MAX_KEPT = 2000
_MAX_CACHE = 64 << 20


class Worker:
    """Answers requests about one directory, and keeps its readings in a file."""

    def __init__(self, cache_file: str | None) -> None:
        self._file = cache_file
        self._cache: dict[str, reader.Reading] = _load(cache_file) if cache_file else {}
        self._dirty = False
        self._growth = growth.Growth()
        self._parent = os.getppid()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """One request: `scan`, `restart` or `read`."""
        operation = request.get("op")
        known = len(self._cache)
        if operation == "scan":
            report = self._scan(request)
        elif operation == "restart":
            report = self._restart(request)
        elif operation == "read":
            return self._read(request)
        else:
            raise ValueError(f"no operation {operation!r}")
        self._dirty = self._dirty or len(self._cache) != known
        self._save()
        return report

    def _learn(self, key: str, value: Any) -> None:
        """What another worker read."""
        learnt = reader.from_json(value)
        if learnt is not None:
            self._cache[key] = learnt
            self._dirty = True

    def _scan(self, request: dict[str, Any]) -> dict[str, Any]:
        directory = str(request["directory"])
        for key, value in request.get("learn", ()):
            self._learn(str(key), value)
        report = scanner.scan(directory, cache=self._cache)
        report["grown"] = self._growth.look(directory)
        report["network"] = mounts.network_type(directory)
        return report

    def _restart(self, request: dict[str, Any]) -> dict[str, Any]:
        """Read what is not verified yet, newest first, until one is proven complete or the time is over."""
        directory = str(request["directory"])
        pace = Pace(deadline=time.monotonic() + float(request["budget_s"]), parent=self._parent, hurried=True)
        report = self._scan(request)
        if report["network"] and not request.get("network"):
            return report
        for row in reversed(report["checkpoints"]):
            if row["state"] != findings.COMPLETE or row["quarantined"]:
                continue
            if row["verified"] == "pending":
                tree = files.tree(row["path"])
                reading = reader.read(tree, pace)
                self._cache[scanner.key(tree)] = reading
                self._dirty = True
                if reading.finding.state != findings.COMPLETE:
                    continue
            break
        grown = report["grown"]
        report = self._scan({"directory": directory})
        report["grown"] += grown
        return report

    def _read(self, request: dict[str, Any]) -> dict[str, Any]:
        """Read every checksum of one checkpoint at the asked rate; hash it when that is wanted."""
        tree = files.tree(str(request["path"]))
        if request.get("known") and hashes.has(tree):
            return {}
        pace = Pace(rate=float(request["rate"]) or None, parent=self._parent)
        reading = reader.read(tree, pace)
        problem = ""
        if request.get("hash") and reading.finding.state == findings.COMPLETE and not hashes.has(tree):
            try:
                hashes.take(tree, pace)
                reading = reading._replace(finding=reading.finding._replace(checksum=findings.READ))
            except OSError as error:
                problem = f"hashes cannot be kept: {error.strerror or type(error).__name__}"
        return {"key": scanner.key(tree), "reading": reading.to_json(), "problem": problem}

    def _save(self) -> None:
        if self._file is None or not self._dirty:
            return
        while len(self._cache) > _MAX_KEPT:
            self._cache.pop(next(iter(self._cache)))
        self._dirty = False
        rows = {key: reading.to_json() for key, reading in self._cache.items()}
        temporary = f"{self._file}.{os.getpid()}.tmp"
        with contextlib.suppress(OSError):
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump(rows, file)
            os.replace(temporary, self._file)


def _load(path: str) -> dict[str, reader.Reading]:
    try:
        with files.View(path) as view:
            rows = json.loads(view.read(0, _MAX_CACHE))
    except (OSError, ValueError, RecursionError):
        return {}
    found = {}
    for key, value in dict(rows if isinstance(rows, dict) else {}).items():
        reading = reader.from_json(value)
        if reading is not None:
            found[str(key)] = reading
    return found


def idle() -> None:
    """Lowest priority for the processor and the disk; where the kernel refuses, as low as it allows."""
    with contextlib.suppress(OSError):
        os.nice(19)
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    number = {"x86_64": 251, "aarch64": 30}.get(platform.machine())
    if number is not None:
        # ioprio_set(IOPRIO_WHO_PROCESS, self, class idle): Python has no call for it.
        with contextlib.suppress(OSError):
            ctypes.CDLL(None).syscall(number, 1, 0, 3 << 13)


def serve(requests: IO[str], answers: IO[str], cache_file: str | None) -> None:
    """Answer until the input ends."""
    worker = Worker(cache_file)
    for line in requests:
        request: dict[str, Any] = {}
        try:
            request = dict(json.loads(line))
            answer = worker.answer(request)
        except OutOfTime:
            answer = {"error": "out of time"}
        except Exception as error:  # noqa: BLE001 -- the border of a child: its parent gets the error
            answer = {"error": f"{type(error).__name__}: {error}"}
        answer["id"] = request.get("id")
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main(argv: list[str]) -> None:
    """`argv`: the word idle or normal, and the file of verdicts or nothing."""
    if argv[:1] == ["idle"]:
        idle()
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        serve(sys.stdin, sys.stdout, argv[1] if len(argv) > 1 else None)
