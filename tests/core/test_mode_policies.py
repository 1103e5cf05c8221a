"""Restart policies by mode: N restarts mean N, exclusion beats inclusion, one failure is one decision."""

from dataclasses import replace

import pytest

from runward.config import autoexp_files
from runward.core import failures, mode_policies, policy
from runward.core.mode_policies import Mode, Report

PRESETS = {name: autoexp_files.restart(name) for name in autoexp_files.presets("restart")}
NCCL = Report(Mode.CRASH, "nccl", "distributed", "nccl_error")
OOM = Report(Mode.CRASH, "oom", "cuda", "cuda_oom")


@pytest.mark.parametrize(
    ("preset", "report", "restarts"),
    [
        ("default", Report(Mode.STALL), 3),
        ("default", Report(Mode.CRASH), 2),
        ("default", Report(Mode.TIMEOUT), 0),
        ("default", Report(Mode.SUCCESS), 0),
        ("megatron_transient", NCCL, 3),
        ("megatron_transient", Report(Mode.CRASH, "cancelled", "slurm"), 3),
        ("megatron_transient", Report(Mode.STALL), 2),
        ("megatron_transient", Report(Mode.TIMEOUT, "timeout", "slurm"), 1),
        ("megatron_transient", OOM, 0),
        ("megatron_aggressive", Report(Mode.CRASH, "torch"), 5),
        ("megatron_aggressive", Report(Mode.CRASH, "exception"), 0),
        ("megatron_aggressive", Report(Mode.TIMEOUT), 2),
        ("megatron_conservative", NCCL, 0),
        ("megatron_conservative", Report(Mode.CRASH, "nccl_timeout"), 2),
        ("megatron_conservative", Report(Mode.STALL), 1),
        ("megatron_conservative", Report(Mode.TIMEOUT), 0),
    ],
)
def test_n_restarts_mean_n_for_every_mode(preset, report, restarts):
    made = 0
    while mode_policies.answer(PRESETS[preset], [report], {report.mode: made, Mode.SUCCESS: 50}).restart:
        made += 1
        assert made < 50
    assert made == restarts


def test_upstreams_counting_is_a_switch():
    shared = replace(PRESETS["megatron_transient"], counting=mode_policies.Counting.SUBMISSIONS)
    assert [mode_policies.answer(shared, [NCCL], {Mode.CRASH: n}).restart for n in range(4)] == [
        True,
        True,
        False,
        False,
    ]
    told = mode_policies.answer(shared, [NCCL], {Mode.STALL: 2})
    assert (told.restart, told.reason) == (False, "retry budget exhausted (attempt 3/3)")


@pytest.mark.parametrize(
    ("reports", "made", "restart", "reason"),
    [
        ([NCCL], 0, True, "Transient failure detected, restarting job (signal=nccl_error, error_type=nccl, subsystem=distributed)"),
        ([Report(Mode.CRASH, "hang", "cuda", "other")], 0, True, "Transient failure detected, restarting job (error_type=hang)"),
        ([OOM], 0, False, "Permanent failure detected, stopping job (excluded error_type: oom)"),
        ([NCCL], 3, False, "retry budget exhausted (attempt 3/3)"),
        ([OOM], 3, False, "retry budget exhausted (attempt 3/3)"),
        ([Report(Mode.CRASH)], 0, True, "Transient failure detected, restarting job"),
        ([Report(Mode.CRASH, "oom", "distributed", "nccl_error")], 0, False, "Permanent failure detected, stopping job (excluded error_type: oom)"),
        ([NCCL] * 20 + [OOM] + [NCCL] * 5, 0, False, "Permanent failure detected, stopping job (excluded error_type: oom)"),
        ([Report(Mode.SUCCESS), Report(Mode.STALL)], 0, False, "Job completed successfully"),
    ],
)  # fmt: skip
def test_budget_then_exclusion_then_inclusion_then_default(reports, made, restart, reason):
    told = mode_policies.answer(PRESETS["megatron_transient"], reports, {Mode.CRASH: made})
    assert (told.restart, told.reason) == (restart, reason)


def end(cause, action=None, n=1, **rest):
    verdict = failures.Verdict(cause, None, failures.Action.RESTART, failures.Certainty.LIKELY, "")
    return policy.Ended(n, verdict, action=action, **rest)


def decide(preset, *ends, situation=None, **circumstance):
    return mode_policies.decide(
        PRESETS[preset],
        policy.History(tuple(ends)),
        situation or policy.Situation(now=0, latest_usable=True),
        mode_policies.Circumstance(**circumstance),
    )


def test_a_decision_counts_restarts_of_its_own_mode_from_the_ledger():
    hang = end(failures.Cause.HANG, failures.Action.RESTART)
    nccl = end(failures.Cause.NCCL_ERROR)
    assert decide("megatron_transient", hang, hang, nccl).action is failures.Action.RESTART
    assert decide("megatron_transient", hang, hang, end(failures.Cause.HANG)).action is failures.Action.HOLD
    past = end(failures.Cause.NCCL_ERROR, failures.Action.RESTART)
    assert (
        decide("megatron_transient", past, past, past, nccl).reason == "retry budget exhausted (attempt 3/3)"
    )


def test_a_mode_without_policy_has_failed_and_success_is_no_failure():
    gone = decide("default", end(failures.Cause.TIME_LIMIT))
    assert (gone.action, gone.give_up, gone.reason) == (failures.Action.NONE, True, "No restart configured")
    done = decide("default", end(failures.Cause.NONE))
    assert (done.action, done.give_up) == (failures.Action.NONE, False)


@pytest.mark.parametrize(
    ("who", "respect", "action"),
    [
        ("user", False, failures.Action.RESTART),
        ("user", True, failures.Action.HOLD),
        ("admin", False, failures.Action.HOLD),
        ("runward", False, failures.Action.HOLD),
    ],
)
def test_a_cancelled_job_is_restarted_only_against_its_own_user_and_says_how_to_stop_that(
    who, respect, action
):
    decision = decide(
        "megatron_transient", end(failures.Cause.CANCELLED), cancelled_by=who, respect_scancel=respect
    )
    assert decision.action is action
    if action is failures.Action.RESTART:
        assert "watch.respect_scancel" in decision.reason


def test_a_live_attempt_is_not_ended_by_its_mode():
    live = policy.Situation(now=0, live=True)
    assert decide("default", end(failures.Cause.HANG), situation=live).action is failures.Action.HOLD


@pytest.mark.parametrize("cause", failures.Cause)
def test_every_cause_has_an_answer_in_every_preset(cause):
    for preset in PRESETS:
        assert decide(preset, end(cause)).reason


def test_causes_and_error_types_stand_beside_each_other():
    def words(cause, **more):
        verdict = end(cause).verdict
        return {r.error_type for r in mode_policies.reports_of(verdict, **more)}

    assert words(failures.Cause.GPU_OOM) == {"oom"}
    assert words(failures.Cause.HANG) == {"hang", "deadlock"}
    assert words(failures.Cause.NCCL_TIMEOUT) == {"nccl_timeout", "watchdog_timeout"}
    assert words(failures.Cause.UNKNOWN, scheduler_failed=True) == {"slurm_failure"}
    assert words(failures.Cause.UNKNOWN) == {None}
