"""`setup docker-logging`: read, merge, validate, show, write, and restart only when asked."""

import difflib
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from runward import ports
from runward.core import daemon_json, errors
from runward.runners import local
from runward.store import settled_files
from runward.wiring import docker, services


@dataclass(frozen=True, slots=True)
class Change:
    """What would be written, and what a restart would cost."""

    path: str
    before: str
    after: str
    checked_by: str
    """Who has validated it: `dockerd --validate`, or our own rules."""
    dying: tuple[str, ...] | None
    """Containers that a restart now would end; None: the engine cannot be asked."""

    @property
    def same(self) -> bool:
        """Whether the file says all that already."""
        return daemon_json.parse(self.before) == daemon_json.parse(self.after)

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        lines = difflib.unified_diff(
            self.before.splitlines(keepends=True), self.after.splitlines(keepends=True), self.path, "new"
        )
        return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


def prepare(path: str, wish: daemon_json.Wish) -> Change:
    """Read and merge, and validate before anything is written. Raises UsageError."""
    before = _read(path)
    try:
        current = daemon_json.parse(before)
    except ValueError as error:
        raise errors.UsageError(
            errors.Problem(str(error), where=path, next_step="Correct it first; it was not touched.")
        ) from error
    wanted = daemon_json.merged(current, wish)
    after = daemon_json.text_of(wanted)
    if found := daemon_json.problems(wanted):
        raise errors.UsageError(*(errors.Problem(text, where=path) for text in found))
    return Change(path, before, after, _validate(after), _dying())


def nvidia_installed() -> bool:
    """Whether the NVIDIA container runtime can be called."""
    return shutil.which("nvidia-container-runtime") is not None


def write(change: Change) -> str | None:
    """Put it in place; returns the backup's path. Raises UsageError when that is not allowed."""
    try:
        return settled_files.replace(change.path, change.after)
    except OSError as error:
        raise errors.UsageError(
            errors.Problem(
                f"cannot write: {error.strerror}",
                where=change.path,
                next_step="Use sudo, or --config for another file.",
            )
        ) from error


def undo(path: str) -> str:
    """Put the newest backup in place again; returns its path. Raises NotFound, UsageError."""
    backup = settled_files.newest_backup(path)
    if backup is None:
        step = f"Where there was none before, remove it: rm {path}" if os.path.exists(path) else ""
        raise errors.NotFound(errors.Problem("no backup of it", where=path, next_step=step))
    write(Change(path, _read(path), _read(backup), "", None))
    return backup


def restart(path: str, backup: str | None) -> str:
    """Restart the engine for the file that was written; returns the words for it. Raises Unreachable when it failed."""
    done = local.Local().run(ports.Call(("systemctl", "restart", "docker"), deadline_s=90.0))
    if not done.ok:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no answer"]
        why = (
            f"{path} is written (backup {backup or 'none'}), the engine not restarted: {said[0].rstrip('.')}"
        )
        step = (
            "See journalctl -u docker"
            if services.has_systemd()
            else "Restart it as it was started: systemd does not run here"
        )
        raise errors.Unreachable(errors.Problem(why, "systemctl restart docker", None, step))
    return "restarted docker.service"


def _read(path: str) -> str:
    try:
        return settled_files.read(path)
    except OSError as error:
        raise errors.UsageError(errors.Problem(f"cannot be read: {error.strerror}", where=path)) from error
    except UnicodeDecodeError as error:
        raise errors.UsageError(errors.Problem("cannot be read: no UTF-8", where=path)) from error


def _validate(text: str) -> str:
    """Let the engine itself judge where its version can (from 23.0 on)."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "daemon.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        call = ports.Call(("dockerd", "--validate", "--config-file", path), deadline_s=15.0)
        done = local.Local().run(call)
    said = (done.stderr + done.stdout).decode("utf-8", "replace").strip()
    if done.ok:
        return "dockerd --validate"
    if done.code == 127 or "unknown flag" in said or done.timed_out:
        return "our own rules (this dockerd has no --validate)"
    raise errors.UsageError(
        errors.Problem(said.splitlines()[-1] if said else "refused", where="dockerd --validate")
    )


def _dying() -> tuple[str, ...] | None:
    """Running containers, when live-restore is not on yet."""
    from runward.backends.docker import client

    engine = docker.Docker()
    try:
        info = engine.engine.json(client.Request("GET", "/info", deadline_s=5.0))
        if info.get("LiveRestoreEnabled"):
            return ()
        running: Sequence[str] = [
            str((raw.get("Names") or ["?"])[0]).lstrip("/")
            for raw in engine.backend.list_all(running_only=True)
        ]
        return tuple(running)
    except (errors.RunwardError, client.EngineError):
        return None
    finally:
        engine.close()
