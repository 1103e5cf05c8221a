"""What is installed as a service, and whether it runs: the manager's words in few of ours."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

from runward.core import durations, errors, service_units
from runward.wiring import services

_ASKED = (
    "ActiveState,SubState,NRestarts,MainPID,StatusText,Result,ExecMainStatus,UnitFileState,"
    "ActiveEnterTimestampMonotonic"
)
_WORDS = {
    "active": "running",
    "reloading": "running",
    "activating": "starting",
    "deactivating": "stopping",
    "inactive": "stopped",
    "failed": "failed",
}
NOT_INSTALLED, UNKNOWN = "not installed", "unknown"


@dataclass(frozen=True, slots=True)
class State:
    """Of one verb in one place."""

    verb: str
    word: str
    """`not installed`, `running`, `starting`, `restarting`, `stopping`, `stopped`, `failed`, `unknown`."""
    place: str = ""
    """`system`, `user` or `tmux`."""
    path: str = ""
    """Of its unit."""
    told: str = ""
    """What a person wants to know beside the word."""
    shown: Mapping[str, str] | None = None
    """The manager's answer; None: it was not reached."""

    def to_json(self) -> dict[str, object]:
        """See `runward service status --json`."""
        shown = self.shown or {}
        return {
            "verb": self.verb,
            "state": self.word,
            "place": self.place or None,
            "unit": bool(self.path),
            "path": self.path or None,
            "active": shown.get("ActiveState"),
            "restarts": shown.get("NRestarts"),
            "pid": int(shown.get("MainPID") or 0) or None,
            "status": shown.get("StatusText") or None,
            "at_boot": shown.get("UnitFileState") == "enabled" if self.path else None,
            "tmux": self.place == "tmux",
        }


def states(verbs: tuple[str, ...], where: tuple[services.Place, ...]) -> list[State]:
    """Each verb wherever it is installed; once where it is nowhere."""
    found = []
    for verb in verbs:
        here = [_unit(verb, one) for one in where if os.path.lexists(one.path(verb))]
        if services.in_tmux(verb):
            here.append(State(verb, "running", "tmux", told=f"session {service_units.session_of(verb)}"))
        found += here or [State(verb, NOT_INSTALLED)]
    return found


def exit_code(found: list[State], *, named: bool) -> int:
    """0: what is installed runs; 1: something does not; 3: a named one is not installed; 75: cannot be known."""
    words = {one.word for one in found}
    if named and NOT_INSTALLED in words:
        return errors.NotFound.exit_code
    if words & {"failed", "stopped", "stopping", "restarting"}:
        return 1
    return errors.Unreachable.exit_code if UNKNOWN in words else 0


def _unit(verb: str, where: services.Place) -> State:
    place, path, name = "user" if where.user else "system", where.path(verb), service_units.name_of(verb)
    asked = services.call(*where.systemctl, "show", name, "-p", _ASKED)
    if not asked.ok or not services.has_systemd():
        return State(verb, UNKNOWN, place, path, "its manager is not reached")
    shown = dict(line.partition("=")[::2] for line in asked.text.splitlines())
    word = (
        "restarting" if shown.get("SubState") == "auto-restart" else _WORDS.get(shown["ActiveState"], UNKNOWN)
    )
    return State(verb, word, place, path, _told(word, name, where, shown), shown)


def _told(word: str, name: str, where: services.Place, shown: Mapping[str, str]) -> str:
    said = []
    if word in ("running", "starting"):
        since = time.monotonic() - int(shown.get("ActiveEnterTimestampMonotonic") or 0) / 1e6
        said.append(
            f"pid {shown.get('MainPID')}"
            + (f", up {durations.format_duration(since)}" if word == "running" else "")
        )
        said.append(shown.get("StatusText", ""))
    elif word in ("failed", "restarting"):
        how = (
            f"exit {shown.get('ExecMainStatus')}"
            if shown.get("Result") == "exit-code"
            else shown.get("Result", "")
        )
        said.append(f"{how}: {' '.join(('journalctl', *where.scope, '-u', name))}")
    if shown.get("NRestarts", "0") != "0":
        said.append(f"restarts: {shown['NRestarts']}")
    if shown.get("UnitFileState") not in ("enabled", "enabled-runtime"):
        said.append("not started at boot")
    return "; ".join(part for part in said if part)
