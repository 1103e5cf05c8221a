"""Restart policies by mode (stall, crash, timeout, success), as configurations of Slurm users write them.

Budget first, then exclusion, then inclusion, then the default. N restarts mean N, for each mode alone. All
reports of one failure together get one decision, and a permanent one among them beats the transient ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from runward.core import backoff, failures, policy


class Mode(StrEnum):
    """How a job stands, in the words of a policy file."""

    STALL = "stall"
    CRASH = "crash"
    TIMEOUT = "timeout"
    SUCCESS = "success"


_FIRST = (Mode.CRASH, Mode.TIMEOUT, Mode.SUCCESS, Mode.STALL)
"""Which mode holds when several are reported: a finished job that was silent has not stalled."""


class Counting(StrEnum):
    """each_mode: N restarts for every mode. submissions: one counter, and the first submission is in it."""

    EACH_MODE = "each_mode"
    SUBMISSIONS = "submissions"


@dataclass(frozen=True, slots=True)
class Report:
    """One thing that speaks about the failure: a signal, or the scheduler's word."""

    mode: Mode
    error_type: str | None = None
    subsystem: str | None = None
    signal_name: str | None = None


@dataclass(frozen=True, slots=True)
class Never:
    """No restart."""

    message: str = "No restart configured"


@dataclass(frozen=True, slots=True)
class Always:
    """Restart whatever the cause."""

    reason: str = "Retrying job"
    max_retries: int | None = None
    """None: without end."""


@dataclass(frozen=True, slots=True)
class Selective:
    """Restart by error type, subsystem and signal."""

    max_retries: int = 3
    restart_on_error_types: frozenset[str] = frozenset()
    restart_on_subsystems: frozenset[str] = frozenset()
    restart_on_signals: frozenset[str] = frozenset()
    exclude_error_types: frozenset[str] = frozenset()
    default_action: str = "stop"
    """`restart` or `stop`, for what no list names."""
    restart_reason: str = "Transient failure detected, restarting"
    stop_reason: str = "Non-recoverable error, stopping"


Implementation = Never | Always | Selective


@dataclass(frozen=True, slots=True)
class ModePolicies:
    """A policy for each mode; a mode without one is never restarted."""

    name: str
    by_mode: Mapping[Mode, Implementation] = field(default_factory=dict)
    counting: Counting = Counting.EACH_MODE


@dataclass(frozen=True, slots=True)
class Answer:
    """What a policy says."""

    mode: Mode
    restart: bool
    reason: str
    attempt: int
    """The attempt that ended, as this policy counts: 1 before its first restart."""
    configured: bool = True
    """False where the mode has no policy."""


def answer(policies: ModePolicies, reports: Sequence[Report], restarts: Mapping[Mode, int]) -> Answer:
    """One answer for all reports of a failure; `restarts` counts those already made, by mode."""
    mode = next((m for m in _FIRST if any(r.mode is m for r in reports)), Mode.CRASH)
    about = [report for report in reports if report.mode is mode]
    chosen = policies.by_mode.get(mode)
    shared = policies.counting is Counting.SUBMISSIONS
    done = sum(restarts.values()) + 1 if shared else restarts.get(mode, 0)
    attempt = done if shared else done + 1
    match chosen:
        case None:
            return Answer(mode, restart=False, reason=Never().message, attempt=attempt, configured=False)
        case Never():
            return Answer(mode, restart=False, reason=chosen.message, attempt=attempt)
        case Always():
            spent = chosen.max_retries is not None and done >= chosen.max_retries
            reason = "retry budget exhausted" if spent else chosen.reason
            return Answer(mode, restart=not spent, reason=reason, attempt=attempt)
        case Selective():
            restart, reason = _select(chosen, about, done)
            return Answer(mode, restart=restart, reason=reason, attempt=attempt)


def _select(chosen: Selective, reports: Sequence[Report], done: int) -> tuple[bool, str]:
    if done >= chosen.max_retries:
        return False, f"retry budget exhausted (attempt {done}/{chosen.max_retries})"
    for report in reports:
        if report.error_type in chosen.exclude_error_types:
            return False, f"{chosen.stop_reason} (excluded error_type: {report.error_type})"
    for report in reports:
        hits = _hits(chosen, report)
        if hits:
            return True, f"{chosen.restart_reason} ({', '.join(hits)})"
    restart = chosen.default_action == "restart"
    return restart, chosen.restart_reason if restart else chosen.stop_reason


def _hits(chosen: Selective, report: Report) -> list[str]:
    asked = (
        ("signal", report.signal_name, chosen.restart_on_signals),
        ("error_type", report.error_type, chosen.restart_on_error_types),
        ("subsystem", report.subsystem, chosen.restart_on_subsystems),
    )
    return [f"{word}={value}" for word, value, listed in asked if value is not None and value in listed]


