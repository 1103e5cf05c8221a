"""Install and remove our systemd units, or tmux sessions on a box without systemd."""

import getpass
import os
import pwd
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
    def scope(self) -> tuple[str, ...]:
        """What the manager's own commands need to be told."""
        return ("--user",) if self.user else ()

    @property
    def systemctl(self) -> tuple[str, ...]:
        """The manager's command."""
        return ("systemctl", *self.scope)

    def path(self, verb: str) -> str:
        """Of the verb's unit."""
        return os.path.join(self.folder, service_units.name_of(verb))


def place(*, user: bool, folder: str | None = None) -> Place:
    """System units, or the user's own."""
    own = os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "systemd/user")
    return Place(user, os.path.abspath(folder) if folder else own if user else "/etc/systemd/system")


def program() -> tuple[str, ...]:
    """The command that starts us, absolute, as units need it."""
    script = shutil.which("runward", path=os.path.dirname(sys.executable)) or shutil.which("runward")
    return (script,) if script else (sys.executable, "-m", "runward")


def environment(state_folder: str, account: str) -> tuple[tuple[str, str], ...]:
    """Of a service: see `service_units.carried`."""
    same = account in ("", getpass.getuser())
    found = dict(service_units.carried(os.environ, same_account=same))
    if state_folder:
        found["RUNWARD_STATE_DIR"] = os.path.abspath(state_folder)
    return tuple(found.items())


def has_systemd() -> bool:
    """Whether systemd runs this machine."""
    return os.path.isdir("/run/systemd/system")


def verify(service: service_units.Service) -> str:
    """What is wrong with the unit, by `systemd-analyze verify`; empty when it is clean or cannot be asked."""
    if shutil.which("systemd-analyze") is None:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, service.name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(service_units.unit(service))
        scope = ("--user",) if service.user else ()
        # The user's manager is judged for without being logged in.
        env = {"XDG_RUNTIME_DIR": folder, **os.environ}
        call = ports.Call(("systemd-analyze", *scope, "verify", "--man=no", path), deadline_s=30.0, env=env)
        done = local.Local().run(call)
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    return "\n".join(line for line in lines if service.name in line)


def install(service: service_units.Service, where: Place, *, start: bool) -> list[str]:
    """Write, enable and start the unit; returns what was done. Raises UsageError, Unreachable."""
    _check_account(service)
    if found := verify(service):
        raise errors.UsageError(errors.Problem(found, where=service.name))
    path = where.path(service.verb)
    done = [_written(path, service_units.unit(service), user=where.user)]
    if not start:
        return done
    if not has_systemd():
        step = f"Start it without: runward service install {service.verb} --tmux"
        why = f"the unit was written to {path}; systemd does not run here"
        raise errors.Unreachable(errors.Problem(why, "not started", None, step))
    _ask(where, "daemon-reload")
    _ask(where, "enable", service.name)
    _start(where, service.verb)
    return [*done, f"enabled and started {service.name}", *_told(service)]


def _check_account(service: service_units.Service) -> None:
    try:
        pwd.getpwnam(service.account or "root")
    except KeyError:
        names = [entry.pw_name for entry in pwd.getpwall()]
        raise errors.UsageError(
            errors.Problem(
                f"no account {service.account!r}", "--account", errors.nearest(service.account, names)
            )
        ) from None


def _written(path: str, text: str, *, user: bool) -> str:
    try:
        if settled_files.read(path) == text:
            return f"{path} is as it should be"
        backup = settled_files.replace(path, text)
    except OSError as error:
        step = "" if user else "Use sudo, or --user."
        problem = errors.Problem(f"cannot write: {error.strerror}", where=path, next_step=step)
        raise errors.UsageError(problem) from error
    return f"wrote {path}" + (f"; what was there: {backup}" if backup else "")


def _start(where: Place, verb: str) -> None:
    """Anew where it runs already: the unit may say something else now. Raises Unreachable with its own last words."""
    name = service_units.name_of(verb)
    try:
        _ask(where, "restart", name)
    except errors.Unreachable as error:
        logs = ("journalctl", *where.scope, "-u", name, "-o", "cat", "-n", "20", "--no-pager")
        said = call(*logs).text.splitlines()
        own = [line.removeprefix("runward: ") for line in said if line.startswith("runward: ")]
        why = own[-1] if own else str(error)
        step = (
            f"systemd goes on trying; to end that: runward service uninstall {verb}{' --user' * where.user}"
        )
        raise errors.Unreachable(
            errors.Problem(why.rstrip("."), f"{name} did not start", None, step)
        ) from error


