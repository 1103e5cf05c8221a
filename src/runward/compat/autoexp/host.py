"""The monitor as a process: what a manifest asks for, restored jobs, the loop, and a file for every action."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from runward.compat.autoexp import controller as controllers
from runward.compat.autoexp import records, restart_policies, schema, watcher
from runward.compat.autoexp import slurm_client as clients
from runward.compat.autoexp import state_store as sessions
from runward.config import autoexp_files
from runward.core import errors

_TRIES = 10_000


@dataclass
class HostRuntime:
    """What a monitor process works with."""

    manifest: Any
    monitor: Any
    slurm_client: Any
    state_store: sessions.MonitorStateStore | None = None
    action_queue_dir: Path | str | None = None
    policies: Mapping[str, restart_policies.BaseRestartPolicy] | None = None


def build_host_runtime(manifest_path: Path | str, *, use_fake_slurm: bool = False) -> HostRuntime:
    """What a manifest asks for. No module that a manifest names is imported. Raises UsageError."""
    body = _read(manifest_path)
    config = _table(body, "config")
    said = _table(_table(body, "monitor"), "config") or _table(config, "monitoring")
    given = {**said, "class_name": _table(body, "monitor").get("class_name") or said.get("class_name")}
    experiment = autoexp_files.of_plain(
        {
            "monitoring": {key: value for key, value in given.items() if value is not None},
            "restart": _restart(config),
        },
        str(manifest_path),
    )
    monitor = (
        watcher.SlurmLogMonitor.of(experiment.monitor)
        if experiment.monitor.observes
        else watcher.NullMonitor()
    )
    client = clients.FakeSlurmClient() if use_fake_slurm else clients.SlurmClient()
    known = {key: value for key, value in _table(body, "slurm_config").items() if key in _SLURM_KEYS}
    client.configure(schema.SlurmConfig(**known))
    root = Path(str(body.get("monitoring_state_dir") or Path(manifest_path).parent))
    store = sessions.MonitorStateStore(
        root,
        str(body.get("plan_id") or "") or None,
        project_name=str(body.get("project_name", "")),
        config=config,
        manifest_path=manifest_path,
    )
    actions = Path(str(body.get("action_queue_dir") or root / "actions"))
    return HostRuntime(body, monitor, client, store, actions, restart_policies.of(experiment.restart))


_SLURM_KEYS = frozenset(
    {"template_path", "script_dir", "log_dir", "submit_cmd", "squeue_cmd", "cancel_cmd", "sacct_cmd"}
)
_MANIFEST_LIMIT = 64 << 20


def _read(path: Path | str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            body = json.loads(file.read(_MANIFEST_LIMIT))
    except OSError as error:
        raise errors.NotFound(errors.Problem(f"cannot be read: {error.strerror}", str(path))) from error
    except (ValueError, RecursionError) as error:
        raise errors.UsageError(errors.Problem(f"is no manifest: {error}", str(path))) from error
    if not isinstance(body, dict):
        raise errors.UsageError(errors.Problem("is no manifest: must be a JSON object", str(path)))
    return body


def _table(body: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = body.get(key)
    return dict(found) if isinstance(found, dict) else {}


def _restart(config: Mapping[str, Any]) -> dict[str, Any]:
    """The restart section, whether it stands as `restart` or as a bare list `restart_policies`."""
    if isinstance(config.get("restart_policies"), list):
        return {"policies": config["restart_policies"]}
    return _table(config, "restart")


def instantiate_controller(runtime: HostRuntime) -> controllers.MonitorController:
    """The controller of a runtime."""
    return controllers.MonitorController(
        runtime.monitor, runtime.slurm_client, runtime.policies, state_store=runtime.state_store
    )


def restore_jobs(runtime: HostRuntime, controller: controllers.MonitorController) -> list[str]:
    """Names of the jobs of the session, taken up and known to the Slurm client again."""
    del runtime
    return [job.name for job in controller.restore()]


def run_monitoring(runtime: HostRuntime, controller: controllers.MonitorController) -> None:
    """Monitor until no job is left."""
    folder = runtime.action_queue_dir or "actions"
    asyncio.run(_monitor_loop(controller, runtime.monitor, folder, runtime.state_store))


async def _monitor_loop(
    controller: Any, monitor: Any, action_dir: Path | str, state_store: Any = None, runtime: Any = None
) -> None:
    """Look, write a file for each action, sleep, until no job is left. The session file stays."""
    del state_store, runtime
    stopped = getattr(controller, "stopped", lambda: ())
    while list(controller.jobs()) or list(stopped()):
        await controller.observe_once()
        for record in controller.drain_events():
            if record.action is not None:
                write_action(record, action_dir)
        if list(controller.jobs()) or list(stopped()):
            await asyncio.sleep(_interval(monitor))


def _interval(monitor: Any) -> float:
    config = getattr(monitor, "config", None)
    said = (getattr(config, word, None) for word in ("check_interval_seconds", "poll_interval_seconds"))
    return max(1.0, float(next((one for one in said if one), 60.0)))


def write_action(record: records.MonitorRecord, folder: Path | str) -> Path:
    """Keep one action as `<seconds>_<number>_<Action>.json`; no file is ever written twice. Raises OSError."""
    os.makedirs(folder, exist_ok=True)
    now = time.time()
    body = {**asdict(record), "created_at": now}
    for index in range(_TRIES):
        path = Path(folder) / f"{int(now)}_{index}_{record.action}.json"
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(body, file, indent=2, default=str)
            print(
                f"[actions] wrote {path} for job {record.job_id} ({record.job_name}) -> {record.action}",
                flush=True,
            )
            return path
    raise FileExistsError(f"{folder}: more than {_TRIES} actions of one second")
