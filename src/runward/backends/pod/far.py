"""Runs in a pod, handed to its Python (3.9 or newer) by `-c`: starts a keeper there, looks at it, asks for an end.

Arguments: verb and token. On stdin a line of JSON, then for `start` and `find` a zip with the keeper's code, which
goes into the attempt's own folder. One JSON object on stdout. Standard library only.
"""

import contextlib
import hashlib
import importlib
import io
import json
import os
import signal
import sys
import time
import zipfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LIMIT = 16 << 20
_ANSWER_S = 30.0


def main(argv: "list[str]") -> int:
    """Do what the verb says; what is known of the attempt then."""
    verb, token = argv
    folder = os.path.join(_top(), token)
    given = json.loads(sys.stdin.buffer.readline() or b"{}")
    code = os.path.join(folder, "code")
    if verb in {"start", "find"}:
        _unpack(sys.stdin.buffer.read(_LIMIT), code)
    told: dict[str, Any] = {"folder": folder, "born": _born(), "there": os.path.isdir(code)}
    if told["there"]:
        sys.path.insert(0, code)
        told.update(_VERBS[verb](folder, token, given))
        told.update(_facts(folder, token))
    json.dump(told, sys.stdout)
    return 0


def _top() -> str:
    """A folder of our own: one that somebody else made under this name is not used."""
    path = f"/tmp/.runward-{os.getuid()}"  # noqa: S108 -- owner and mode are checked
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    info = os.lstat(path)
    if info.st_uid != os.getuid() or info.st_mode & 0o170077 != 0o040000:
        sys.exit(f"{path} is not a folder of ours alone")
    return path


def _born() -> str:
    """Which container this is: another one under the same name has another first process, or another boot."""
    try:
        with open("/proc/1/stat") as file:
            first = file.read().rpartition(")")[2].split()[19]
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
    except OSError:
        first = boot = ""
    return hashlib.sha256(f"{boot} {first} {os.uname().nodename}".encode()).hexdigest()[:16]


def _unpack(data: bytes, code: str) -> None:
    draft = f"{code}.{os.getpid()}"
    if not os.path.isdir(code):
        os.makedirs(os.path.dirname(code), 0o700, exist_ok=True)
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            archive.extractall(draft)
        with contextlib.suppress(OSError):  # another call was quicker with the very same
            os.rename(draft, code)


def _keepers(name: str) -> "Any":
    """A module of the keeper's code, from where it was unpacked."""
    return importlib.import_module(f"runward.keeper.{name}")


def _start(folder: str, token: str, given: "dict[str, Any]") -> "dict[str, Any]":
    """As the backend of local processes does it: the specification, a keeper, its answer."""
    layout = _keepers("layout")
    spawning = _keepers("spawning")

    spec = {**given, "cwd": given["cwd"] or os.getcwd(), "env": {**os.environ, **given["env"]}}
    if layout.exists(folder, layout.STARTED) or layout.exists(folder, layout.VOID):
        return {
            "answer": {"ok": False, "stage": "started", "text": "this attempt was started before", "code": 75}
        }
    layout.write_json(os.path.join(folder, layout.SPEC), spec, durable=True, mode=0o600)
    _, answer_fd = spawning.start(folder, token)
    return {"answer": spawning.answer(answer_fd, _ANSWER_S)}


def _find(folder: str, token: str, given: "dict[str, Any]") -> "dict[str, Any]":
    """See to it that an attempt which was not started never will be."""
    layout = _keepers("layout")
    syscalls = _keepers("syscalls")

    del token, given
    fd = os.open(os.path.join(folder, layout.LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    if syscalls.take_lock(fd) and not any(
        layout.exists(folder, name) for name in (layout.START, layout.EXIT)
    ):
        path = os.path.join(folder, layout.VOID)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        layout.sync(path)
    os.close(fd)
    return {}


def _end(folder: str, token: str, given: "dict[str, Any]") -> "dict[str, Any]":
    """Ask the keeper; where it was killed, what carries the token is asked, and killed with `now`."""
    layout = _keepers("layout")
    proc = _keepers("proc")

    layout.write_json(os.path.join(folder, layout.END), {**given, "at": time.time()}, durable=True)
    keeper = _holder(folder)
    if keeper:
        one = proc.stat(keeper)
        if one is not None:
            proc.send(one, signal.SIGCONT, signal.SIGUSR1)
    else:
        for one in _left(token):
            proc.send(one, signal.SIGKILL if given.get("now") else int(given["signum"]))
    return {}


def _look(folder: str, token: str, given: "dict[str, Any]") -> "dict[str, Any]":
    del folder, token, given
    return {}


_VERBS = {"start": _start, "find": _find, "end": _end, "look": _look}


def _holder(folder: str) -> "int | None":
    layout = _keepers("layout")
    syscalls = _keepers("syscalls")

    try:
        fd = os.open(os.path.join(folder, layout.LOCK), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found: int | None = syscalls.lock_holder(fd)
        return found
    finally:
        os.close(fd)


def _left(token: str) -> "list[Any]":
    """Living processes of the attempt, by its token; not its keeper, and not this look."""
    proc = _keepers("proc")

    found = proc.with_token(token)
    return [one for pid, one in found.items() if pid != os.getpid() and one.state not in {"Z", "X"}]


def _facts(folder: str, token: str) -> "dict[str, Any]":
    """What lies in the folder. The lock is looked at first: when it is free, the files say their last word."""
    layout = _keepers("layout")
    proc = _keepers("proc")

    told: dict[str, Any] = {"keeper": _holder(folder), "boot_id": proc.boot_id()}
    for name, file in (
        ("start", layout.START),
        ("exit", layout.EXIT),
        ("gone", layout.GONE),
        ("ending", layout.ENDING),
    ):
        told[name] = layout.read_json(os.path.join(folder, file))
    told["void"] = layout.exists(folder, layout.VOID)
    told["asked"] = layout.read_json(os.path.join(folder, layout.END))
    if told["keeper"] is None and told["start"] is not None and told["gone"] is None:
        told["left"] = [one.pid for one in _left(token)]
    if told["start"] is not None and told["exit"] is None:
        told.update(_process(told["start"]["pid"]))
    return told


def _process(pid: int) -> "dict[str, Any]":
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return {}
    ticks = os.sysconf("SC_CLK_TCK")
    return {"state": fields[0], "cpu_s": sum(map(int, fields[11:15])) / ticks}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
