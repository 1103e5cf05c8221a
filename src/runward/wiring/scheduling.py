"""A patrol's own schedule on this machine: cron, a systemd user timer or a tmux session; said first, then made."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence

from runward.core import errors
from runward.store import folders
from runward.wiring import far

_MARK = "# runward-patrol "


def plan(kind: str, name: str, argv: Sequence[str]) -> str:
    """What would be put in place, word for word."""
    words = [sys.executable, "-m", "runward", "patrol", *argv]
    match kind:
        case "cron":
            return _cron_line(name, words)
        case "systemd":
            return "".join(f"# {path}\n{text}" for path, text in _units(name, words))
        case _:
            return shlex.join(_tmux(name, words))


def install(kind: str, name: str, argv: Sequence[str]) -> str:
    """Put it in place; the same name replaces its older one. Raises UsageError."""
    words = [sys.executable, "-m", "runward", "patrol", *argv]
    match kind:
        case "cron":
            _need("crontab")
            kept = [line for line in _crontab() if not line.endswith(_MARK + _key(name))]
            _write_crontab([*kept, _cron_line(name, words)])
        case "systemd":
            _need("systemctl")
            for path, text in _units(name, words):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                folders.write_text(path, text)
            _run("systemctl", "--user", "daemon-reload")
            _run("systemctl", "--user", "enable", "--now", f"{_unit(name)}.timer")
        case _:
            _need("tmux")
            subprocess.run(
                ["tmux", "kill-session", "-t", f"={_unit(name)}"], capture_output=True, check=False
            )
            _run(*_tmux(name, words))
    more = {
        "systemd": "; it stops with your last login unless: loginctl enable-linger",
        "tmux": "; it does not come back after a reboot of this machine",
    }
    return f"installed by {kind}; remove it with: runward patrol --uninstall {shlex.quote(name)}{more.get(kind, '')}"


def remove(name: str) -> str:
    """Remove the schedule of that name wherever it is; what was removed in words."""
    done = []
    if shutil.which("crontab"):
        lines = _crontab()
        kept = [line for line in lines if not line.endswith(_MARK + _key(name))]
        if len(kept) != len(lines):
            _write_crontab(kept)
            done.append("cron")
    units = [path for path, _ in _units(name, []) if os.path.exists(path)]
    if units:
        subprocess.run(
            ["systemctl", "--user", "disable", "--now", f"{_unit(name)}.timer"],
            capture_output=True,
            check=False,
        )
        for path in units:
            os.unlink(path)
        done.append("systemd")
    # Last: a patrol that runs in that session ends with it.
    if shutil.which("tmux"):
        ended = subprocess.run(
            ["tmux", "kill-session", "-t", f"={_unit(name)}"], capture_output=True, check=False
        )
        done += ["tmux"] if ended.returncode == 0 else []
    return (
        f"removed the patrol's schedule ({', '.join(done)})"
        if done
        else "no schedule of the patrol was found"
    )


def _key(name: str) -> str:
    return far.safe_name(name)


def _unit(name: str) -> str:
    return "runward-patrol-" + _key(name).replace(".", "_")


def _cron_line(name: str, words: Sequence[str]) -> str:
    """Off the hour and half hour, where everybody else's jobs run. In a crontab % is a newline unless escaped."""
    for word in words:
        if "\n" in word:
            raise errors.UsageError(
                errors.Problem(f"{word!r} cannot stand in a crontab", where="--install cron")
            )
    log = os.path.join(far.folder("patrol"), f"{_key(name)}.log")
    command = shlex.join(words) + " >> " + shlex.quote(log) + " 2>&1 </dev/null"
    return f"3,33 * * * * {_environment()}{command} ".replace("%", "\\%") + _MARK + _key(name)


def _environment() -> str:
    return "".join(f"{key}={shlex.quote(value)} " for key, value in _kept())


def _kept() -> list[tuple[str, str]]:
    """A scheduler starts with an empty environment: ours of these names go with the command."""
    names = ("PYTHONPATH", "RUNWARD_STATE_DIR", "RUNWARD_INVENTORY", "SSH_AUTH_SOCK", "PATH")
    return [(name, os.environ[name]) for name in names if os.environ.get(name)]


def _crontab() -> list[str]:
    done = subprocess.run(
        ["crontab", "-l"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0 and "no crontab" not in done.stderr:
        raise errors.Unreachable(errors.Problem(f"crontab -l: {done.stderr.strip() or done.returncode}"))
    return done.stdout.splitlines() if done.returncode == 0 else []


def _write_crontab(lines: Sequence[str]) -> None:
    text = "".join(line + "\n" for line in lines)
    done = subprocess.run(["crontab", "-"], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise errors.Unreachable(errors.Problem(f"crontab: {done.stderr.strip()}"))


def _units(name: str, words: Sequence[str]) -> list[tuple[str, str]]:
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    stem = os.path.join(base, "systemd", "user", _unit(name))
    line = " ".join(_systemd_quote(word) for word in words)
    environment = "".join(f"Environment={_systemd_quote(f'{key}={value}')}\n" for key, value in _kept())
    service = (
        f"[Unit]\nDescription=Runward patrol {_key(name)}\n[Service]\nType=oneshot\n"
        f"{environment.replace('$$', '$')}TimeoutStartSec=10min\nSuccessExitStatus=1\nExecStart={line}\n"
    )
    timer = (
        "[Unit]\nDescription=Runward patrol\n[Timer]\nOnCalendar=*:03,33\n[Install]\nWantedBy=timers.target\n"
    )
    return [(f"{stem}.service", service), (f"{stem}.timer", timer)]


def _systemd_quote(word: str) -> str:
    """A word for ExecStart, in which %, $, quotes and backslashes mean themselves."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return '"' + plain.replace("\n", "\\n") + '"'


def _tmux(name: str, words: Sequence[str]) -> list[str]:
    # A server that runs already has an environment of its own.
    given = ["env", *(f"{key}={value}" for key, value in _kept())]
    return ["tmux", "new-session", "-d", "-s", _unit(name), "--", *given, *words, "--every", "30m"]


def _need(tool: str) -> None:
    if shutil.which(tool) is None:
        raise errors.UsageError(errors.Problem(f"{tool} is not installed here", where="--install"))


def _run(*argv: str) -> None:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise errors.Unreachable(
            errors.Problem(f"{shlex.join(argv)}: {done.stderr.strip() or done.returncode}")
        )
