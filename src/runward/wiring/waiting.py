"""`runward wait`: one condition, a bounded number of looks, always an end; and the list of those that wait."""

import contextlib
import json
import os
import re
import shlex
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from runward import ports
from runward.core import errors, far_facts
from runward.store import folders
from runward.wiring import far, log_looks

MET, ENDED, LATER = log_looks.MET, log_looks.ENDED, log_looks.LATER
_OVER = frozenset({"succeeded", "failed", "stopped", "cancelled", "held"})


@dataclass(frozen=True, slots=True)
class Look:
    """One look: `met`, `ended` (can no longer be met) or `later`; and why."""

    word: str
    why: str


Ask = Callable[[], Look]


@dataclass(frozen=True, slots=True)
class Life:
    """Witnesses beside the log's words that end a wait for a log: artefact and liveness are asked independently."""

    match: str | None = None
    """Command lines, one of which must live."""
    stall_after_s: float | None = None
    """The log must have grown within so long."""


def asker(target: str, condition: str, life: Life | None = None) -> Ask:
    """The look for a target. Raises UsageError, NotFound."""
    if target.startswith(("ssh:", "file:")):
        return _far_asker(target, condition, life or Life())
    if condition.startswith("exists:"):
        path = condition[7:]
        return lambda: Look(MET, f"{path} is there") if os.path.exists(path) else Look(LATER, "not there yet")
    return _run_asker(target, condition)


def _run_asker(name: str, condition: str) -> Ask:
    from runward.wiring import looking

    looking.status(name)
    pattern = None if _of_state(condition) else log_looks.pattern(condition)

    def ask() -> Look:
        body = looking.status(name)
        if pattern is not None and _in_attempt(name, body, pattern):
            return Look(MET, "DONE marker found")
        return _judge(body, condition)

    return ask


def _of_state(condition: str) -> bool:
    """Whether the state of a run answers it; else it is a pattern for its output."""
    return condition in {"done", "failed"} or log_looks.wanted_step(condition) is not None


def _judge(body: dict[str, Any], condition: str) -> Look:
    """What the status of a run says about a condition."""
    state, step, wanted = str(body["state"]), body["step"], log_looks.wanted_step(condition)
    if wanted is not None and step is not None and step >= wanted:
        return Look(MET, f"step {step}")
    if condition == "done" and state == "succeeded":
        return Look(MET, state)
    if condition == "failed" and state in {"failed", "held"}:
        return Look(MET, state)
    return Look(ENDED, f"the run is {state}") if state in _OVER else Look(LATER, f"{state}, step {step}")


def _in_attempt(name: str, body: dict[str, Any], pattern: "re.Pattern[bytes]") -> bool:
    """Only the current attempt's output counts: an older one's last words are no news."""
    from runward.wiring import places

    if not body["attempts"]:
        return False
    folder = places.attempt_dir(name, body["attempts"][-1]["n"])
    for one in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        path = os.path.join(folder, one)
        if os.path.isfile(path) and one.endswith((".log", "stdout", "stderr", "output")):
            with open(path, "rb") as file:
                if log_looks.search(lambda at, n, file=file: os.pread(file.fileno(), n, at), pattern):  # type: ignore[misc]
                    return True
    return False


def _far_asker(target: str, condition: str, life: Life) -> Ask:
    """A log, or a run of a far box: `file:PATH`, `ssh:HOST/file:PATH`, `ssh:HOST/PATH`, `ssh:HOST/run:NAME`."""
    scheme, _, rest = target.partition(":")
    host, _, path = rest.partition("/") if scheme == "ssh" else (far.HERE, "", rest)
    runner = far.runner(host)
    if condition.startswith("exists:"):
        return _exists(runner, condition[7:])
    if path.startswith("run:"):
        return _far_run_asker(host, path[4:], condition)
    if scheme == "ssh":
        path = path[5:] if path.startswith("file:") else far.path_of(path, target) if path else ""
    if not path:
        raise errors.UsageError(
            errors.Problem(
                "no log", where=target, next_step="Write ssh:HOST/file:/path/to/log, or --until exists:PATH."
            )
        )
    log = log_looks.Log(lambda at, n: runner.read(path, at, n), condition)
    alive = _alive(runner, path, life)

    def ask() -> Look:
        try:
            word, why = log.look()
        except FileNotFoundError:
            word, why = LATER, f"{path} is not there"
        except OSError as error:
            word, why = LATER, str(error)
        if word != LATER:
            return Look(word, why)
        dead = alive()
        return Look(ENDED, f"{dead}; {why}") if dead else Look(LATER, why)

    return ask


def _alive(runner: ports.Runner, path: str, life: Life) -> Callable[[], str | None]:
    """Why nothing will come any more, by witnesses other than the log's words; twice in a row, or it is not said."""
    from runward.app import patrol

    if life.match is None and life.stall_after_s is None:
        return lambda: None
    asked = far_facts.Questions(match=life.match, logs=(path,), gpus=False, runs=False)
    before: list[str | None] = [None]

    def look() -> str | None:
        found = patrol.ask(runner, asked, far.probe())
        now = None if isinstance(found, str) else _dead(found, life)
        last, before[0] = before[0], now
        return now if last is not None else None

    return look


