"""What is reported about a failure, in the words of policies by mode: from signals and from the scheduler.

Twenty ranks and five signals make one set of reports, and so one decision.
"""

from collections.abc import Iterable

from runward.core import log_signals
from runward.core.mode_policies import Mode, Report

SLURM = "slurm"

_OF_STATE = {
    "COMPLETED": Report(Mode.SUCCESS),
    "CANCELLED": Report(Mode.CRASH, "cancelled", SLURM),
    "PREEMPTED": Report(Mode.CRASH, "cancelled", SLURM),
    "FAILED": Report(Mode.CRASH, "slurm_failure", SLURM),
    "NODE_FAIL": Report(Mode.CRASH, "slurm_failure", SLURM),
    "BOOT_FAIL": Report(Mode.CRASH, "slurm_failure", SLURM),
    "REVOKED": Report(Mode.CRASH, "cancelled", SLURM),
    "OUT_OF_MEMORY": Report(Mode.CRASH, "oom", SLURM),
    "TIMEOUT": Report(Mode.TIMEOUT, "timeout", SLURM),
    "DEADLINE": Report(Mode.TIMEOUT, "timeout", SLURM),
    "NOT_FOUND": Report(Mode.TIMEOUT, "timeout", SLURM),
}
"""NOT_FOUND: squeue, sacct, scontrol and the log deny the job, for as long as `watch.missing_after`."""


def of_signals(matches: Iterable[log_signals.Match]) -> tuple[Report, ...]:
    """Reports of the signals that prove a mode, each kind once, in the order of their first line."""
    modes = {str(mode): mode for mode in Mode}
    seen: dict[Report, None] = {}
    for match in matches:
        state = match.signal.state
        if state is None or state.key not in modes:
            continue
        meta = match.signal.metadata
        error_type, subsystem = meta.get("error_type"), meta.get("subsystem")
        report = Report(
            modes[state.key],
            str(error_type) if error_type is not None else None,
            str(subsystem) if subsystem is not None else None,
            match.signal.name,
        )
        seen.setdefault(report)
    return tuple(seen)


def of_slurm_state(word: str) -> Report | None:
    """The report of a final state, `CANCELLED by 1000` and `NODE_FAIL+` included; None: the job goes on."""
    plain = word.split(" ", 1)[0].rstrip("+").upper()
    return _OF_STATE.get(plain)


def together(
    signals: Iterable[Report], scheduler: Report | None, verdict: tuple[Report, ...] = ()
) -> tuple[Report, ...]:
    """All reports of one failure.

    The scheduler's plain failure speaks only where nothing better is known; its success silences what lines
    of the log say (a teardown may be noisy), but not a verdict, which looked at more than lines. Signals
    come first, so that a reason names what the log shows.
    """
    succeeded = scheduler is not None and scheduler.mode is Mode.SUCCESS
    found = [*(() if succeeded else signals), *verdict]
    better = any(report.mode is Mode.CRASH and report.error_type for report in found)
    if scheduler is not None and not (scheduler.error_type == "slurm_failure" and better):
        found.append(scheduler)
    return tuple(dict.fromkeys(found))
