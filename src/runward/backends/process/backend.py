"""Backend of local processes: submit through a keeper, find by token, poll by files, end by request.

A job's id is its attempt's folder. While the keeper lives it does everything by itself and this only reads;
when it was killed, the tree is found, watched and ended from here.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence

from runward import ports
from runward.backends.process import attempts, launching, statuses, strays
from runward.core import errors, job
from runward.keeper import endings, layout, proc, syscalls

_ANSWER_S = 30.0
_EXIT_FILE_S = 1.0


class Process:
    """Local processes. `acts=False`: only look, never signal anything and never write (`ps`, `status`)."""

    name = "process"

    def __init__(self, folder_of_token: Callable[[str], str | None], *, acts: bool = True) -> None:
        self._folder_of_token = folder_of_token
        self._acts = acts
        self._keepers: dict[str, int] = {}
        """Pids of keepers that are children of ours and were not waited for yet."""
        self._fds: dict[str, dict[str, int]] = {}
        self._strays: dict[str, strays.Strays] = {}
        self._waited: set[str] = set()
        self._log_places: dict[str, str] = {}
        if acts:
            syscalls.become_subreaper()  # a command whose keeper is killed then falls to us, with its status

    def submit(self, spec: job.JobSpec, token: str) -> str:
        """See `ports.Backend.submit`. A command that cannot be executed is an ended job (126, 127).

        Raises InternalError when the keeper could not start it; then it never will be.
        """
        folder = launching.write_spec(spec, token)
        stdin = spec.options.get(launching.STDIN_FD)
        self._keepers[folder], answer_fd = launching.start(folder, token, int(stdin) if stdin else None)
        answer = launching.wait_for_answer(answer_fd, _ANSWER_S)
        if answer.command_ran:
            self._open(folder)
            return folder
        text = f"{answer.words.get('stage')}: {answer.words.get('text')}"
        if answer.words.get("code") == 75:
            raise ports.ContactLost(f"the attempt is not ours to start: {text}")
        deadline = time.monotonic() + _ANSWER_S
        while self._reap_keeper(folder) and time.monotonic() < deadline:
            time.sleep(0.005)  # it says why, and then lets go of its lock
        if not attempts.void(folder):
            raise ports.ContactLost(f"the keeper failed, and perhaps not before the command began: {text}")
        raise errors.InternalError(f"the keeper did not start the command: {text}")

    def find(self, token: str) -> str | None:
        """See `ports.Backend.find`. None is a promise: a late keeper will not start the command."""
        folder = self._folder_of_token(token)
        if folder is None or not os.path.isdir(folder):
            return None
        spec = layout.read_spec(folder)
        if spec is not None and spec.get("token") != token:
            return None
        found = attempts.look(folder)
        if found.keeper is not None or found.exit is not None or found.start is not None:
            return folder
        if found.void:
            return None
        if not self._acts:
            raise ports.ContactLost("whether the attempt will be started cannot be told by looking")
        return None if attempts.void(folder) else folder

    def poll(self, jobs: Sequence[str]) -> Mapping[str, job.JobStatus | job.Unseen]:
        """See `ports.Backend.poll`. Also climbs the ladder for attempts without a keeper."""
        found: dict[str, job.JobStatus | job.Unseen] = {}
        for folder in jobs:
            try:
                found[folder] = self._status(folder)
            except OSError as error:
                found[folder] = job.Unseen(str(error), time.time())
        return found

    def cancel(self, job_id: str, plan: ports.EndPlan) -> None:
        """See `ports.Backend.cancel`."""
        self.end(job_id, plan, now=plan.now, stacks=plan.stacks)

    def end(self, job_id: str, plan: ports.EndPlan, *, now: bool = False, stacks: bool = False) -> None:
        """Ask for an end; `now`: SIGKILL at once; `stacks`: fault handlers print first (SIGABRT)."""
        request = {
            "schema_version": layout.SCHEMA,
            "signum": plan.signum,
            "grace_s": plan.grace_s,
            "why": plan.why,
            "now": now,
            "stacks": stacks,
            "at": time.time(),
        }
        try:
            layout.write_json(os.path.join(job_id, layout.END), request, durable=True)
        except OSError as error:
            raise ports.ContactLost(f"{job_id}: the end cannot be asked for: {error}") from error
        found = attempts.look(job_id)
        if found.keeper:
            _wake(found.keeper)
        elif found.orphaned and self._acts:
            self._stray(found).ladder.ask(endings.Plan(request), time.monotonic())

    def logs(self, job_id: str) -> Sequence[ports.LogStream]:
        """See `ports.Backend.logs`."""
        from runward.backends.process import streams  # noqa: PLC0415 -- `ps` needs no log reader

        place = self._log_places.get(job_id) or streams.place(job_id)
        if place is not None:
            self._log_places[job_id] = place
        return streams.of(job_id, place)

    def alive(self, job_id: str) -> bool:
        """Whether anything of the attempt may still live."""
        found = attempts.look(job_id)
        if found.keeper is not None:
            return found.gone is None
        return found.orphaned and not self._stray(found).none_left()

    def processes_left(self, job_id: str) -> tuple[int, ...]:
        """Pids of the attempt that can be seen now, without its keeper."""
        found = attempts.look(job_id)
        if found.keeper:
            below = proc.descendants([found.keeper])
            return tuple(
                sorted(pid for pid, one in below.items() if proc.Identity(pid, one.start, None).alive())
            )
        return tuple(sorted(self._stray(found).members())) if found.start is not None else ()

    def wait_fds(self, job_id: str) -> tuple[int, ...]:
        """Descriptors that become readable when the command or its keeper dies; without those that did."""
        fds = self._fds.get(job_id) or self._open(job_id)
        return tuple(fd for fd in fds.values() if not proc.is_dead(fd))

    def wait(self, jobs: Sequence[str], timeout_s: float) -> bool:
        """Sleep until a command or keeper dies, at most `timeout_s`; whether one did."""
        poller = select.poll()
        for folder in jobs:
            for fd in self.wait_fds(folder):
                poller.register(fd, select.POLLIN)
        return bool(poller.poll(timeout_s * 1000))

    def forget(self, job_id: str) -> None:
        """Let go of what is held for an ended attempt."""
        for fd in self._fds.pop(job_id, {}).values():
            os.close(fd)
        self._strays.pop(job_id, None)
        self._reap_keeper(job_id)
        self._keepers.pop(job_id, None)
        self._log_places.pop(job_id, None)

    def _reap_keeper(self, folder: str) -> bool:
        """Whether the keeper that we started for `folder` still runs; waits for it when it does not."""
        pid = self._keepers.get(folder)
        if pid is None:
            return False
        try:
            if os.waitpid(pid, os.WNOHANG)[0] == 0:
                return True
        except ChildProcessError:
            pass
        del self._keepers[folder]
        return False

    def _open(self, folder: str) -> dict[str, int]:
        found = attempts.look(folder)
        fds: dict[str, int] = {}
        if found.root is not None and (fd := found.root.open()) is not None:
            fds["root"] = fd
        keeper = proc.Identity.from_json(found.start.get("keeper")) if found.start else None
        if keeper is not None and (fd := keeper.open()) is not None:
            fds["keeper"] = fd
        self._fds[folder] = fds
        return fds

    def _status(self, folder: str) -> job.JobStatus | job.Unseen:
        found = attempts.look(folder)
        if folder not in self._fds:
            self._open(folder)
        if found.keeper is not None:
            return self._kept(found)
        pending = self._reap_keeper(folder)
        if found.orphaned:
            return self._orphaned(found)
        if found.start is None and found.exit is None:
            return self._not_started(found, pending=pending)
        return statuses.final(found)

    def _not_started(self, found: attempts.Attempt, *, pending: bool) -> job.JobStatus | job.Unseen:
        if pending:
            return job.JobStatus(job.JobState.PENDING, "the keeper starts")
        if found.void or (self._acts and attempts.void(found.folder)):
            return job.JobStatus(job.JobState.FAILED, "never started", job.ExitStatus.unseen())
        return job.Unseen("not started yet, or never", time.time())

    def _kept(self, found: attempts.Attempt) -> job.JobStatus:
        """The keeper lives. Right after the command's death its exit file is milliseconds away."""
        root = self._fds.get(found.folder, {}).get("root")
        deadline = time.monotonic() + _EXIT_FILE_S
        while (
            found.exit is None
            and root is not None
            and found.folder not in self._waited
            and proc.is_dead(root)
            and time.monotonic() < deadline
        ):
            time.sleep(0.001)
            found = attempts.look(found.folder)
        if found.exit is None and root is not None and proc.is_dead(root):
            self._waited.add(found.folder)  # a stopped keeper, or a tracer: do not wait at every poll
        return statuses.final(found) if found.gone is not None else statuses.kept(found)

    def _stray(self, found: attempts.Attempt) -> strays.Strays:
        if found.folder not in self._strays:
            stray = strays.Strays(found.folder, found.root)
            end = layout.read_json(os.path.join(found.folder, layout.END))
            if end is not None and self._acts:
                stray.ladder.ask(endings.Plan(end), time.monotonic())
            self._strays[found.folder] = stray
        return self._strays[found.folder]

    def _orphaned(self, found: attempts.Attempt) -> job.JobStatus:
        """The keeper was killed: the command runs on, or what it left is ended here."""
        stray, now = self._stray(found), time.monotonic()
        if not found.rebooted and stray.root_alive():
            if self._acts:
                stray.note(now)
                stray.ladder.advance(now)
            return statuses.without_keeper(found, ending=stray.ladder.step != "idle")
        root = self._fds.get(found.folder, {}).get("root")
        if root is not None:
            stray.see_root(root)
        if not found.rebooted and not self._nothing_left(stray, now):
            return statuses.without_keeper(found, ending=True)
        if self._acts:
            strays.write_end(found.folder, stray.status, stray.ladder)
            return statuses.final(attempts.look(found.folder))
        final = statuses.final(found)
        return final if final.exit and final.exit.seen else final._replace(exit=strays.exit_of(stray.status))

    def _nothing_left(self, stray: strays.Strays, now: float) -> bool:
        if not self._acts:
            return stray.none_left()
        stray.reap()
        stray.ladder.root_ended(now, well=stray.status == 0, grace_s=stray.grace_s)
        if stray.none_left():
            return True
        stray.ladder.advance(now)
        return False


def _wake(keeper: int) -> None:
    with contextlib.suppress(OSError):
        fd = os.pidfd_open(keeper, 0)
        with proc.closing(fd):
            one = proc.stat(keeper)
            if one is not None and one.state in {"T", "t"}:
                signal.pidfd_send_signal(fd, signal.SIGCONT)  # a stopped keeper could not hear
            signal.pidfd_send_signal(fd, signal.SIGUSR1)