def _dead(found: far_facts.Facts, life: Life) -> str | None:
    if life.match is not None and found.processes == 0:
        return f"no process that matches {life.match!r} lives there"
    log = found.logs[0]
    if life.stall_after_s is not None and found.now is not None and log.mtime is not None:
        age = found.now - log.mtime
        if age > life.stall_after_s:
            return f"the log has not grown for {age:.0f} s"
    return None


def _far_run_asker(host: str, name: str, condition: str) -> Ask:
    """A run of the box's own Runward."""
    from runward.wiring import far_asking

    if not _of_state(condition):
        raise errors.UsageError(
            errors.Problem(
                f"{condition!r} cannot be asked of a run there",
                next_step="Write done, failed or step>=N; or wait for its log: ssh:HOST/file:PATH.",
            )
        )

    def ask() -> Look:
        done = far_asking.ask(host, ("status", "--json", "--", name))
        if done.code == errors.NotFound.exit_code:
            raise errors.NotFound(errors.Problem(f"no run {name!r} there", host))
        try:
            return _judge(json.loads(done.text), condition)
        except (ValueError, KeyError, TypeError):
            return Look(LATER, f"status there said nothing (exit {done.code})")

    return ask


def _exists(runner: ports.Runner, path: str) -> Ask:
    def ask() -> Look:
        call = ports.Call(("test", "-e", path), deadline_s=45.0)
        code = runner.run(call).code
        if code not in {0, 1}:
            return Look(LATER, f"test exited {code}")
        return Look(MET, f"{path} is there") if code == 0 else Look(LATER, "not there yet")

    return ask


def poll(ask: Ask, timeout_s: float, poll_s: float, say: Callable[[str], None]) -> tuple[int, str]:
    """Look until it is met or time is over: exit code and last words. A look that fails is no answer."""
    deadline = time.monotonic() + timeout_s
    ticks, seen = 0, ""
    while True:
        ticks += 1
        try:
            look = ask()
        except errors.Unreachable as lost:
            look = Look(LATER, f"contact lost: {lost}")
        if look.word == MET:
            return 0, look.why
        if look.word == ENDED:
            return 1, look.why
        if look.why != seen:
            say(look.why)
            seen = look.why
        left = deadline - time.monotonic()
        if left <= 0:
            return 1, f"poll gave up after {ticks} ticks — check ground truth manually"
        time.sleep(min(poll_s, left))


@contextlib.contextmanager
def registered(target: str, condition: str, *, replace: bool) -> Iterator[None]:
    """One wait a target: a second one is refused, or takes the first's place. Raises Unreachable."""
    path = os.path.join(far.folder("waiters"), far.safe_name(target) + ".json")
    other = _read(path)
    if other is not None and _lives(other):
        if not replace:
            raise errors.Unreachable(
                errors.Problem(
                    f"process {other['pid']} waits for it already",
                    where=target,
                    next_step="--replace ends that one.",
                )
            )
        _end(other)
    body = {
        "pid": os.getpid(),
        "start": _start(os.getpid()),
        "target": target,
        "until": condition,
        "at": time.time(),
    }
    folders.write_text(path, json.dumps(body))
    try:
        yield
    finally:
        if (_read(path) or {}).get("pid") == os.getpid():
            os.unlink(path)


def waiters() -> list[dict[str, Any]]:
    """All that are registered; `alive` tells husks from those that wait."""
    folder = far.folder("waiters")
    rows = [
        _read(os.path.join(folder, name)) for name in sorted(os.listdir(folder)) if name.endswith(".json")
    ]
    return [{**row, "alive": _lives(row)} for row in rows if row is not None]


def clear(*, every: bool) -> int:
    """Forget those that are gone; with `every` end those that wait too. How many."""
    count = 0
    for row in waiters():
        if row["alive"] and not every:
            continue
        if row["alive"]:
            _end(row)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(far.folder("waiters"), far.safe_name(row["target"]) + ".json"))
        count += 1
    return count


def _read(path: str) -> dict[str, Any] | None:
    try:
        with open(path, encoding="utf-8") as file:
            body = json.loads(file.read(65536))
    except (OSError, ValueError):
        return None
    valid = (
        isinstance(body, dict) and isinstance(body.get("pid"), int) and isinstance(body.get("target"), str)
    )
    return body if valid else None


def _start(pid: int) -> str | None:
    """The start time of a process: tells a re-used pid."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return None


def _lives(row: dict[str, Any]) -> bool:
    start = _start(row["pid"])
    return start is not None and start == row.get("start")


def _end(row: dict[str, Any]) -> None:
    """Through a pidfd, after the start time was looked at again."""
    try:
        descriptor = os.pidfd_open(row["pid"])
    except ProcessLookupError:
        return
    try:
        if _lives(row):
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)


def command(target: str, condition: str) -> str:
    """How to look by hand."""
    return shlex.join(["runward", "wait", target, "--until", condition])
