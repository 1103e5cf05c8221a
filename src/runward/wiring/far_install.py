"""Runs on a far box, handed to its Python by `-c`: unpacks Runward beside what is there, tries it, then names it.

Standard library only. Arguments: folder, name of the version, SHA-256, where the command's link belongs, how many
versions are kept (0: all). The zip
comes on stdin. Nothing that exists is overwritten; the one thing that moves is our own link `current`. Of what was
put there by us, old versions go: never one that a process, a crontab or a unit names.
"""

import contextlib
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile

_LIMIT = 64 << 20
_TRY = "import runward, runward.cli.run, runward.wiring.launching, runward.wiring.watching; print(runward.__version__)"
_COMMAND = """#!/bin/sh
'''exec' '{python}' "$0" "$@"
' '''
import sys
from runward.__main__ import main
sys.argv[0] = "runward"
main()
"""


def main(argv: "list[str]") -> int:
    """Install; one JSON object on stdout. 0: it is there now (or was before)."""
    top, name, digest, link = (os.path.expanduser(word) for word in argv[:4])
    data = sys.stdin.buffer.read(_LIMIT)
    if hashlib.sha256(data).hexdigest() != digest:
        return _fail("what arrived is not what was sent: nothing was changed")
    versions = os.path.join(top, "versions")
    target = os.path.join(versions, name)
    os.makedirs(versions, exist_ok=True)
    kept = sorted(one for one in os.listdir(versions) if one != name and not one.startswith("."))
    already = os.path.isdir(target)
    if not already:
        why = _place(data, target)
        if why:
            return _fail(why)
    before = _pointed(top)
    _point(top, name)
    removed = _prune(versions, [name, before], int(argv[4]))
    told = {
        "action": "already" if already else "installed",
        "path": target,
        "kept": [one for one in kept if one not in removed],
        "removed": removed,
        "python": sys.executable,
        "link": _link(link, top),
    }
    print(json.dumps(told))
    return 0


def _place(data: bytes, target: str) -> "str | None":
    """Unpack, try, and only then give it its name. Why it failed."""
    draft = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.{os.getpid()}")
    try:
        library = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            archive.extractall(os.path.join(draft, library))
        _environment(draft, target)
        done = subprocess.run(
            [os.path.join(draft, "bin", "python"), "-I", "-c", _TRY],
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode != 0:
            return f"it does not run with this Python, nothing was changed: {done.stderr.strip()[-300:]}"
        with contextlib.suppress(OSError):  # another setup was quicker with the very same
            os.rename(draft, target)
    except (OSError, zipfile.BadZipFile, subprocess.TimeoutExpired) as error:
        return f"nothing was changed: {error}"
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return None


def _environment(draft: str, target: str) -> None:
    """An environment of its own, so that nothing of it reaches the programs that it starts."""
    base = os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)
    os.mkdir(os.path.join(draft, "bin"))
    os.symlink(base, os.path.join(draft, "bin", "python"))
    with open(os.path.join(draft, "pyvenv.cfg"), "w", encoding="utf-8") as file:
        version = ".".join(map(str, sys.version_info[:3]))
        file.write(
            f"home = {os.path.dirname(base)}\ninclude-system-site-packages = false\nversion = {version}\n"
        )
    script = os.path.join(draft, "bin", "runward")
    python = os.path.join(target, "bin", "python").replace("'", "'\"'\"'")
    with open(script, "w", encoding="utf-8") as file:
        file.write(_COMMAND.replace("{python}", python))
    os.chmod(script, 0o755)  # noqa: S103 -- a command that everybody may run


def _pointed(top: str) -> str:
    """The version that `current` was so far; empty when there was none."""
    try:
        return os.path.basename(os.readlink(os.path.join(top, "current")))
    except OSError:
        return ""


def _prune(versions: str, first: "list[str]", keep: int) -> "list[str]":
    """Remove all but `first` and the newest, `keep` together; what was removed."""
    ours = [
        one
        for one in os.listdir(versions)
        if not one.startswith(".") and _is_ours(os.path.join(versions, one))
    ]
    newest = sorted(ours, key=lambda one: os.stat(os.path.join(versions, one)).st_mtime, reverse=True)
    ranked = [*(one for one in first if one in ours), *(one for one in newest if one not in first)]
    removed = []
    for name in ranked[keep:] if keep else ():
        path = os.path.join(versions, name)
        aside = os.path.join(versions, f".{name}.going")
        if _in_use(path):
            continue
        with contextlib.suppress(OSError):
            os.rename(path, aside)
            if _in_use(path):  # begun in this very moment
                os.rename(aside, path)
                continue
            shutil.rmtree(aside, ignore_errors=True)
            removed.append(name)
    return sorted(removed)


def _is_ours(path: str) -> bool:
    return all(
        os.path.lexists(os.path.join(path, name))
        for name in ("pyvenv.cfg", "bin/python", "bin/runward", "lib")
    )


def _in_use(path: str) -> bool:
    """Whether a process, a crontab or a unit names it; True when that cannot be seen."""
    mark = (path + os.sep).encode()
    try:
        pids = [pid for pid in os.listdir("/proc") if pid.isdigit()]
    except OSError:
        return True
    if not pids:
        return True
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            if mark in file.read(1 << 20):
                return True
    return mark in _schedules()


def _schedules() -> bytes:
    """What starts later: this user's crontab and systemd units."""
    found = b""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        call = ["crontab", "-l"]
        found = subprocess.run(
            call, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False
        ).stdout
    units = os.path.join(
        os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "systemd", "user"
    )
    with contextlib.suppress(OSError):
        for name in os.listdir(units):
            with contextlib.suppress(OSError), open(os.path.join(units, name), "rb") as file:
                found += file.read(1 << 20)
    return found


def _point(top: str, name: str) -> None:
    """`current` is the version that `run --on` uses."""
    draft = os.path.join(top, f".current.{os.getpid()}")
    os.symlink(os.path.join("versions", name), draft)
    os.replace(draft, os.path.join(top, "current"))


def _link(link: str, top: str) -> str:
    """The command on a login's PATH: made when nothing is there, else left."""
    wanted = os.path.join(top, "current", "bin", "runward")
    if os.path.islink(link) and os.readlink(link) == wanted:
        return f"{link} is there"
    if os.path.lexists(link):
        return f"{link} is something else and was left alone"
    try:
        os.makedirs(os.path.dirname(link), exist_ok=True)
        os.symlink(wanted, link)
    except OSError as error:
        return f"{link} could not be made: {error.strerror}"
    return f"{link} was made"


def _fail(why: str) -> int:
    print(json.dumps({"action": "failed", "why": why}))
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
