"""What a user asked of a run, as it is kept beside the run: every later watcher reads the same."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar

from runward.core import settings as defaults

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of `runward run`, with the settings that held when the run was made."""

    name: str
    argv: tuple[str, ...]
    cwd: str
    backend: str = "process"
    target: str = ""
    """What an attached run watches."""
    observe_only: bool = False
    policy_file: str | None = None
    """The run's own copy of a policy file; None: the preset that the settings name."""
    monitoring: str | None = None
    """A monitoring preset or file: its signals are recorded, acted on, and reported to policies by mode."""
    checkpoints: str | None = None
    """Absolute path."""
    resume_arg: str | None = None
    resume_by: str | None = None
    """`arg`: the command line says it; `env`: RUNWARD_RESUME_PATH says it; `self`: the trainer looks for itself."""
    restart_by: str | None = None
    """`requeue`: a scheduler's job is queued again under its own id; None or `submit`: a new job goes on."""
    resume: bool = False
    """Whether attempt 1 resumes too."""
    progress_regex: str | None = None
    heartbeat: str | None = None
    log: str | None = None
    """The log of an attached process."""
    until_idle_s: float | None = None
    log_dir: str | None = None
    split: bool = False
    tty: bool = False
    end_on_nonfinite: bool = False
    gpu_idle_after_s: float | None = None
    gpu_idle_below_pct: float = 5.0
    gpu_idle: str = "all"
    settings: defaults.Settings = defaults.Settings()

    def to_json(self) -> dict[str, Any]:
        """As kept in `options.json`."""
        return asdict(self)


def from_json(body: Mapping[str, Any]) -> RunOptions:
    """Options as another version of this program may have written them; unknown keys are dropped."""
    sections = {f.name: type(getattr(defaults.Settings(), f.name)) for f in fields(defaults.Settings)}
    kept = body.get("settings", {})
    known = {name: _filled(section, kept[name]) for name, section in sections.items() if name in kept}
    plain = {key: value for key, value in body.items() if key != "settings"}
    return _filled(RunOptions, {**plain, "settings": defaults.Settings(**known)})


def _filled(cls: type[_T], body: Mapping[str, Any]) -> _T:
    names = {f.name for f in fields(cls)}  # type: ignore[arg-type]  # both callers give dataclasses
    return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in body.items() if k in names})
