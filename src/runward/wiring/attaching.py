"""`runward attach`: make a run of something that already lives, and watch it."""

import functools
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runward.config import setting_files
from runward.core import errors, events, ids, options
from runward.store import sqlite
from runward.wiring import (
    attached,
    claiming,
    detaching,
    launching,
    making,
    monitoring,
    places,
    preparing,
    processes,
    restart_ways,
    saying,
)
from runward.wiring import watching as assembly

_SCHEMES = ("local", "file", "docker", "slurm", "ray", "k8s", "pod")
_SETTINGS = {"policy": "run.policy", "stall_after": "run.stall_after", "notify": "notify.to"}


def attach(target: str, given: Mapping[str, Any]) -> int:
    """Watch `target`; in the foreground until it is over. Raises UsageError, NotFound, Unreachable."""
    scheme, _, rest = target.partition(":")
    if not rest or scheme not in _SCHEMES:
        raise errors.UsageError(
            errors.Problem(
                f"no target {target!r}",
                nearest=errors.nearest(scheme, _SCHEMES),
                next_step="Write local:PID, file:PATH, docker:NAME, slurm:ID[@CLUSTER], ray:ID@URL, k8s:NS/NAME"
                " or pod:NS/POD/local:PID.",
            )
        )
    asked, found = _options(target, scheme, rest, given)
    store = sqlite.SqliteStore(places.state_dir())
    engine = None if given["detach"] else assembly.reading_for(asked)
    with claiming.alone(store, asked):
        keep = functools.partial(_keep, scheme, rest, asked, found)
        row = making.make(store, asked, keep, adopted=_adopted(asked, found.handle))
    if given["detach"]:
        store.close()
        return detaching.detach(asked.name)
    saying.say(
        f"{asked.name}: watching {asked.target}"
        + ("" if given["act"] else "; nothing is done to it (--act hands it over)")
    )
    return launching.foreground(store, row, asked, engine)


@dataclass(frozen=True, slots=True)
class _Found:
    """What is known of a target before it is watched."""

    handle: str
    argv: tuple[str, ...] = ()
    cwd: str | None = None
    """Where it was started; None: here."""
    env: dict[str, str] | None = None
    """What a restart would be given, where one is possible."""
    target: str | None = None
    """The target in full, where it was given in short."""


def _options(
    target: str, scheme: str, rest: str, given: Mapping[str, Any]
) -> tuple[options.RunOptions, _Found]:
    """The run's options, and what they rest on."""
    resume_by, log = restart_ways.checked(scheme, given), given["log"]
    found = _look(scheme, rest, given)
    if log is not None and scheme not in {"slurm", "pod"}:
        _check_log(os.path.join(os.getcwd(), log))
    chosen = {_SETTINGS[k]: v for k, v in preparing.as_settings(given, _SETTINGS).items()}
    settings = setting_files.load(setting_files.Sources(os.getcwd(), os.environ, chosen))
    asked = options.RunOptions(
        name=given["name"] if given["name"] is not None else _name(scheme, rest),
        argv=found.argv,
        cwd=found.cwd or os.getcwd(),
        backend=scheme,
        target=found.target or target,
        observe_only=not given["act"],
        checkpoints=os.path.abspath(given["checkpoints"]) if given["checkpoints"] else None,
        resume_arg=given["resume_arg"],
        resume_by=resume_by,
        restart_by=given["restart_by"],
        progress_regex=given["progress_regex"],
        monitoring=monitoring.chosen(os.getcwd(), given["monitoring"]),
        log=os.path.abspath(log) if log is not None else None,
        until_idle_s=given["until_idle"],
        settings=settings,
    )
    problems = preparing.word_problems(asked)
    if problems:
        raise errors.UsageError(*problems)
    return asked, found


def _look(scheme: str, rest: str, given: Mapping[str, Any]) -> _Found:
    """Raises NotFound, UsageError, Unreachable for what cannot be watched."""
    act = bool(given["act"])
    match scheme:
        case "local":
            return _process(rest, follows_log=given["log"] is not None)
        case "file":
            path = os.path.abspath(rest)
            _check_log(path)
            return _Found(f"given:{path}", target=f"file:{path}")
        case "slurm":
            from runward.wiring import slurm_runs

            handle, argv, cwd, full = slurm_runs.attach(rest, act=act)
            return _Found(handle, argv, cwd, dict(os.environ), full)
        case "docker":
            from runward.wiring import docker_runs

            return _Found(*docker_runs.attach(rest))
        case "pod":
            from runward.wiring import pod_runs

            return _Found(*pod_runs.attach(rest, act=act))
        case "k8s":
            from runward.wiring import k8s_runs

            handle, argv, taken = k8s_runs.attach(rest, act=act)
            return _Found(handle, argv, target=taken)
        case "ray" if act:
            from runward.wiring import ray_runs

            ray_runs.check_attached(rest, given["resume_arg"])
    return _Found(f"given:{rest}")


def _process(rest: str, *, follows_log: bool) -> _Found:
    pid = _pid(rest)
    own, argv, cwd, outputs = attached.describe_process(pid)
    if not follows_log and not outputs:
        saying.say("its output goes to no file, so its log cannot be followed (--log FILE names one)")
    return _Found(f"given:{own}", argv, cwd, attached.environment_of(pid))


def _keep(scheme: str, rest: str, asked: options.RunOptions, found: _Found) -> None:
    """What a later watcher must know of the command and of its place."""
    if found.env is not None:
        processes.keep_command(asked, found.env)
    match scheme:
        case "slurm" if not asked.observe_only:
            from runward.wiring import slurm_runs

            slurm_runs.keep_attached(asked.name, rest)
        case "docker":
            from runward.wiring import docker_runs

            docker_runs.keep_attached(asked.name, found.handle)
        case "k8s":
            from runward.wiring import k8s_runs

            k8s_runs.keep_attached(asked.name, asked.target.removeprefix("k8s:"))


def _pid(text: str) -> int:
    if not text.isdigit():
        raise errors.UsageError(errors.Problem(f"{text!r} is no pid", "local:", next_step="Write local:PID."))
    return int(text)


def _check_log(path: str) -> None:
    if not os.path.exists(path):
        raise errors.NotFound(
            errors.Problem(f"no such file: {path}", next_step="Name the log that is written now.")
        )
    if os.path.isdir(path) or not os.access(path, os.R_OK):
        raise errors.UsageError(errors.Problem(f"cannot be read as a log: {path}"))


def _name(scheme: str, rest: str) -> str:
    named = rest.partition("@")[0] if scheme == "ray" else rest
    last = named.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9._-]", "-", f"{scheme}-{last}")[:64]


def _adopted(asked: options.RunOptions, handle: str) -> list[events.Event]:
    """The attempt that already lives."""
    now = time.time()
    shown = handle.removeprefix("given:").partition("@")[0]
    if asked.backend == "slurm":
        shown = asked.target.removeprefix("slurm:")
    return [
        events.AttemptPlanned(at=now, attempt=1, token=ids.token(asked.name, 1, os.urandom(4).hex())),
        events.AttemptStarted(at=now, attempt=1, job=shown, handle=handle, adopted=True),
    ]
