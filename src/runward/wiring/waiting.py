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
from runward.core import errors
from runward.store import folders
from runward.wiring import far

MET, ENDED, LATER = "met", "ended", "later"
_BAD = re.compile(r"(?i)cell\(s\) FAILED|FAILED:")
_WINDOW = 1 << 20
_OVERLAP = 8192


@dataclass(frozen=True, slots=True)
class Look:
    """One look: `met`, `ended` (can no longer be met) or `later`; and why."""

    word: str
    why: str


Ask = Callable[[], Look]


def asker(target: str, condition: str) -> Ask:
    """The look for a target. Raises UsageError, NotFound."""
    if target.startswith(("ssh:", "file:")):
        return _far_asker(target, condition)
    if condition.startswith("exists:"):
        path = condition[7:]
        return lambda: Look(MET, f"{path} is there") if os.path.exists(path) else Look(LATER, "not there yet")
    return _run_asker(target, condition)


def _run_asker(name: str, condition: str) -> Ask:
    from runward.wiring import looking

    looking.status(name)
    step = re.fullmatch(r"step\s*>=\s*(\d+)", condition)
    pattern = None if step or condition in {"done", "failed"} else _pattern(condition)

    def ask() -> Look:
        body = looking.status(name)
        state = str(body["state"])
        over = state in {"succeeded", "failed", "stopped", "cancelled", "held"}
        if step and body["step"] is not None and body["step"] >= int(step[1]):
            return Look(MET, f"step {body['step']}")
        if condition == "done" and state == "succeeded":
            return Look(MET, state)
        if condition == "failed" and state in {"failed", "held"}:
            return Look(MET, state)
        if pattern is not None and _in_attempt(name, body, pattern):
            return Look(MET, "DONE marker found")
        return Look(ENDED, f"the run is {state}") if over else Look(LATER, f"{state}, step {body['step']}")

    return ask


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
                if _search(lambda at, n, file=file: os.pread(file.fileno(), n, at), pattern):  # type: ignore[misc]
                    return True
    return False


def _far_asker(target: str, condition: str) -> Ask:
    scheme, _, rest = target.partition(":")
    host, _, path = rest.partition("/") if scheme == "ssh" else (far.HERE, "", rest)
    if scheme == "ssh":
        path = path.removeprefix("file:")
    runner = far.runner(host)
    if condition.startswith("exists:"):
        return _exists(runner, condition[7:])
    if not path:
        raise errors.UsageError(
            errors.Problem(
                "no log", where=target, next_step="Write ssh:HOST/file:/path/to/log, or --until exists:PATH."
            )
        )
    pattern = _pattern("QUEUE DONE|Training completed" if condition == "done" else condition)

    def ask() -> Look:
        try:
            found = _search(lambda at, n: runner.read(path, at, n), pattern)
        except FileNotFoundError:
            return Look(LATER, f"{path} is not there")
        except OSError as error:
            return Look(LATER, str(error))
        if found is None:
            return Look(LATER, "no marker yet")
        if condition == "done" and _BAD.search(found):
            return Look(ENDED, f"ended, but not well: {found.strip()[:200]}")
        return Look(MET, "DONE marker found")

    return ask


def _exists(runner: ports.Runner, path: str) -> Ask:
    def ask() -> Look:
        call = ports.Call(("test", "-e", path), deadline_s=45.0)
        code = runner.run(call).code
        if code not in {0, 1}:
            return Look(LATER, f"test exited {code}")
        return Look(MET, f"{path} is there") if code == 0 else Look(LATER, "not there yet")

    return ask


def _pattern(text: str) -> "re.Pattern[bytes]":
    try:
        return re.compile(text.encode())
    except re.error as error:
        raise errors.UsageError(
            errors.Problem(f"{text!r} is no condition: {error}", where="--until")
        ) from None


def _search(read: Callable[[int, int], bytes], pattern: "re.Pattern[bytes]") -> str | None:
    """The line of the last match in the whole file, in bounded memory."""
    at, kept, found = 0, b"", None
    while True:
        data = read(at, _WINDOW)
        at += len(data)
        text = kept + data
        for match in pattern.finditer(text):
            begin = text.rfind(b"\n", 0, match.start()) + 1
            end = text.find(b"\n", match.end())
            found = text[begin : end if end >= 0 else len(text)].decode("utf-8", "replace")
        if len(data) < _WINDOW:
            return found
        kept = text[-_OVERLAP:]


def poll(ask: Ask, timeout_s: float, poll_s: float, say: Callable[[str], None]) -> tuple[int, str]:
    """Look until it is met or time is over: exit code and last words. A look that fails is no answer."""
    deadline = time.monotonic() + timeout_s
    ticks, seen = 0, ""
    while True:
        ticks += 1
        try:
            look = ask()
        except ports.ContactLost as lost:
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
