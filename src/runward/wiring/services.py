"""Install, look at and remove our systemd units, or tmux sessions on a box without systemd."""

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass

from runward import ports
from runward.core import errors, service_units
from runward.runners import local
from runward.store import settled_files


@dataclass(frozen=True, slots=True)
class Place:
    """Where units go, and how the manager is asked."""

    user: bool
    folder: str

    @property
    def systemctl(self) -> tuple[str, ...]:
        """The manager's command."""
        return ("systemctl", "--user") if self.user else ("systemctl",)


def place(*, user: bool, folder: str | None = None) -> Place:
    """System units, or the user's own."""
    own = os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "systemd/user")
    return Place(user, folder or (own if user else "/etc/systemd/system"))


def program() -> tuple[str, ...]:
    """The command that starts us, absolute, as units need it."""
    script = shutil.which("runward", path=os.path.dirname(sys.executable)) or shutil.which("runward")
    return (script,) if script else (sys.executable, "-m", "runward")


def has_systemd() -> bool:
    """Whether systemd runs this machine."""
    return os.path.isdir("/run/systemd/system")


def verify(service: service_units.Service) -> str:
    """What `systemd-analyze verify` says about the unit; empty when it is clean or cannot be asked."""
    if shutil.which("systemd-analyze") is None:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, service.name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(service_units.unit(service))
        scope = ("--user",) if service.user else ()
        env = {
            "XDG_RUNTIME_DIR": folder,
            **os.environ,
        }  # the user's manager is judged for without being logged in
        call = ports.Call(("systemd-analyze", *scope, "verify", "--man=no", path), deadline_s=30.0, env=env)
        done = local.Local().run(call)
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    return "\n".join(line for line in lines if service.name in line)


def install(service: service_units.Service, where: Place, *, start: bool) -> list[str]:
    """Write, enable and start the unit; returns what was done. Raises UsageError, Unreachable."""
    if found := verify(service):
        raise errors.UsageError(errors.Problem(found, where=service.name))
    path = os.path.join(where.folder, service.name)
    try:
        settled_files.replace(path, service_units.unit(service))
    except OSError as error:
        step = "Use sudo, or --user." if not where.user else ""
        raise errors.UsageError(
            errors.Problem(f"cannot write: {error.strerror}", where=path, next_step=step)
        ) from error
    done = [f"wrote {path}"]
    if not start:
        return done
    if not has_systemd():
        step = f"Start it without: runward service install {service.verb} --tmux"
        raise errors.Unreachable(
            errors.Problem(
                f"the unit was written to {path}; systemd does not run here", "not started", None, step
            )
        )
    _ask(*where.systemctl, "daemon-reload")
    _ask(*where.systemctl, "enable", "--now", service.name)
    return [*done, f"enabled and started {service.name}"]


def install_tmux(service: service_units.Service) -> list[str]:
    """Start it in a detached tmux session. Raises Unreachable, also when it runs already."""
    if _in_tmux(service.verb):
        step = f"To start it anew: runward service uninstall {service.verb}"
        raise errors.Unreachable(
            errors.Problem(f"the tmux session runward-{service.verb} runs already", next_step=step)
        )
    _ask(*service_units.tmux(service))
    return [f"started tmux session runward-{service.verb}; it does not come back after a reboot"]


def status(verb: str, where: Place) -> dict[str, object]:
    """What is installed and whether it runs."""
    name = f"runward-{verb}.service"
    runner = local.Local()
    shown = runner.run(
        ports.Call(
            (*where.systemctl, "show", name, "-p", "ActiveState,SubState,NRestarts,ExecMainPID"),
            deadline_s=10.0,
        )
    )
    values = dict(line.partition("=")[::2] for line in shown.text.splitlines()) if shown.ok else {}
    return {
        "verb": verb,
        "unit": os.path.exists(os.path.join(where.folder, name)),
        "active": values.get("ActiveState") if shown.ok else None,
        "restarts": values.get("NRestarts"),
        "tmux": _in_tmux(verb),
    }


def _in_tmux(verb: str) -> bool:
    asked = ports.Call(("tmux", "has-session", "-t", f"=runward-{verb}"), deadline_s=5.0)
    return local.Local().run(asked).ok


def uninstall(verb: str, where: Place) -> list[str]:
    """Stop and remove the unit, and the tmux session. Raises NotFound when there is neither."""
    name, done, runner = f"runward-{verb}.service", [], local.Local()
    path = os.path.join(where.folder, name)
    if os.path.exists(path):
        if has_systemd():
            _ask(*where.systemctl, "disable", "--now", name)
        os.unlink(path)
        done.append(f"removed {path}")
        if has_systemd():
            _ask(*where.systemctl, "daemon-reload")
    if runner.run(ports.Call(("tmux", "kill-session", "-t", f"=runward-{verb}"), deadline_s=5.0)).ok:
        done.append(f"ended tmux session runward-{verb}")
    if not done:
        raise errors.NotFound(errors.Problem(f"no service {verb!r} is installed", where=where.folder))
    return done


def _ask(*argv: str) -> None:
    done = local.Local().run(ports.Call(argv, deadline_s=60.0))
    if not done.ok:
        why = done.stderr.decode("utf-8", "replace").strip() or (
            "no answer in time" if done.timed_out else "failed"
        )
        raise errors.Unreachable(errors.Problem(why, where=" ".join(argv[:4])))