# Many to many: the words that monitoring configurations use, beside the causes of a verdict.
ERROR_TYPES: Mapping[str, frozenset[failures.Cause]] = {
    "oom": frozenset({failures.Cause.GPU_OOM, failures.Cause.HOST_OOM}),
    "hang": frozenset({failures.Cause.HANG}),
    "deadlock": frozenset({failures.Cause.HANG}),
    "nccl": frozenset({failures.Cause.NCCL_ERROR}),
    "nccl_collective": frozenset({failures.Cause.NCCL_ERROR}),
    "nccl_timeout": frozenset({failures.Cause.NCCL_TIMEOUT}),
    "watchdog_timeout": frozenset({failures.Cause.NCCL_TIMEOUT}),
    "distributed_timeout": frozenset({failures.Cause.DISTRIBUTED_TIMEOUT, failures.Cause.RENDEZVOUS}),
    "communication": frozenset({failures.Cause.NETWORK}),
    "cancelled": frozenset({failures.Cause.CANCELLED, failures.Cause.PREEMPTED}),
    "timeout": frozenset({failures.Cause.TIME_LIMIT}),
    "numerical_instability": frozenset({failures.Cause.NUMERICAL_INSTABILITY}),
    "exception": frozenset(
        {
            failures.Cause.EXCEPTION,
            failures.Cause.IMPORT_ERROR,
            failures.Cause.CONFIG_ERROR,
            failures.Cause.DATA_ERROR,
        }
    ),
    "torch": frozenset({failures.Cause.CUDA_ERROR}),
    "slurm_failure": frozenset(),
}
"""`slurm_failure` is said when the scheduler says FAILED and there is no better cause."""


def reports_of(verdict: failures.Verdict, scheduler_failed: bool = False) -> tuple[Report, ...]:
    """What a verdict says in the words of a policy file: one report for each word of its cause."""
    mode = _mode_of(verdict.cause)
    words = [word for word, causes in ERROR_TYPES.items() if verdict.cause in causes]
    if verdict.cause is failures.Cause.EXCEPTION and verdict.root.startswith("torch."):
        words.append("torch")
    if not words and scheduler_failed:
        words = ["slurm_failure"]
    slurm = {"cancelled", "slurm_failure", "timeout"}
    return tuple(Report(mode, word, "slurm" if word in slurm else None) for word in words) or (Report(mode),)


def _mode_of(cause: failures.Cause) -> Mode:
    match cause:
        case failures.Cause.NONE:
            return Mode.SUCCESS
        case failures.Cause.TIME_LIMIT:
            return Mode.TIMEOUT
        case failures.Cause.HANG:
            return Mode.STALL
        case _:
            return Mode.CRASH


@dataclass(frozen=True, slots=True)
class Circumstance:
    """What else bears on the decision, beside the situation."""

    reports: tuple[Report, ...] = ()
    """From signals and scheduler; empty: taken from the verdict's cause."""
    cancelled_by: str | None = None
    """`user`, `admin` or `runward` when somebody cancelled the job."""
    respect_scancel: bool = False
    finished: str | None = None
    """What said that the job has done its work, in words: its end is a success, whatever its exit code."""


def decide(
    policies: ModePolicies,
    history: policy.History,
    situation: policy.Situation,
    circumstance: Circumstance = Circumstance(),
) -> policy.Decision:
    """The same question as of a native policy, asked of policies by mode."""
    reports = circumstance.reports or reports_of(history.last.verdict)
    told = answer(policies, reports, restarts_by_mode(history))
    where = f"{policies.name}: {told.mode}"
    if told.mode is Mode.SUCCESS and not told.restart:
        return policy.Decision(failures.Action.NONE, told.reason, rule=where)
    if not told.restart:
        stopped = failures.Action.HOLD if told.configured else failures.Action.NONE
        return policy.Decision(stopped, told.reason, rule=where, give_up=not told.configured)
    held = _cancel_holds(circumstance)
    if held is not None:
        return policy.Decision(failures.Action.HOLD, held, rule=where)
    if situation.live:
        reason = f"{told.reason}; the attempt runs on, one witness does not end it"
        return policy.Decision(failures.Action.HOLD, reason, rule=where)
    return _restart(told, where, history, situation, circumstance)


def _restart(
    told: Answer,
    where: str,
    history: policy.History,
    situation: policy.Situation,
    circumstance: Circumstance,
) -> policy.Decision:
    k = sum(end.action is not None and end.action.goes_on for end in history.since_checkpoint[:-1]) + 1
    reason = f"{told.reason} (attempt {told.attempt})"
    if circumstance.cancelled_by == "user":
        reason += "; watch.respect_scancel: true leaves cancelled jobs alone"
    return policy.Decision(
        failures.Action.RESTART,
        reason,
        delay_s=backoff.Backoff().delay_s(k, situation.jitter),
        counted=True,
        rule=where,
        resume="latest" if situation.latest_usable else "none",
    )


def _cancel_holds(circumstance: Circumstance) -> str | None:
    match circumstance.cancelled_by:
        case "admin":
            return "cancelled by an administrator: a person is asked"
        case "runward":
            return "stopped through Runward: not restarted"
        case "user" if circumstance.respect_scancel:
            return "cancelled by its user, and watch.respect_scancel is set"
        case _:
            return None


def restarts_by_mode(history: policy.History) -> dict[Mode, int]:
    """Restarts already made, by the mode of the end before each."""
    counts: dict[Mode, int] = {}
    for end in history.attempts[:-1]:
        if end.action is not None and end.action.goes_on:
            mode = Mode(end.mode) if end.mode else _mode_of(end.verdict.cause)
            counts[mode] = counts.get(mode, 0) + 1
    return counts
