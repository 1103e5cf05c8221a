"""View models: run state as the public JSON of `status` and `ps`. Pure; every renderer and every screen reads this."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runward import ports
from runward.core import durations, events, failures, recovery, run, scoring


@dataclass(frozen=True, slots=True)
class Look:
    """What is known of a run beside its journal at the time of looking."""

    now: float
    progress: Mapping[str, Any]
    """The newest sample as the watcher left it: `step`, `total`, `at`, `loss`, `eta_s`, `notes`."""
    watcher: ports.Holder | None
    """The live watcher; None when nobody watches."""
    boxes: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """What the machine was like when an attempt ended, by its number, where a record knows."""
    keeper_lives: bool | None = None
    """Whether the live attempt has its keeper; None where that cannot be seen."""
    later: scoring.Later | None = None
    """Where the work went on after this run had ended, if it did."""
    name: str | None = None
    """The run's name by now, where it may have given its first one to a newer run."""


def status(state: run.RunState, look: Look) -> dict[str, Any]:
    """The object of `runward status --json`."""
    step, total, at = _progress(state, look)
    account = recovery.account([_record(a, look) for a in state.attempts], _until(state, look))
    return {
        "schema_version": 1,
        "run": look.name or state.run,
        "state": str(state.state),
        "paused": state.paused,
        "why": state.ended.why if state.ended else _why(state),
        "exit_code": state.ended.code if state.ended else None,
        "contact": {
            "ok": state.contact_lost_at is None,
            "since": durations.iso(state.contact_lost_at if state.contact_lost_at is not None else at),
            "why": state.contact_why,
        },
        "backend": state.backend,
        "target": state.target or _target(state),
        "policy": state.policy,
        "observe_only": state.observe_only,
        "step": step,
        "total_steps": total,
        "progress_at": durations.iso(at),
        "progress": _extras(look.progress),
        "created_at": durations.iso(state.created_at),
        "ended_at": durations.iso(state.ended.at) if state.ended else None,
        "ettr": round(account.ettr, 4) if account.ettr is not None else None,
        "mean_time_to_recover_s": _mean_time_to_recover(state),
        "lost": account.to_json()["lost"],
        "watcher": _watcher(state, look),
        "attempts": [_attempt(a, look) for a in state.attempts],
        "checkpoints": _checkpoints(state),
        "ledger": _ledger(state, look),
    }


def _ledger(state: run.RunState, look: Look) -> dict[str, Any]:
    """What was decided, or would have been, and whether the next attempt proved it right."""
    body = scoring.to_json(scoring.entries(state, look.later))
    return {**body, "entries": [{**one, "at": durations.iso(one["at"])} for one in body["entries"]]}


def _record(attempt: run.Attempt, look: Look) -> recovery.AttemptRecord:
    verdict = run.verdict_of(attempt)
    last_step, last_at = attempt.last_step, attempt.last_step_at
    if attempt.live and look.progress.get("attempt") == attempt.n:
        last_step, last_at = look.progress.get("step"), look.progress.get("at")
    return recovery.AttemptRecord(
        started_at=attempt.started_at if attempt.started_at is not None else attempt.planned_at,
        ended_at=attempt.ended_at,
        resumed_step=attempt.resume_step or 0,
        first_step=attempt.first_step,
        first_step_at=attempt.first_step_at,
        last_step=last_step,
        last_step_at=last_at,
        checkpoints=attempt.checkpoints,
        cause=str(verdict.cause) if verdict is not None else None,
        finished=verdict is not None and verdict.cause is failures.Cause.NONE,
    )


def _mean_time_to_recover(state: run.RunState) -> float | None:
    """Mean seconds from an end to the proof that training moves again, over the restarts that came so far."""
    took = [a.recovered_after_s for a in state.attempts if a.recovered_after_s is not None]
    return round(sum(took) / len(took), 3) if took else None


def _until(state: run.RunState, look: Look) -> float:
    return state.ended.at if state.ended else look.now


def _why(state: run.RunState) -> str | None:
    if state.gate is not None and state.live is None:
        return state.gate
    decision = state.pending_decision
    if decision is not None:
        return decision.reason
    live = state.live
    if live is not None and live.ending is not None:
        return f"being ended: {live.ending.why}" + (f" ({live.ending.detail})" if live.ending.detail else "")
    if live is not None and live.stalled:
        return "stalled"
    return None


def _target(state: run.RunState) -> str:
    last = state.last
    if last is None or last.job_id is None:
        return ""
    return f"local:{last.job_id}" if state.backend == "process" else f"{state.backend}:{last.job_id}"


def _progress(state: run.RunState, look: Look) -> tuple[int | None, int | None, float | None]:
    """Newest step: the watcher's row for the attempt it belongs to, else what the journal says."""
    last = state.last
    row = look.progress
    if last is not None and row.get("attempt") == last.n and row.get("step") is not None:
        return row.get("step"), row.get("total"), row.get("at")
    for attempt in reversed(state.attempts):
        if attempt.last_step is not None or attempt.first_step is not None:
            newest = attempt.last_step if attempt.last_step is not None else attempt.first_step
            return newest, attempt.total, attempt.ended_at or attempt.started_at
    return None, None, None


def _extras(row: Mapping[str, Any]) -> dict[str, Any]:
    keys = (
        "loss",
        "grad_norm",
        "throughput",
        "gpu_memory",
        "rate_per_s",
        "eta_s",
        "unit",
        "phase",
        "notes",
        "blind",
        "engine",
    )
    return {key: row[key] for key in keys if row.get(key) is not None}


