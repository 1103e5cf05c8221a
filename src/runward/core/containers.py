"""What a container is, what happened to it, and what bounded it: values, whichever engine told them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a container; 0 or None: not limited."""

    memory: int = 0
    """Bytes."""
    memory_swap: int = 0
    """Bytes of memory and swap together; -1: unlimited swap."""
    cpus: float = 0.0
    pids: int = 0
    shm: int = 64 << 20
    """Bytes of /dev/shm."""
    gpus: str = ""
    """Devices asked for, as text; empty: none."""


@dataclass(frozen=True, slots=True)
class Container:
    """One container as its engine describes it. Instants are seconds since the epoch."""

    id: str
    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    status: str = "created"
    """The engine's word: created, running, paused, restarting, removing, exited, dead."""
    exit_code: int | None = None
    """None as long as it was never started or runs now."""
    error: str = ""
    """Why the engine could not start it."""
    oom_flag: bool = False
    """The engine's own flag: a hint, it misses kills and never names the process."""
    health: str = ""
    pid: int = 0
    created_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    restarts: int = 0
    restart_policy: str = "no"
    restart_limit: int = 0
    stop_signal: str = ""
    log_driver: str = ""
    log_path: str = ""
    tty: bool = False
    host_ipc: bool = False
    limits: Limits = Limits()
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def alive(self) -> bool:
        """Whether a process of it may exist now."""
        return self.status in {"running", "paused", "restarting", "removing"}

    @property
    def never_started(self) -> bool:
        """Whether no process of it ever ran."""
        return self.started_at is None and self.status in {"created", "exited", "dead"}

    @property
    def not_begun(self) -> bool:
        """Whether its command never ran: it was not started, or the engine says why it could not be."""
        return self.never_started or bool(self.error and self.exit_code in {125, 126, 127, 128})


@dataclass(frozen=True, slots=True)
class ContainerEvent:
    """Something that the engine reported about a container."""

    action: str
    """`create`, `start`, `oom`, `kill`, `die`, `stop`, `restart`, `health_status`, `destroy`, ..."""
    container: str
    at: float
    """Seconds since the epoch."""
    attributes: Mapping[str, str] = field(default_factory=dict)

    @property
    def signum(self) -> int | None:
        """The signal of a `kill` event."""
        text = self.attributes.get("signal", "")
        return int(text) if text.isdigit() else None

    @property
    def exit_code(self) -> int | None:
        """The exit code of a `die` event."""
        text = self.attributes.get("exitCode", "")
        return int(text) if text.isdigit() else None

    def describe(self) -> str:
        """The event in words: what, and what belongs to it."""
        if self.action == "kill":
            return f"kill (signal {self.attributes.get('signal', '?')})"
        if self.action == "die":
            return f"die (exit code {self.attributes.get('exitCode', '?')})"
        return self.action


@dataclass(frozen=True, slots=True)
class OomRecord:
    """One kill by the kernel's memory killer, as its log tells it."""

    container: str
    """Full id of the container whose cgroup the killed process was in."""
    pid: int
    process: str
    at: float | None
    text: str
    whole_host: bool = False
    """The host itself had run out, not the container's limit."""
