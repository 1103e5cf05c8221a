"""Restart policies as objects: `decide(event)` asks the policies by mode of the core."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runward.core import mode_policies


@dataclass
class RestartEvent:
    """What a policy is told of one failure."""

    mode: str
    attempt: int = 1
    """The attempt that ended, from 1; of the restarts of this mode alone."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    job_id: str = ""


@dataclass
class RestartDecision:
    """What a policy says: `restart` or `stop`."""

    action: str
    reason: str = ""
    adjustments: dict[str, Any] = field(default_factory=dict)


class BaseRestartPolicy:
    """A policy of one mode. A class of your own only needs `decide`."""

    implementation: mode_policies.Implementation | None = None
    """The same as a value of the core; None: only `decide` knows."""

    def __init__(self, config: Any = None) -> None:
        self.config = config

    def decide(self, event: RestartEvent) -> RestartDecision:
        """One decision about one failure."""
        return asked(self, event.mode, (report_of(event),), {event.mode: event.attempt - 1})


def report_of(event: RestartEvent) -> mode_policies.Report:
    """What speaks about the failure, from the metadata of a signal."""
    meta = event.metadata
    words = [str(meta[key]) if meta.get(key) is not None else None for key in _WORDS]
    return mode_policies.Report(_mode(event.mode), *words)


_WORDS = ("error_type", "subsystem", "signal_name")


def _mode(word: str) -> mode_policies.Mode:
    known = {str(mode): mode for mode in mode_policies.Mode}
    return known.get(word, mode_policies.Mode.CRASH)


def asked(
    policy: BaseRestartPolicy,
    mode: str,
    reports: tuple[mode_policies.Report, ...],
    restarts: Mapping[str, int],
    counting: mode_policies.Counting = mode_policies.Counting.EACH_MODE,
) -> RestartDecision:
    """The core's one answer to all reports of a failure of `mode`; `restarts` are those made, by mode."""
    chosen = policy.implementation
    one = _mode(mode)
    policies = mode_policies.ModePolicies("", {one: chosen} if chosen is not None else {}, counting)
    made = {_mode(word): count for word, count in restarts.items()}
    about = tuple(report for report in reports if report.mode is one) or (mode_policies.Report(one),)
    told = mode_policies.answer(policies, about, made)
    return RestartDecision("restart" if told.restart else "stop", told.reason)


@dataclass
class NoRestartPolicyConfig:
    """Keys of `NoRestartPolicy`."""

    class_name: str = "NoRestartPolicy"
    message: str = "No restart configured"


class NoRestartPolicy(BaseRestartPolicy):
    """Never restarts."""

    def __init__(self, config: NoRestartPolicyConfig | None = None) -> None:
        super().__init__(config or NoRestartPolicyConfig())
        self.implementation = mode_policies.Never(self.config.message)


@dataclass
class AlwaysRestartPolicyConfig:
    """Keys of `AlwaysRestartPolicy`."""

    class_name: str = "AlwaysRestartPolicy"
    reason: str = "Retrying job"
    max_retries: int | None = None


class AlwaysRestartPolicy(BaseRestartPolicy):
    """Restarts whatever the cause, as often as `max_retries` says."""

    def __init__(self, config: AlwaysRestartPolicyConfig | None = None) -> None:
        super().__init__(config or AlwaysRestartPolicyConfig())
        self.implementation = mode_policies.Always(self.config.reason, self.config.max_retries)


@dataclass
class SelectiveRestartPolicyConfig:
    """Keys of `SelectiveRestartPolicy`. Raises ValueError for a default action that there is not."""

    class_name: str = "SelectiveRestartPolicy"
    max_retries: int | None = 3
    restart_on_error_types: list[str] = field(default_factory=list)
    restart_on_subsystems: list[str] = field(default_factory=list)
    restart_on_signals: list[str] = field(default_factory=list)
    exclude_error_types: list[str] = field(default_factory=list)
    default_action: str = "stop"
    restart_reason: str = "Transient failure detected, restarting"
    stop_reason: str = "Non-recoverable error, stopping"

    def __post_init__(self) -> None:
        if self.default_action not in ("restart", "stop"):
            raise ValueError(f"default_action {self.default_action!r} is none of restart, stop")


class SelectiveRestartPolicy(BaseRestartPolicy):
    """Restarts by error type, subsystem and signal."""

    def __init__(self, config: SelectiveRestartPolicyConfig | None = None) -> None:
        super().__init__(config or SelectiveRestartPolicyConfig())
        c = self.config
        self.implementation = mode_policies.Selective(
            max_retries=c.max_retries if c.max_retries is not None else _WITHOUT_END,
            restart_on_error_types=frozenset(c.restart_on_error_types),
            restart_on_subsystems=frozenset(c.restart_on_subsystems),
            restart_on_signals=frozenset(c.restart_on_signals),
            exclude_error_types=frozenset(c.exclude_error_types),
            default_action=c.default_action,
            restart_reason=c.restart_reason,
            stop_reason=c.stop_reason,
        )


_WITHOUT_END = 1_000_000_000


class ConfiguredPolicy(BaseRestartPolicy):
    """A policy that a configuration file describes."""

    def __init__(self, implementation: mode_policies.Implementation) -> None:
        super().__init__(implementation)
        self.implementation = implementation


def of(chosen: mode_policies.ModePolicies) -> dict[str, BaseRestartPolicy]:
    """Policies by mode as a controller takes them."""
    return {str(mode): ConfiguredPolicy(one) for mode, one in chosen.by_mode.items()}