def _watcher(state: run.RunState, look: Look) -> dict[str, Any] | None:
    holder = look.watcher
    if holder is None:
        return None
    return {
        "pid": holder.pid,
        "host": holder.host,
        "since": durations.iso(holder.since),
        "lease": holder.number,
        "looked_at": durations.iso(_looked_at(state, look, holder)),
    }


def _looked_at(state: run.RunState, look: Look, holder: ports.Holder) -> float | None:
    """When the watcher last looked at the live attempt, or began if that is later; None where it left no sample yet."""
    looked_at = look.progress.get("looked_at")
    return max(looked_at, holder.since) if looked_at is not None and _of_live(state, look) else None


def _of_live(state: run.RunState, look: Look) -> bool:
    """Whether the newest sample is one of the attempt that lives."""
    return state.live is not None and look.progress.get("attempt") == state.live.n


def _attempt(attempt: run.Attempt, look: Look) -> dict[str, Any]:
    diagnosis = attempt.diagnosis or {}
    resumed = {"path": attempt.resume_path, "step": attempt.resume_step} if attempt.resume_path else None
    return {
        "n": attempt.n,
        "job": attempt.job_id,
        "keeper": _keeper(attempt, look),
        "started_at": durations.iso(attempt.started_at),
        "ended_at": durations.iso(attempt.ended_at),
        "exit": attempt.exit.to_json() if attempt.exit else None,
        "first_step": attempt.first_step,
        "last_step": attempt.last_step,
        "resumed_from": resumed,
        "resume_mismatch": attempt.mismatch,
        "verdict": diagnosis.get("verdict"),
        "evidence": diagnosis.get("evidence", []),
        "counter_evidence": diagnosis.get("counter_evidence", []),
        "echoes": diagnosis.get("echoes", []),
        "advice": diagnosis.get("advice", []),
        "notes": diagnosis.get("notes", []),
        "decision": _decision(attempt),
        "recovered_after_s": attempt.recovered_after_s,
        "left": list(attempt.left),
        "box": look.boxes.get(attempt.n),
    }


def _keeper(attempt: run.Attempt, look: Look) -> dict[str, Any] | None:
    if not attempt.keeper_pid:
        return None
    return {"pid": attempt.keeper_pid, "alive": look.keeper_lives if attempt.live else False}


def _decision(attempt: run.Attempt) -> dict[str, Any] | None:
    """What was decided about the attempt; `ended`: whether Runward ended it itself."""
    decision, ending = attempt.decision, attempt.ending
    if decision is None:
        if ending is None:
            return None
        return {
            "action": "none",
            "reason": _ended_why(ending),
            "at": durations.iso(ending.at),
            "ended": True,
            "votes": list(ending.votes),
            "ended_why": _ended_why(ending),
        }
    only_watched = decision.observed_only and decision.would is None
    return {
        "action": "none" if only_watched else decision.action,
        "reason": decision.reason,
        "at": durations.iso(decision.at),
        "ended": ending is not None,
        "rule": decision.rule,
        "delay_s": decision.delay_s,
        "counted": decision.counted,
        "would": (decision.would or decision.action) if decision.observed_only else None,
        "votes": list(ending.votes) if ending is not None else [],
        "ended_why": _ended_why(ending) if ending is not None else None,
    }


def _ended_why(ending: events.EndDecided) -> str:
    """Why Runward ended an attempt that lived."""
    if ending.why == "stop":
        return ending.detail or f"stopped by {ending.by}"
    return f"{ending.why}: {ending.detail}" if ending.detail else ending.why


def _checkpoints(state: run.RunState) -> dict[str, Any]:
    latest = state.latest_checkpoint
    return {
        "directory": state.checkpoints_dir,
        "latest_complete": {
            "path": latest.path,
            "step": latest.step,
            "at": durations.iso(latest.written_at or latest.at),
            "verified": latest.verified,
        }
        if latest
        else None,
        "quarantined": [
            {"path": mark.path, "why": mark.why, "how": mark.how, "at": durations.iso(mark.at)}
            for mark in state.quarantined.values()
        ],
    }


def row(state: run.RunState, look: Look) -> dict[str, Any]:
    """One line of `runward ps`."""
    step, total, at = _progress(state, look)
    last = state.last
    verdict = (last.diagnosis or {}).get("verdict", {}) if last is not None else {}
    return {
        "run": look.name or state.run,
        "state": str(state.state),
        "paused": state.paused,
        "live": state.live is not None,
        "backend": state.backend,
        "target": state.target or _target(state),
        "attempt": last.n if last is not None else None,
        "step": step,
        "total_steps": total,
        "progress_at": durations.iso(at),
        "rate_per_s": look.progress.get("rate_per_s") if _of_live(state, look) else None,
        "cause": verdict.get("cause"),
        "why": state.ended.why if state.ended else _why(state),
        "watcher": _watcher(state, look),
        "contact": state.contact_lost_at is None,
        "created_at": durations.iso(state.created_at),
    }


_INSTANTS = frozenset({"at", "written_at", "last_step_at", "since"})


def event(body: Mapping[str, Any]) -> dict[str, Any]:
    """One line of `runward events --json`: a line of the journal, its instants as everywhere else."""
    return {
        "schema_version": 1,
        **{
            key: durations.iso(value) if key in _INSTANTS and isinstance(value, int | float) else value
            for key, value in body.items()
        },
    }
