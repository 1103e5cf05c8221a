"""The keeper's life after the start: reap everything, note the command's end, climb the ladder, mind the log.

One thread, no blocking wait: with a debugger attached a dead command cannot be reaped for a while. Whoever
wants an end writes `end.json` and sends SIGUSR1; SIGTERM means stop with the grace.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time

from runward.keeper import endings, faults, proc, records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from runward.keeper import cgroups, logs, specs, terminal

TICK_S = 1.0
STEP_DAEMONS = frozenset({"slurmstepd", "pbs_mom", "sge_shepherd", "res"})
JOB_VARIABLES = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID")


class Wakeups:
    """Signals as bytes of a pipe, so that none is lost between a look and a wait."""

    _read, _write = -1, -1

    @classmethod
    def prepare(cls) -> None:
        """Before the fork: a SIGCHLD that comes early must not be missed."""
        cls._read, cls._write = os.pipe()
        os.set_blocking(cls._read, False)
        os.set_blocking(cls._write, False)
        signal.set_wakeup_fd(cls._write, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGUSR1, signal.SIGTERM):
            signal.signal(number, lambda _number, _frame: None)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)

    @classmethod
    def fileno(cls) -> int:
        """What to poll."""
        return cls._read

    @classmethod
    def take(cls) -> bytes:
        """Numbers of the signals since the last call."""
        try:
            return os.read(cls._read, 4096)
        except BlockingIOError:
            return b""


def step_daemon(env: dict[str, str]) -> int | None:
    """A pidfd on the scheduler's step daemon above us, inside a job: when it goes, the job has ended."""
    if not any(env.get(name) for name in JOB_VARIABLES):
        return None
    pid = os.getppid()
    for _ in range(64):
        one = proc.stat(pid)
        if one is None or pid <= 1:
            return None
        if one.comm in STEP_DAEMONS:
            return proc.open_pidfd(one.pid, one.start)
        pid = one.ppid
    return None


