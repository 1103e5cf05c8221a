"""From the engine's JSON to values. What is missing or odd becomes the neutral value, never an error."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from runward.core import containers

_INSTANT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)?")


def instant(text: object) -> float | None:
    """Seconds since the epoch of an RFC 3339 time; None for the year 1, by which the engine says `never`.

    >>> instant("2026-01-01T00:00:00.5Z"), instant("0001-01-01T00:00:00Z")
    (1767225600.5, None)
    """
    match = _INSTANT.match(text) if isinstance(text, str) else None
    if match is None or match[1].startswith("0001"):
        return None
    zone = match[3] or "Z"
    whole = datetime.fromisoformat(match[1] + ("+00:00" if zone == "Z" else zone)).timestamp()
    return whole + float(match[2] or 0)


def container(raw: Mapping[str, Any]) -> containers.Container:
    """A container from `GET /containers/ID/json`."""
    state, config, host = _map(raw, "State"), _map(raw, "Config"), _map(raw, "HostConfig")
    status = str(state.get("Status") or ("running" if state.get("Running") else "exited"))
    started = instant(state.get("StartedAt"))
    error = str(state.get("Error") or "")
    policy, logs = _map(host, "RestartPolicy"), _map(host, "LogConfig")
    ended = status not in {"running", "paused"} and (started is not None or bool(error))
    return containers.Container(
        id=str(raw.get("Id") or ""),
        name=str(raw.get("Name") or "").lstrip("/"),
        image=str(config.get("Image") or raw.get("Image") or ""),
        command=_command(raw, config),
        status=status,
        exit_code=_int(state.get("ExitCode")) if ended else None,
        error=error,
        oom_flag=bool(state.get("OOMKilled")),
        health=str(_map(state, "Health").get("Status") or ""),
        pid=_int(state.get("Pid")),
        created_at=instant(raw.get("Created")),
        started_at=started,
        finished_at=instant(state.get("FinishedAt")) if ended else None,
        restarts=_int(raw.get("RestartCount")),
        restart_policy=str(policy.get("Name") or "no"),
        restart_limit=_int(policy.get("MaximumRetryCount")),
        stop_signal=str(config.get("StopSignal") or ""),
        log_driver=str(logs.get("Type") or ""),
        log_path=str(raw.get("LogPath") or ""),
        tty=bool(config.get("Tty")),
        host_ipc=host.get("IpcMode") == "host",
        limits=_limits(host),
        labels={str(key): str(value) for key, value in _map(config, "Labels").items()},
    )


def event(raw: Mapping[str, Any]) -> containers.ContainerEvent | None:
    """One object of `GET /events`; None for what is not about a container."""
    if raw.get("Type", "container") != "container":
        return None
    actor = _map(raw, "Actor")
    attributes = {str(key): str(value) for key, value in _map(actor, "Attributes").items()}
    action = str(raw.get("Action") or raw.get("status") or "")
    nanoseconds = raw.get("timeNano")
    at = nanoseconds / 1e9 if isinstance(nanoseconds, int) else float(_int(raw.get("time")))
    return containers.ContainerEvent(action, str(actor.get("ID") or raw.get("id") or ""), at, attributes)


def _limits(host: Mapping[str, Any]) -> containers.Limits:
    cpus = _int(host.get("NanoCpus")) / 1e9
    if not cpus and _int(host.get("CpuQuota")) > 0:
        cpus = _int(host.get("CpuQuota")) / (_int(host.get("CpuPeriod")) or 100_000)
    return containers.Limits(
        memory=_int(host.get("Memory")),
        memory_swap=_int(host.get("MemorySwap")),
        cpus=cpus,
        pids=max(0, _int(host.get("PidsLimit"))),
        shm=_int(host.get("ShmSize")) or 64 << 20,
        gpus=_gpus(host.get("DeviceRequests")),
    )


def _gpus(requests: object) -> str:
    found = []
    for request in requests if isinstance(requests, list) else []:
        if not isinstance(request, dict):
            continue
        kinds = request.get("Capabilities") or [[]]
        if request.get("Driver") == "nvidia" or any("gpu" in kind for kind in kinds):
            ids = ",".join(request.get("DeviceIDs") or [])
            found.append(ids or ("all" if request.get("Count") == -1 else str(request.get("Count"))))
    return " ".join(found)


def _command(raw: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[str, ...]:
    if raw.get("Path"):
        return (str(raw["Path"]), *(str(word) for word in raw.get("Args") or ()))
    words = [*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())]
    return tuple(str(word) for word in words)


def _map(raw: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = raw.get(key)
    return value if isinstance(value, dict) else {}


def _int(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0
