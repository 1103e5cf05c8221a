"""Every default that a user may change, as values. Durations are seconds, sizes are bytes.

The configuration fills these from files, environment and command line; whoever needs a section gets it
as an argument.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """How attempts are started and ended."""

    policy: str = "default"
    grace_s: float = 60.0
    """Between asking an attempt to end and insisting."""
    rest_grace_s: float = 5.0
    """Between asking the rest of a tree and killing it, once its root is gone."""
    stop_signal: str = "TERM"
    stall_after_s: float | None = None
    """An attempt without progress for so long is ended, in whatever phase; None: never by this limit."""
    max_runtime_s: float | None = None
    """Of the run: then it is stopped with grace and not restarted; None: no limit."""
    unkillable_after_s: float = 60.0
    """After SIGKILL: then the attempt is called unkillable."""


@dataclass(frozen=True, slots=True)
class Stall:
    """Budgets without progress. Reaching one is an alert; ending needs a second witness too."""

    startup_s: float = 1800.0
    first_step_s: float = 1800.0
    step_s: float = 600.0
    checkpoint_s: float = 1800.0
    evaluation_s: float = 3600.0
    factor: float = 5.0
    """A learned budget is so many times the longest seen of that phase."""
    floor_s: float = 300.0
    ceiling_s: float = 7200.0
    """Or twice the longest seen, if that is more."""
    end_factor: float = 3.0
    """At so many learned budgets an attempt that shows no life is ended."""
    no_life_s: float = 60.0
    """For so long no stack changed and no checkpoint grew."""


@dataclass(frozen=True, slots=True)
class Numerics:
    """Loss that is no number."""

    reports: int = 3
    """Reports of NaN or Inf in a row that make an alert."""


@dataclass(frozen=True, slots=True)
class Ticks:
    """How often places are looked at."""

    local_s: float = 1.0
    docker_s: float = 1.0
    k8s_s: float = 30.0
    """Beside its events."""
    ray_s: float = 10.0
    slurm_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Logs:
    """The attempt's own log."""

    keep_bytes: int = 2 << 30
    """Per attempt, packed and punched from the old end."""
    first_bytes: int = 16 * 10**6
    """Of the beginning, always kept."""
    piece_bytes: int = 16 << 20
    reserve_bytes: int = 256 * 10**6
    """Free space of the log's disk below which old log is given up."""
    reserve_file_bytes: int = 64 * 10**6


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Looking at checkpoints."""

    quarantine: str = "mark"
    """`mark` leaves a damaged one in its place; `rename` moves it aside, undoably."""
    verify_rate_bytes: int = 200 * 10**6
    """Read a second, in the background."""
    verify_budget_s: float = 60.0
    """At a restart, for what is not yet verified."""
    settle_s: float = 10.0
    """A checkpoint that changed within this time is being written."""
    silent_after_s: float = 30.0
    """A directory that gave no answer for so long does not answer: its checkpoints cannot be seen."""
    hash: bool = False
    """Whether hashes are kept of a checkpoint when it is first complete."""


@dataclass(frozen=True, slots=True)
class Watch:
    """The watcher itself."""

    blind_after_s: float = 900.0
    """Not seeing a run for so long withholds the heartbeat."""
    progress_every_s: float = 10.0
    """The newest sample of a run is written at most so often."""
    missing_after_s: float = 600.0
    """A job that squeue, sacct, scontrol and its log deny for so long has timed out."""
    start_within_s: float | None = None
    """A start condition that says no for so long ends the run; None waits for ever."""
    respect_scancel: bool = False
    """Never restart after a user's scancel, whatever a policy of the seed's kind names."""


@dataclass(frozen=True, slots=True)
class Notify:
    """Telling a person."""

    to: tuple[str, ...] = ()
    """Commands (they get JSON on stdin) and URLs (they get a POST)."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All sections."""

    run: Run = Run()
    stall: Stall = Stall()
    numerics: Numerics = Numerics()
    ticks: Ticks = Ticks()
    logs: Logs = Logs()
    checkpoints: Checkpoints = Checkpoints()
    watch: Watch = Watch()
    notify: Notify = Notify()
