"""Runs that Runward did not start: a process of this machine, or a log that somebody else writes."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from runward import ports
from runward.app import pulse
from runward.backends import given
from runward.core import errors, job, observations, options
from runward.probes import processes as strangers
from runward.scan import tailer
from runward.wiring import processes
from runward.wiring.place import Place

_TERM_WAIT_S = 5.0


@dataclass
class _Process:
    """A stranger's process, held from the first look on; its end is asked for step by step, a poll at a time."""

    asked: options.RunOptions
    held: strangers.Stranger | None = None
    last: job.JobStatus | None = None
    let_go: bool = False
    ending: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    paths: list[str] | None = None

    def status(self, handle: str) -> job.JobStatus:
        """Alive, suspended, or over."""
        if self.let_go:
            return job.JobStatus(
                job.JobState.CANCELLED, "let go", job.ExitStatus.unseen(), ended_at=time.time()
            )
        if self.last is not None and self.last.state.final:
            return self.last
        stranger = self._hold(handle)
        if stranger is None:
            ended = job.JobStatus(
                job.JobState.FAILED, "exit not seen", job.ExitStatus.unseen(), ended_at=time.time()
            )
            self.last = ended
            return ended
        self._insist()
        self.last = stranger.status()
        return self.last

    def _hold(self, handle: str) -> strangers.Stranger | None:
        """The process of that pid and start; another one that got the pid since is not it."""
        if self.held is None:
            pid, _, start = handle.partition("@")
            try:
                found = strangers.Stranger(int(pid))
            except errors.NotFound:
                return None
            if str(found.start) != start:
                found.close()
                return None
            self.held = found
        return self.held

    def end(self, handle: str, plan: ports.EndPlan) -> None:
        """Let go of what is only observed; ask what was handed over to end, and insist later."""
        if self.asked.observe_only:
            self.let_go = True
            return
        stranger = self._hold(handle)
        if stranger is None:
            return
        tree = stranger.tree()
        now = time.monotonic()
        grace = 0.0 if plan.now else plan.grace_s
        if not plan.now:
            _signal([stranger.pid], plan.signum)
        self.ending = [
            (now + grace, lambda: _signal(tree, signal.SIGTERM)),
            (now + grace + _TERM_WAIT_S, lambda: _signal(tree, signal.SIGKILL)),
        ]

    def _insist(self) -> None:
        while self.ending and time.monotonic() >= self.ending[0][0]:
            self.ending.pop(0)[1]()

    def logs(self, handle: str) -> Sequence[ports.LogStream]:
        """The log that was named, else the files that stdout and stderr go to."""
        if self.paths is None:
            self.paths = [self.asked.log] if self.asked.log else _outputs(int(handle.partition("@")[0]))
        return [tailer.FileLog(path) for path in self.paths]  # each reader has a position of its own


def _signal(pids: Sequence[int], signum: int) -> None:
    for pid in pids:
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(pid)
            try:
                signal.pidfd_send_signal(descriptor, signum)
            finally:
                os.close(descriptor)


def _outputs(pid: int) -> list[str]:
    """Regular files behind a process's stdout and stderr."""
    found: list[str] = []
    for number in (1, 2):
        with contextlib.suppress(OSError):
            path = os.readlink(f"/proc/{pid}/fd/{number}")
            if os.path.isfile(path) and path not in found:
                found.append(path)
    return found


def describe_process(pid: int) -> tuple[str, tuple[str, ...], str, list[str]]:
    """Handle, command, working directory and output files of a process. Raises NotFound."""
    stranger = strangers.Stranger(pid)
    try:
        cwd = "/"
        with contextlib.suppress(OSError):
            cwd = os.readlink(f"/proc/{pid}/cwd")
        return f"{pid}@{stranger.start}", stranger.command, cwd, _outputs(pid)
    finally:
        stranger.close()


def environment_of(pid: int) -> dict[str, str]:
    """A process's environment as it was started; empty where it may not be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = file.read(4 << 20).split(b"\0")
    except OSError:
        return {}
    split = (os.fsdecode(pair).partition("=") for pair in pairs if b"=" in pair)
    return {key: value for key, _, value in split}


def process_place(asked: options.RunOptions, acts: bool = True) -> Place:
    """A stranger's process; what follows it, when it was handed over, are processes under keepers."""
    one = _Process(asked)
    starter = processes.open_backend(acts=acts)
    backend = given.Given(one.status, one.logs, one.end, None if asked.observe_only else starter)
    local = processes.place_of(starter)

    def wait_fds(handle: str) -> Sequence[int]:
        if not handle.startswith(given.PREFIX):
            return starter.wait_fds(handle)
        held = one.held
        over = held is None or (one.last is not None and one.last.state.final)
        return () if over or held is None else (held.fileno(),)

    def looks(handle: str) -> pulse.Looks:
        if not handle.startswith(given.PREFIX):
            return local.looks(handle)
        return pulse.Looks(lambda: processes.cpu_seconds(one.held.tree()) if one.held is not None else None)

    def suspended(handle: str) -> bool:
        if not handle.startswith(given.PREFIX):
            return local.suspended(handle)
        return one.last is not None and one.last.state is job.JobState.SUSPENDED

    return Place(
        backend=backend,
        describe=lambda handle: (
            _described(handle) if handle.startswith(given.PREFIX) else local.describe(handle)
        ),
        wait_fds=wait_fds,
        looks=looks,
        suspended=suspended,
        witnesses=lambda h, s: () if h.startswith(given.PREFIX) else local.witnesses(h, s),
        texts=lambda h, s: () if h.startswith(given.PREFIX) else local.texts(h, s),
        spec_maker=local.spec_maker,
    )


def _described(handle: str) -> observations.Launched:
    return observations.Launched(handle.removeprefix(given.PREFIX).partition("@")[0], handle)


# -- files ---------------------------------------------------------------------------------------------------


@dataclass
class _File:
    """A log that somebody writes: alive while it grows."""

    asked: options.RunOptions
    size: int = -1
    grew_at: float = field(default_factory=time.monotonic)
    let_go: bool = False

    def status(self, path: str) -> job.JobStatus:
        """Running, until it has not grown for as long as the user said."""
        try:
            size = os.stat(path).st_size
        except OSError:
            size = self.size
        if size != self.size:
            self.size, self.grew_at = size, time.monotonic()
        idle = self.asked.until_idle_s
        if self.let_go or (idle is not None and time.monotonic() - self.grew_at >= idle):
            word = "let go" if self.let_go else f"no new line for {idle:.0f} s"
            return job.JobStatus(job.JobState.SUCCEEDED, word, job.ExitStatus.unseen(), ended_at=time.time())
        return job.JobStatus(job.JobState.RUNNING)

    def end(self, path: str, plan: ports.EndPlan) -> None:
        """A file cannot be ended: it is no longer watched."""
        del path, plan
        self.let_go = True


def file_place(asked: options.RunOptions, acts: bool = True) -> Place:
    """A log file of any writer."""
    del acts
    path = asked.target.removeprefix("file:")
    one = _File(asked)
    backend = given.Given(one.status, lambda _: (tailer.FileLog(path),), one.end)
    return Place(
        backend=backend,
        describe=lambda handle: observations.Launched(handle.removeprefix(given.PREFIX), handle),
        looks=lambda _: pulse.Looks(lambda: None),
    )
