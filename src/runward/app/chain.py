"""Stages one after another on this box: the next begins only after exit 0, a gate on space before each.

Each finished stage leaves `<stage>.done`; run again, the chain goes on behind the last of them. The marker
comes after the last stage, and an old one is taken away before the first that runs.
"""

import contextlib
import fcntl
import io
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from runward.core import durations, errors, stages

GATE = 3
_GRACE_S = 10.0


@dataclass(frozen=True, slots=True)
class Plan:
    """A chain as its owner wrote it."""

    stages: tuple[stages.Stage, ...]
    log: str
    marker: str
    folder: str
    """Where `<stage>.done` files lie."""
    min_free_bytes: int = 1 << 30
    min_free_inodes: int = 10_000
    disks: tuple[str, ...] = ()
    """Paths whose space is checked, beside the folder."""


Show = Callable[[Plan, dict[str, str]], None]
"""Called with the plan and a word for each stage whenever one changed."""
Tell = Callable[[str, str, str], None]
"""Called with an event word, a title and a text after each stage and at the end."""


def run(plan: Plan, tell: Tell, show: Show = lambda _plan, _words: None) -> int:
    """Run what is not done yet; 0 when all is done, the stage's exit code, 124 for a limit, 3 for the gate.

    Raises Unreachable while another chain holds the same log.
    """
    os.makedirs(plan.folder, exist_ok=True)
    with open(plan.log, "ab", buffering=0) as log, _only_one(plan.log):
        todo = [stage for stage in plan.stages if not _is_done(plan, stage)]
        _note(log, f"begins: {len(todo)} of {len(plan.stages)} stages to do")
        for stage in plan.stages:
            if stage not in todo:
                _note(log, f"[{stage.name}] done before, skipped")
        if todo:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(plan.marker)
        words = {stage.name: "waits" if stage in todo else "done" for stage in plan.stages}
        for stage in todo:
            words[stage.name] = "runs"
            show(plan, words)
            code = _stage(plan, stage, log, tell)
            words[stage.name] = "done" if code == 0 else f"exit {code}"
            show(plan, words)
            if code != 0:
                _note(log, f"stopped by [{stage.name}], exit {code}")
                return code
        os.close(os.open(plan.marker, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        _note(log, f"all {len(plan.stages)} stages done")
        tell("succeeded", "chain done", f"all {len(plan.stages)} stages exited 0; marker {plan.marker}")
        return 0


def short_of_space(plan: Plan) -> str | None:
    """Why a stage must not begin now; None when there is room."""
    for path in (plan.folder, *plan.disks):
        try:
            found = os.statvfs(path)
        except OSError as error:
            return f"{path}: {error.strerror}"
        free = found.f_bavail * found.f_frsize
        if free < plan.min_free_bytes:
            return f"{path}: {durations.format_size(free)} free, {durations.format_size(plan.min_free_bytes)} wanted"
        if found.f_files and found.f_favail < plan.min_free_inodes:
            return f"{path}: {found.f_favail} inodes free, {plan.min_free_inodes} wanted"
    return None


def _stage(plan: Plan, stage: stages.Stage, log: io.FileIO, tell: Tell) -> int:
    why = short_of_space(plan)
    if why is not None:
        _note(log, f"DISK_GATE_ABORT before [{stage.name}]: {why}")
        tell("failed", f"chain: no room for {stage.name}", f"DISK_GATE_ABORT: {why}")
        return GATE
    _note(log, f"[{stage.name}] starts")
    begun = time.monotonic()
    code = _execute(stage, log)
    took = durations.format_duration(time.monotonic() - begun)
    if code == 0:
        _mark_done(plan, stage)
    _note(log, f"[{stage.name}] exit {code} after {took}")
    word = "succeeded" if code == 0 else "failed"
    tell(word, f"chain: {stage.name} {word}", f"exit {code} after {took}; log {plan.log}")
    return code


def _execute(stage: stages.Stage, log: io.FileIO) -> int:
    """The stage's exit code; 128 + n for a signal, 124 when its limit ended it, 127 and 126 as env(1)."""
    try:
        process = subprocess.Popen(
            stage.argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=stage.cwd,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        _note(log, f"[{stage.name}] {error}")
        return 127
    except OSError as error:
        _note(log, f"[{stage.name}] {error}")
        return 126
    try:
        code = process.wait(stage.timeout_s)
    except subprocess.TimeoutExpired:
        _end(process)
        return 124
    return code if code >= 0 else 128 - code


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a stage of ours with its whole session's group."""
    os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _done_file(plan: Plan, stage: stages.Stage) -> str:
    return os.path.join(plan.folder, f"{stage.name}.done")


def _is_done(plan: Plan, stage: stages.Stage) -> bool:
    """Whether this very command is done; an empty file, as made by hand, counts."""
    try:
        with open(_done_file(plan, stage), encoding="utf-8") as file:
            text = file.read(1 << 20)
        return not text.strip() or json.loads(text).get("argv") == list(stage.argv)
    except (OSError, ValueError, AttributeError):
        return False


def _mark_done(plan: Plan, stage: stages.Stage) -> None:
    path = _done_file(plan, stage)
    with open(f"{path}.tmp", "w", encoding="utf-8") as file:
        file.write(json.dumps({"argv": list(stage.argv), "at": durations.iso(time.time())}) + "\n")
    os.replace(f"{path}.tmp", path)


def _note(log: io.FileIO, text: str) -> None:
    log.write(f"{durations.iso(time.time())} runward chain: {text}\n".encode())


@contextlib.contextmanager
def _only_one(log: str) -> Iterator[None]:
    """Held while the chain runs; the kernel lets go when it dies, however it dies."""
    descriptor = os.open(f"{log}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise errors.Unreachable(
                errors.Problem("a chain with this log is running", where=log, next_step="Look at its end.")
            ) from None
        yield
    finally:
        os.close(descriptor)


def check(names: Sequence[stages.Stage]) -> None:
    """Refuse an empty chain and names used twice. Raises UsageError."""
    if not names:
        raise errors.UsageError(
            errors.Problem("no stage", next_step="Write --stage NAME='COMMAND' or a chain file.")
        )
    twice = {stage.name for stage in names if [other.name for other in names].count(stage.name) > 1}
    if twice:
        raise errors.UsageError(errors.Problem(f"stage name used twice: {', '.join(sorted(twice))}"))