class Keeper:
    """Everything that the keeper of one attempt knows."""

    def __init__(
        self, folder: str, spec: specs.Spec, root: proc.Identity, counters: cgroups.Counters
    ) -> None:
        self.folder, self.spec, self.root, self.counters = folder, spec, root, counters
        self.log: logs.Bounded
        self.terminal: terminal.Pair | None = None
        self.step_daemon: int | None = None
        self.records = records.Records(folder, self)
        self.exit: dict[str, object] | None = None
        self.outside: dict[int, proc.Stat] = {}
        tree = endings.Tree(root, self.members, self._reap)
        self.ladder = endings.Ladder(tree, self.records.tell_step)
        self.ladder.term_wait_s, self.ladder.unkillable_after_s = spec.term_wait_s, spec.unkillable_after_s
        self._poller = select.poll()
        self._poller.register(Wakeups.fileno(), select.POLLIN)
        self._failure_fd = -1
        self._failure: dict[str, object] | None = None
        self._answer: Callable[..., None] | None = None
        self._childless = False

    def on_started(self, failure_fd: int, answer: Callable[..., None]) -> None:
        """The command may exec now; the pipe's end of file says that it has."""
        self._failure_fd, self._answer = failure_fd, answer
        self._poller.register(failure_fd, select.POLLIN)

    def members(self) -> dict[int, proc.Stat]:
        """All that descends from the command, and carriers of its token outside the tree."""
        self.outside = {pid: one for pid, one in self.outside.items() if _still(one)}
        return {**proc.descendants([os.getpid()]), **self.outside}

    def run(self) -> int:
        """Until nothing of the attempt is left."""
        if self.step_daemon is not None:
            self._poller.register(self.step_daemon, select.POLLIN)
        if self.terminal is not None:
            self.terminal.register(self._poller)
        due, wait = 0.0, 0.0
        while not self._finished():
            ready = {fd for fd, _ in self._poller.poll(max(0.0, wait) * 1000)}
            now = time.monotonic()
            self._serve(ready, now)
            self._reap()
            if now >= due:
                due = now + TICK_S
                self._tick(now)
            wait = min(self._next(now), due - now)
        return 0

    def _next(self, now: float) -> float:
        """Seconds until something of the ladder, the log or a refused write is due."""
        waits = [self.ladder.advance(now), 0.0 if self.log.busy else None]
        if self.exit is not None and not self.records.exit_written:
            waits.append(0.1)
        return min((one for one in waits if one is not None), default=TICK_S)

    def _serve(self, ready: set[int], now: float) -> None:
        if self._failure_fd in ready:
            self._on_exec()
        if self.step_daemon is not None and self.step_daemon in ready:
            self._poller.unregister(self.step_daemon)
            self.step_daemon = None
            self._stop("the scheduler's job has ended", now)
        if self.terminal is not None:
            self.terminal.serve(ready, self.log)
        signums = Wakeups.take() if Wakeups.fileno() in ready else b""
        if signal.SIGTERM in signums:
            self._stop("the keeper was sent SIGTERM", now)
        if signal.SIGUSR1 in signums:
            self._read_end(now)
        if self.log.busy:
            self.log.work()

    def _stop(self, why: str, now: float) -> None:
        self.ladder.ask(
            endings.Plan({"why": why}, signum=self.spec.stop_signal, grace_s=self.spec.grace_s), now
        )

    def _read_end(self, now: float) -> None:
        data = self.records.new_end()
        if data is not None:
            self.ladder.ask(endings.Plan(data, self.spec.stop_signal, self.spec.grace_s), now)

    def _on_exec(self) -> None:
        text = os.read(self._failure_fd, 4096)
        self._poller.unregister(self._failure_fd)
        os.close(self._failure_fd)
        self._failure_fd = -1
        self._failure = json.loads(text) if text else None
        if self._answer is None:
            return
        if self._failure is None:
            self._answer(ok=True, **self.root.to_json(), keeper=os.getpid())
        else:
            self._answer(ok=False, **self._failure)

    def _reap(self) -> None:
        """Collect every dead child; ECHILD proves that nothing which the command ever started is left."""
        while True:
            try:
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                self._childless = True
                return
            if info is None:
                return
            is_root = info.si_pid == self.root.pid and self.exit is None
            if is_root:  # still a zombie: if we are killed here, whoever adopts it can read the status too
                self._on_command_end(info)
            _, _, usage = os.wait4(info.si_pid, os.WNOHANG)
            if is_root and self.exit is not None:
                self.records.add_usage(self.exit, usage)

    def _on_command_end(self, info: os.waitid_result) -> None:
        faults.here("command_ended")
        if self._failure_fd >= 0:
            self._on_exec()
        if self.terminal is not None:
            self.terminal.drain(self.log)
        self.counters.look_at_end()
        self.exit = records.exit_record(info, self)
        if self._failure is not None:
            self.exit["failure"] = self._failure
        faults.here("exit_json")
        self.records.write_exit()
        well = self.exit["code"] == 0
        self.ladder.root_ended(time.monotonic(), well=well, grace_s=self.spec.grace_s)

    def _tick(self, now: float) -> None:
        self._read_end(now)
        self.log.tick(now)
        self.records.write_tree(now)
        if self.ladder.step != "idle":
            faults.here("ladder")

    def _finished(self) -> bool:
        if self.exit is None or not self._childless or not self.records.write_exit():
            return False
        if not self.outside:
            found = proc.with_token(self.spec.token)
            found.pop(os.getpid(), None)
            self.outside = found
        if self.members():
            self.ladder.root_ended(time.monotonic(), well=False, grace_s=0.0)
            return False
        if self.terminal is not None:
            self.terminal.drain(self.log)
        self.log.finish()
        return self.records.write_gone()


def _still(one: proc.Stat) -> bool:
    return proc.Identity(one.pid, one.start, None).alive()
