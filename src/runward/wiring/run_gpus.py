"""The GPUs of watched runs: a sampler thread, what processes show of themselves, and marks on bad nodes."""

import os
import socket
import threading
from collections.abc import Callable, Collection, Sequence

from runward import ports
from runward.app import attending, gpu_watching
from runward.core import events, failures, flight, gpu_idle, gpu_ownership, gpus, nodes, options, run
from runward.probes.gpu import claims
from runward.wiring import clock, stack_looks
from runward.wiring import gpus as sources
from runward.wiring import nodes as memory

EVERY_S = 1.0
SLOW_EVERY_S = 10.0
WANTED_FOR_S = 10.0
"""A sampler that nobody asked for this long stops its readings, and its child."""
_GRACE_S = 300.0
_DEVICES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")


def present() -> bool:
    """Whether this machine has GPUs as far as its devices say."""
    return any(os.path.exists(path) for path in _DEVICES)


class Sampler:
    """See `gpu_watching.Sampler`. A driver that blocks blocks only the child that asks it."""

    def __init__(self, now: ports.Clock) -> None:
        self._clock = now
        self._lock = threading.Lock()
        self._wanted_until = 0.0
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()
        self._newest: tuple[float, gpus.GpuReading | gpus.GpusUnseen] | None = None

    def want(self) -> None:
        """Start reading, or go on."""
        with self._lock:
            self._wanted_until = self._clock.mono() + WANTED_FOR_S
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._run, name="gpus", daemon=True)
                self._thread.start()

    def newest(self) -> tuple[float, gpus.GpuReading | gpus.GpusUnseen] | None:
        """See `gpu_watching.Sampler.newest`."""
        return self._newest

    def _run(self) -> None:
        found = sources.open_here()
        slow_at = float("-inf")
        try:
            while not self._over():
                began = self._clock.mono()
                due = began - slow_at >= SLOW_EVERY_S
                slow_at = began if due else slow_at
                self._newest = (began, self._read(found, slow=due))
                self._closed.wait(max(0.0, EVERY_S - (self._clock.mono() - began)))
        finally:
            found.close()

    def _read(self, found: sources.Gpus, *, slow: bool) -> gpus.GpuReading | gpus.GpusUnseen:
        try:
            return found.look(slow=slow)
        except Exception as error:  # noqa: BLE001 -- the border of our own thread: an odd driver is no reading
            return gpus.GpusUnseen(f"reading failed: {error!r}", self._clock.wall())

    def _over(self) -> bool:
        with self._lock:
            if not self._closed.is_set() and self._clock.mono() < self._wanted_until:
                return False
            self._thread = None
            return True

    def close(self) -> None:
        """The thread ends by itself; a daemon that a driver holds does not hold the watcher."""
        self._closed.set()
        thread = self._thread
        if thread is not None:
            thread.join(2.0)


def signs(pid: int) -> gpu_watching.Signs:
    """Rank, bytes and processor time of a process, as far as they may be read."""
    return gpu_watching.Signs(_rank(pid), stack_looks.moved((pid,)), _cpu_s(pid))


def _rank(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = dict(item.partition(b"=")[::2] for item in file.read(1 << 20).split(b"\0"))
        return int(pairs[b"RANK"])
    except (OSError, ValueError, KeyError):
        return None


def _cpu_s(pid: int) -> float | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            parts = file.read(4096).rpartition(")")[2].split()
        return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def _own(pids: Collection[int], reading: gpus.GpuReading) -> gpu_ownership.Ownership:
    return gpu_ownership.own(reading, claims.of_tree(pids))


def rule_of(asked: options.RunOptions) -> gpu_idle.IdleRule | None:
    """The user's idle limit; the grace at the start is as long, and at most five minutes."""
    after = asked.gpu_idle_after_s
    if after is None:
        return None
    mode = gpu_idle.Mode(asked.gpu_idle)
    return gpu_idle.IdleRule(after, asked.gpu_idle_below_pct, mode, grace_s=min(after, _GRACE_S))


def watch_of(
    asked: options.RunOptions,
    attendant: attending.Attending,
    pids: gpu_watching.Pids | None,
    flight_of: Callable[[run.Attempt], flight.FlightSummary | None],
) -> gpu_watching.GpuWatch | None:
    """The observer of a run's GPUs; None where there is nothing that it could look at or was asked for."""
    rule = rule_of(asked)
    if pids is None or (rule is None and not present()):
        return None
    now = clock.SystemClock()
    means = gpu_watching.Means(
        now,
        Sampler(now),
        stack_looks.Stacks(),
        pids,
        _own,
        signs,
        attendant.silence,
        socket.gethostname(),
        rule,
        flight_of,
    )
    return gpu_watching.GpuWatch(means)


_MARKED = (failures.Cause.GPU_HARDWARE, failures.Cause.NODE_FAILURE)


class Marks:
    """Remembers nodes whose hardware ended an attempt."""

    def __init__(self, asked: options.RunOptions, cluster: str | None = None) -> None:
        self._cluster = cluster
        self._here = socket.gethostname() if asked.backend in ("process", "local") else None

    def __call__(self, state: run.RunState, new: Sequence[events.Event]) -> None:
        """Hears of every journalled event."""
        for event in new:
            if isinstance(event, events.AttemptEnded | events.VerdictRevised):
                self._mark(state, event)

    def _mark(self, state: run.RunState, event: events.AttemptEnded | events.VerdictRevised) -> None:
        from runward.backends.slurm import clusters  # a run whose attempts have not ended needs none of it

        # by its number: the next attempt may be planned in the same step
        ended = next((one for one in state.attempts if one.n == event.attempt), None)
        verdict = run.verdict_of(ended) if ended is not None else None
        if verdict is None or verdict.cause not in _MARKED:
            return
        node = verdict.node or self._here
        if node is None:
            return
        proven = verdict.certainty is failures.Certainty.PROVEN
        known_as = clusters.called(node, self._cluster)
        mark = nodes.Mark(known_as, event.at, verdict.cause, state.run, proven=proven, text=verdict.summary)
        try:
            memory.open_memory().add(mark)
        except OSError:
            return  # the memory is advice; the journal has the verdict
