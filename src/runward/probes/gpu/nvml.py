"""NVML behind a child process: every question has a deadline, and silence of the driver is an answer itself."""

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from runward import ports
from runward.core import gpus

CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nvml_child.py")
_LIMIT = 4 << 20


class Nvml:
    """Asks the child. Not thread-safe: one owner."""

    name = "nvml"

    def __init__(self, clock: ports.Clock, argv: Sequence[str] | None = None) -> None:
        self._clock = clock
        self._argv = tuple(argv or (sys.executable, "-P", CHILD))
        self._child: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._id = 0
        self._asked_at: float | None = None
        self._stuck: list[subprocess.Popen[bytes]] = []

    def fast(self, deadline_s: float = 2.0) -> gpus.GpuReading | gpus.GpusUnseen:
        """The set of every second."""
        return self._ask("fast", deadline_s)

    def slow(self, deadline_s: float = 5.0) -> gpus.GpuReading | gpus.GpusUnseen:
        """The set of every 30 s."""
        return self._ask("slow", deadline_s)

    def pcie(self, deadline_s: float = 5.0) -> gpus.GpuReading | gpus.GpusUnseen:
        """Throughput, on demand only: about 40 ms a GPU."""
        return self._ask("pcie", deadline_s)

    @property
    def pid(self) -> int | None:
        """The child's pid while there is one."""
        return self._child.pid if self._child is not None else None

    def close(self) -> None:
        """End the child; one that the driver holds is left to the kernel."""
        for child in [*self._stuck, *([self._child] if self._child else [])]:
            _drop(child)
        self._child, self._stuck = None, []

    def _ask(self, op: str, deadline_s: float) -> gpus.GpuReading | gpus.GpusUnseen:
        self._stuck = [child for child in self._stuck if child.poll() is None]
        if self._asked_at is None:
            problem = self._send(op)
            if problem:
                return gpus.GpusUnseen(problem, self._clock.wall())
        answer = self._receive(self._clock.mono() + deadline_s)
        if isinstance(answer, str):
            return gpus.GpusUnseen(answer, self._clock.wall())
        if answer is None:
            return self._silent()
        return _reading(answer, self._clock.wall())

    def _send(self, op: str) -> str:
        """Ask the child, starting it when there is none. Returns why it could not be asked."""
        if self._child is None or self._child.poll() is not None:
            if self._stuck:
                return f"the driver blocks pid {self._stuck[0].pid}; no further query is started"
            self._start()
        self._id += 1
        try:
            self._pipe(self._child).write(json.dumps({"id": self._id, "op": op}).encode() + b"\n")
        except OSError:
            return self._died()
        self._asked_at = self._clock.mono()
        return ""

    def _start(self) -> None:
        if self._child is not None:
            _drop(self._child)
        self._buffer = b""
        self._child = subprocess.Popen(
            self._argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )

    @staticmethod
    def _pipe(child: subprocess.Popen[bytes] | None) -> Any:
        if child is None or child.stdin is None:
            raise BrokenPipeError
        return child.stdin

    def _receive(self, deadline: float) -> dict[str, Any] | str | None:
        """The answer to the question under way; a text when the child died; None when it is silent."""
        child = self._child
        if child is None or child.stdout is None:
            return self._died()
        while True:
            line, found, rest = self._buffer.partition(b"\n")
            if found:
                self._buffer = rest
                answer = json.loads(line)
                if answer.get("id") == self._id:
                    self._asked_at = None
                    return dict(answer) if "error" not in answer else f"NVML: {answer['error']}"
                continue
            left = deadline - self._clock.mono()
            if left <= 0 or not select.select([child.stdout], [], [], left)[0]:
                return None
            data = os.read(child.stdout.fileno(), 65536)
            if not data or len(self._buffer) > _LIMIT:
                return self._died()
            self._buffer += data

    def _silent(self) -> gpus.GpusUnseen:
        """Name the silence; after half a minute the child is given up and replaced when the kernel lets it go."""
        asked = self._asked_at if self._asked_at is not None else self._clock.mono()
        silent = self._clock.mono() - asked
        if silent >= gpus.HUNG_AFTER_S and self._child is not None:
            self._child.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(0.2)
            if self._child.poll() is None:
                self._stuck.append(self._child)
            else:
                _drop(self._child)
            self._child, self._asked_at = None, None
        return gpus.GpusUnseen(
            f"GPU query has not answered for {silent:.0f} s", self._clock.wall(), silent_s=silent
        )

    def _died(self) -> str:
        """What the child said before it died, in one line."""
        child, self._child, self._asked_at = self._child, None, None
        if child is None:
            return "the NVML child could not be started"
        child.kill()
        _, err = child.communicate()
        lines = err.decode("utf-8", "replace").strip().splitlines()
        return f"the NVML child ended: {lines[-1][:200] if lines else f'code {child.returncode}'}"


def _drop(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(1)
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _reading(answer: dict[str, Any], at: float) -> gpus.GpuReading:
    mute = tuple(f"GPU {index} does not answer: {why}" for index, why in answer.get("lost", {}).items())
    notes = list(mute)
    if answer.get("events_unseen"):
        notes.append(f"error events (Xid) are not observable through NVML: {answer['events_unseen']}")
    return gpus.GpuReading(
        samples=tuple(_sample(item) for item in answer.get("gpus", [])),
        source="nvml",
        at=at,
        xids=tuple(gpus.Xid(code, uuid, at) for code, uuid in answer.get("xids", [])),
        notes=tuple(notes),
        mute=mute,
        driver=answer.get("driver", ""),
    )


def _sample(item: dict[str, Any]) -> gpus.GpuSample:
    processes = item.get("processes")
    return gpus.GpuSample(
        index=item["index"],
        uuid=item["uuid"],
        name=item["name"],
        values=item["values"],
        absent=item["absent"],
        processes=None if processes is None else tuple(gpus.GpuProcess(pid, used) for pid, used in processes),
        mig=tuple(gpus.MigInstance(m["uuid"], m["gi"], m["ci"], m["mem"]) for m in item.get("mig", [])),
        bus_id=item["bus_id"],
    )