def _told(service: service_units.Service) -> list[str]:
    """What a person would find out too late."""
    said = []
    if service.does:
        account = service.account or (getpass.getuser() if service.user else "root")
        said.append(f"it {service.does} the runs of {account}, below {_state_folder(service, account)}")
        asked_by = os.environ.get("SUDO_USER", "")
        if not service.account and not service.user and asked_by not in ("", "root"):
            said.append(
                f"for those of {asked_by}: sudo runward service install {service.verb} --account {asked_by}"
            )
    if service.user and not os.path.exists(f"/var/lib/systemd/linger/{getpass.getuser()}"):
        said.append("it ends with your last login, and what it started too, unless: loginctl enable-linger")
    return said


def _state_folder(service: service_units.Service, account: str) -> str:
    own = dict(service.environment)
    base = own.get("XDG_STATE_HOME") or os.path.join(pwd.getpwnam(account).pw_dir, ".local", "state")
    return own.get("RUNWARD_STATE_DIR") or os.path.join(base, "runward")


def install_tmux(service: service_units.Service) -> list[str]:
    """Start it in a detached tmux session. Raises Unreachable, also when it runs already."""
    if in_tmux(service.verb):
        step = f"To start it anew: runward service uninstall {service.verb}"
        raise errors.Unreachable(
            errors.Problem(f"the tmux session runward-{service.verb} runs already", next_step=step)
        )
    _run(*service_units.tmux(service))
    return [f"started tmux session runward-{service.verb}; it does not come back after a reboot"]


def in_tmux(verb: str) -> bool:
    """Whether the verb has a tmux session."""
    return call("tmux", "has-session", "-t", f"={service_units.session_of(verb)}").ok


def uninstall(verb: str, where: Place) -> list[str]:
    """Stop and remove the unit, and the tmux session. Raises NotFound when there is neither."""
    name, path, done = service_units.name_of(verb), where.path(verb), []
    if os.path.lexists(path):
        if has_systemd():
            _ask(where, "disable", "--now", name)
        try:
            os.unlink(path)
        except OSError as error:
            step = "" if where.user else "Use sudo."
            raise errors.UsageError(
                errors.Problem(f"cannot remove: {error.strerror}", where=path, next_step=step)
            ) from error
        done.append(f"removed {path}")
        if has_systemd():
            _ask(where, "daemon-reload")
            call(*where.systemctl, "reset-failed", name)
    if call("tmux", "kill-session", "-t", f"={service_units.session_of(verb)}").ok:
        done.append(f"ended tmux session runward-{verb}")
    if not done:
        raise errors.NotFound(_not_installed(verb, where))
    return done


def _not_installed(verb: str, where: Place) -> errors.Problem:
    other = place(user=not where.user)
    there = os.path.lexists(other.path(verb))
    step = f"There is {other.path(verb)}: {'with' if other.user else 'without'} --user." if there else ""
    return errors.Problem(f"no service {verb!r} is installed", where=where.folder, next_step=step)


def _ask(where: Place, *words: str) -> None:
    """Have the manager do something. Raises Unreachable."""
    try:
        _run(*where.systemctl, *words)
    except errors.Unreachable as error:
        if "Failed to connect to bus" not in str(error):
            raise
        step = "It lives while that account is logged in, or always after: loginctl enable-linger"
        why = "your systemd is not reached"
        raise errors.Unreachable(errors.Problem(why, " ".join(where.systemctl), None, step)) from error


def call(*argv: str, deadline_s: float = 10.0) -> ports.Completed:
    """What a command gives here. It finds the user's own manager, also where su or cron does not tell of it."""
    env = {"XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}", **os.environ}
    return local.Local().run(ports.Call(argv, deadline_s=deadline_s, env=env))


def _run(*argv: str) -> None:
    """Run a command. Raises Unreachable with what it says where it fails."""
    done = call(*argv, deadline_s=100.0)
    if not done.ok:
        why = done.stderr.decode("utf-8", "replace").strip() or (
            "no answer in time" if done.timed_out else "failed"
        )
        raise errors.Unreachable(errors.Problem(why, where=" ".join(argv[:4])))
