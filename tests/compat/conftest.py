"""A controller over Slurm in memory."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fakes import clock as clocks
from runward.compat.autoexp import controller as controllers
from runward.compat.autoexp import restart_policies, slurm_client, state_store, watcher


@dataclass
class Desk:
    """One job of a controller, its log and its Slurm."""

    folder: Path
    clock: clocks.FakeClock = field(default_factory=clocks.FakeClock)
    slurm: Any = field(default_factory=slurm_client.FakeSlurmClient)

    def __post_init__(self) -> None:
        self.script = self.folder / "script.sh"
        self.script.write_text("#!/bin/bash\n")
        self.log = self.folder / "log.txt"

    def monitor(self, *signals: watcher.LogSignalConfig, **keys: Any) -> watcher.SlurmLogMonitor:
        config = watcher.SlurmLogMonitorConfig(check_interval_seconds=1, log_signals=list(signals), **keys)
        return watcher.SlurmLogMonitor(config, self.clock.mono)

    def controller(
        self, monitor: Any, policies: dict[str, Any], store: Any = None, **options: Any
    ) -> controllers.MonitorController:
        chosen = controllers.ControllerOptions(clock=self.clock.wall, **options)
        return controllers.MonitorController(monitor, self.slurm, policies, store, options=chosen)

    def job(self, made: controllers.MonitorController, *, log: str | None = None, **keys: Any) -> str:
        """A submitted and registered job."""
        if log is not None:
            self.log.write_text(log)
        path = keys.pop("log_path", self.log)
        job_id = self.slurm.submit("demo", self.script, path)
        given = controllers.JobRegistration(name="demo", script_path=self.script, log_path=path, **keys)
        made.register_job(job_id, given)
        return job_id

    def write(self, text: str) -> None:
        with self.log.open("a") as file:
            file.write(text)

    def store(self, session: str = "s1") -> state_store.MonitorStateStore:
        return state_store.MonitorStateStore(self.folder / "state", session)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def always(most: int | None = 2) -> restart_policies.AlwaysRestartPolicy:
    return restart_policies.AlwaysRestartPolicy(restart_policies.AlwaysRestartPolicyConfig(max_retries=most))


def never(message: str = "No restart configured") -> restart_policies.NoRestartPolicy:
    return restart_policies.NoRestartPolicy(restart_policies.NoRestartPolicyConfig(message=message))


def selective(**keys: Any) -> restart_policies.SelectiveRestartPolicy:
    return restart_policies.SelectiveRestartPolicy(restart_policies.SelectiveRestartPolicyConfig(**keys))
