"""Puts a look at this machine together from the probes, and remembers what the next look needs."""

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runward import ports
from runward.core import box
from runward.probes import cgroups, engine_log, gpu_table, host, kernel_log
from runward.runners import local

if TYPE_CHECKING:  # a record without containers loads none of the engine's client
    from runward.wiring import box_containers


@dataclass(frozen=True, slots=True)
class What:
    """What a look contains beside the machine itself."""

    disks: tuple[str, ...] = ("/",)
    gpus: bool = True
    containers: bool = True
    daemon_errors: bool = True
    processes: int = 5
    run: str | None = None
    often: bool = False
    """Whether looks follow each other by seconds: a far engine is then kept at hand."""


@dataclass
class Looker:
    """Takes snapshots."""

    what: What = field(default_factory=What)
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def __post_init__(self) -> None:
        self._host = host.Host()
        self._groups = cgroups.Cgroups()
        self._runner = local.Local()
        self._kills: int | None = self._groups.whole_host_kills()
        self._at = time.time()
        self._docker: box_containers.Containers | None = None
        self._data_root = ""
        self._no_gpu_until = 0.0

    def look(self) -> box.Snapshot:
        """One snapshot. Never raises for what cannot be seen."""
        now = time.time()
        blind: list[str] = []
        containers = self._containers(blind) if self.what.containers else ()
        gpus = self._gpus(blind) if self.what.gpus else ()
        paths = (*self.what.disks, *((self._data_root,) if self._data_root else ()))
        disks, unseen = host.disks(paths)
        kills, new, lines = self._oom(blind)
        errors = self._daemon_errors(now, blind) if self.what.daemon_errors and self.what.containers else ()
        self._at = now
        return box.Snapshot(
            at=now,
            host=socket.gethostname(),
            memory=self._host.memory(),
            cpu=self._host.cpu(),
            load=self._host.load(),
            cores=os.cpu_count() or 0,
            pressures=self._host.pressures(),
            processes=self._host.busiest(self.what.processes, now) if self.what.processes else (),
            gpus=gpus,
            containers=containers,
            disks=disks,
            oom_total=kills,
            oom_new=new,
            oom_lines=lines,
            daemon_errors=errors,
            blind=(*blind, *unseen),
            run=self.what.run,
        )

    def close(self) -> None:
        """Give the engine's connections back."""
        if self._docker is not None:
            self._docker.close()

    def _containers(self, blind: list[str]) -> tuple[box.ContainerUse, ...]:
        from runward.backends.docker import client
        from runward.wiring import box_containers

        try:
            if self._docker is None:
                self._docker = box_containers.Containers(self.env, self._groups, often=self.what.often)
            found = self._docker.look()
            self._data_root = self._docker.data_root()
        except (ports.ContactLost, client.EngineError) as error:
            blind.append(f"containers: {error}")
            return ()
        return found

    def _gpus(self, blind: list[str]) -> tuple[box.Gpu, ...]:
        if time.monotonic() < self._no_gpu_until:
            blind.append("GPUs: nvidia-smi is not installed")
            return ()
        found, why = gpu_table.read(self._runner)
        if why:
            blind.append(f"GPUs: {why}")
            # A tool that is not there does not come in the next seconds: no need to search for it at each look.
            self._no_gpu_until = time.monotonic() + (600.0 if "not installed" in why else 0.0)
        return found

    def _oom(self, blind: list[str]) -> tuple[int | None, int, tuple[str, ...]]:
        """The kernel is asked for its words only when its counter says that there are new ones."""
        kills = self._groups.whole_host_kills()
        if kills is None:
            blind.append("kills for memory: /proc/vmstat has no counter oom_kill")
            return None, 0, ()
        new = max(0, kills - self._kills) if self._kills is not None else 0
        self._kills = kills
        if not new:
            return kills, 0, ()
        log = kernel_log.read(self._runner)
        if log.blind:
            blind.append(f"kernel log: {log.blind}")
        lines = tuple(line.text for line in log.lines if "killed process" in line.text.lower())
        return kills, new, lines[-5:]

    def _daemon_errors(self, now: float, blind: list[str]) -> tuple[str, ...]:
        found = engine_log.read(self._runner, min(self._at, now - 60), now, errors_only=True)
        if found.blind:
            blind.append(f"daemon log: {found.blind}")
        return found.lines[-10:]
