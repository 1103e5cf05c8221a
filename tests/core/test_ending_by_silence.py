"""What follows when Runward itself ended a silent attempt, or the job had said that it is done."""

import pytest

from runward.core import (
    binding,
    ending,
    events,
    failures,
    job,
    log_signals,
    mode_policies,
    mode_reports,
    observations,
    run,
)

POLICIES = mode_policies.ModePolicies(
    "mine",
    {
        mode_policies.Mode.STALL: mode_policies.Always("stalled", 2),
        mode_policies.Mode.CRASH: mode_policies.Never("no crash is restarted"),
    },
)
NOW = binding.Now(100.0, 100.0)
SCHEDULER = mode_policies.Report(mode_policies.Mode.CRASH, "cancelled", "slurm")


def ended(why: str | None) -> run.RunState:
    said = {"exit": {"code": None, "signum": 15}, "first_step": None, "last_step": None, "total": None}
    verdict = {"cause": "hang", "action": "restart"}
    history = [
        events.RunCreated(at=0, run="demo", backend="slurm", policy="mine"),
        events.AttemptPlanned(at=0, attempt=1, token="t"),
        events.AttemptStarted(at=0, attempt=1, job="7"),
        *([events.EndDecided(at=1, attempt=1, why=why, by="runward", signum=15, grace_s=1)] if why else []),
        events.AttemptEnded(at=2, attempt=1, diagnosis={"verdict": verdict}, **said),
    ]
    return run.fold(history)


def after(state: run.RunState, **circumstance) -> tuple[str, str]:
    told = mode_policies.Circumstance(reports=(SCHEDULER,), cancelled_by="user", **circumstance)
    diagnosis = failures.Diagnosis(run.verdict_of(state.attempts[-1]))
    gone = observations.Gone(job.ExitStatus(None, 15), diagnosis, circumstance=told)
    new, _ = ending.after_end(state, gone, NOW, binding.Bound(POLICIES))
    last = new[-1]
    return getattr(last, "action", None) or last.state, getattr(last, "reason", None) or last.why


def test_an_end_by_us_for_silence_is_a_stall_and_nobodys_cancel():
    action, reason = after(ended("stall"))
    assert action == "restart"
    assert reason.startswith("stalled (attempt 1)")


def test_a_cancel_by_its_user_is_still_a_crash():
    assert after(ended(None)) == ("held", "no crash is restarted")


def test_what_a_signal_proved_speaks_before_the_silence():
    signal = log_signals.LogSignal("oom", "x", state=log_signals.State("CrashState", "crash"))
    (report,) = mode_reports.of_signals([log_signals.Match(signal, {}, 1, "x")])
    state = ended("stall")
    told = mode_policies.Circumstance(reports=(report, SCHEDULER))
    diagnosis = failures.Diagnosis(run.verdict_of(state.attempts[-1]))
    gone = observations.Gone(job.ExitStatus(None, 15), diagnosis, circumstance=told)
    new, _ = ending.after_end(state, gone, NOW, binding.Bound(POLICIES))
    assert new[-1].why == "no crash is restarted"


@pytest.mark.parametrize("why", [None, "stall"])
def test_a_job_that_had_said_that_it_is_done_has_succeeded(why):
    assert after(ended(why), finished="'ALL DONE' in log") == ("succeeded", "it was done: 'ALL DONE' in log")


def test_a_persons_restart_is_not_taken_for_success():
    action, _ = after(ended("restart"), finished="'ALL DONE' in log")
    assert action == "restart"
