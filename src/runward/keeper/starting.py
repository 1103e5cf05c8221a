"""The start protocol: lock, void, started, fork, start.json, leave, exec, answer.

Whatever instant the keeper dies at, an attempt's folder starts its command at most once, and a command runs
only if `start.json` names it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
import time

from runward.keeper import cgroups, command, faults, layout, logs, loop, proc, specs, syscalls, terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

LOCK_HELD = 75


class Answer:
    """The starter's pipe: one line of JSON, and nothing more. A starter that has gone is no matter."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def give(self, **words: object) -> None:
        """Say it once; later words are dropped."""
        if self._fd < 0:
            return
        with contextlib.suppress(OSError):
            os.write(self._fd, json.dumps(words).encode() + b"\n")
        with contextlib.suppress(OSError):
            os.close(self._fd)
        self._fd = -1


def main(folder: str, fd: int) -> NoReturn:
    """Be the keeper of an attempt, to its end."""
    answer = Answer(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3))
    if fd > 2:
        os.close(fd)
    code = command.OWN_FAILURE
    try:
        code = _keep(os.path.abspath(folder), answer)
    except specs.BadSpec as error:
        answer.give(ok=False, stage="spec", text=str(error), code=command.OWN_FAILURE)
    except Exception as error:  # noqa: BLE001 -- the border of the process: it becomes an answer and a trace
        sys.excepthook(*sys.exc_info())
        answer.give(
            ok=False, stage="keeper", text=f"{type(error).__name__}: {error}", code=command.OWN_FAILURE
        )
    sys.stderr.flush()
    os._exit(code)  # an interpreter's own end takes 3 ms


def _keep(folder: str, answer: Answer) -> int:
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    loop.Wakeups.prepare()
    faults.here("before_lock")
    # Opened once, here: any other open and close of this file in this process would drop the lock.
    lock = os.open(os.path.join(folder, layout.LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    if not syscalls.take_lock(lock):
        answer.give(ok=False, stage="lock", text="another keeper holds this attempt", code=LOCK_HELD)
        return LOCK_HELD
    faults.here("locked")
    if layout.exists(folder, layout.VOID):
        answer.give(
            ok=False, stage="void", text="this attempt was given up before it started", code=LOCK_HELD
        )
        return LOCK_HELD
    data = layout.read_spec(folder)
    if data is None:
        raise specs.BadSpec("there is no readable spec.json")
    spec = specs.Spec(data, folder)
    try:
        os.close(os.open(os.path.join(folder, layout.STARTED), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    except FileExistsError:
        answer.give(ok=False, stage="started", text="this attempt was started before", code=LOCK_HELD)
        return LOCK_HELD
    faults.here("started")
    return _start(folder, spec, answer)


def _start(folder: str, spec: specs.Spec, answer: Answer) -> int:
    subreaper = syscalls.become_subreaper()
    os.makedirs(spec.log.folder, exist_ok=True)
    terminal_pair = terminal.open_pair(folder) if spec.tty else None
    outputs = logs.open_outputs(spec.log)
    if terminal_pair is None:
        pipes = command.Pipes(outputs[0], outputs[-1], None)
    else:
        pipes = command.Pipes(terminal_pair.slave, terminal_pair.slave, terminal_pair.slave)
    step_daemon = loop.step_daemon(spec.env)
    root = os.fork()
    if root == 0:
        command.become(spec, pipes)
    pipes.close_child_ends()
    if terminal_pair is not None:
        os.close(terminal_pair.slave)
    _leave_stdin()
    counters = cgroups.Counters()
    counters.note(root)
    counters.look()
    keeper = loop.Keeper(folder, spec, proc.Identity.of(root), counters)
    keeper.step_daemon = step_daemon
    keeper.log = logs.Bounded(folder, spec.log, outputs)
    keeper.terminal = terminal_pair
    layout.write_json(os.path.join(folder, layout.START), _start_record(keeper, subreaper), durable=True)
    faults.here("start_json")
    os.write(pipes.leave_write, b"1")
    os.close(pipes.leave_write)
    faults.here("exec")
    keeper.on_started(pipes.failure_read, answer.give)
    return keeper.run()


def _start_record(keeper: loop.Keeper, subreaper: bool) -> dict[str, object]:
    return {
        "schema_version": layout.SCHEMA,
        **keeper.root.to_json(),
        "boot_id": proc.boot_id(),
        "at": time.time(),
        "keeper": proc.Identity.of(os.getpid()).to_json(),
        "subreaper": subreaper,
        "oom_kill": keeper.counters.to_json(),
        "log": keeper.log.describe(),
    }


def _leave_stdin() -> None:
    """The command has the handed-over stdin; a second reader of it would be wrong."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
