"""What monitors of this kind get wrong, each with the answer that is wanted."""

import asyncio
import json
import logging
import os
import sys

import pytest

from compat.conftest import Desk, always, never, selective
from runward import ports
from runward.compat.autoexp import (
    actions,
    host,
    manage_monitoring,
    monitor_autoexp,
    records,
    restart_policies,
    slurm_client,
    state_store,
    states,
    watcher,
)
from runward.config import autoexp_files
from runward.core import errors, mode_policies

CRASH = states.CrashStateConfig()
NCCL = watcher.LogSignalConfig(
    name="nccl_error", pattern="NCCL ERROR", state=CRASH, metadata={"error_type": "nccl"}
)
OOM = watcher.LogSignalConfig(
    name="cuda_oom", pattern="out of memory", state=CRASH, metadata={"error_type": "oom"}
)


def ids(made) -> list[str]:
    return [job.job_id for job in made.jobs()]


def transient() -> dict:
    return restart_policies.of(autoexp_files.restart("megatron_transient"))


# -- one failure, one decision -------------------------------------------------------------------------------


def test_twenty_ranks_that_report_one_failure_make_one_restart(desk: Desk):
    made = desk.controller(desk.monitor(NCCL), {"crash": always(3)})
    desk.job(made, log="rank: NCCL ERROR timeout\n" * 20)
    made.observe_once_sync()
    assert len(desk.slurm.squeue()) == 2
    assert [job.attempts for job in made.jobs()] == [2]


@pytest.mark.parametrize("text", ["out of memory\nNCCL ERROR\n", "NCCL ERROR\nout of memory\n"])
def test_an_excluded_failure_among_transient_ones_stops_and_nothing_is_submitted(desk: Desk, text):
    policy = selective(default_action="restart", exclude_error_types=["oom"], restart_on_error_types=["nccl"])
    made = desk.controller(desk.monitor(NCCL, OOM), {"crash": policy})
    job_id = desk.job(made, log=text)
    desk.slurm.set_state(job_id, "RUNNING")
    result = made.observe_once_sync()
    assert result.decisions[job_id].action == "stop"
    assert "excluded error_type: oom" in result.decisions[job_id].reason
    desk.write("NCCL ERROR of the teardown\n")
    assert made.observe_once_sync().decisions == {}
    assert list(desk.slurm.squeue()) == [job_id]


def test_a_stopped_job_that_lives_is_neither_cancelled_nor_lost_from_sight(desk: Desk, caplog):
    caplog.set_level(logging.INFO)
    made = desk.controller(desk.monitor(OOM), {"crash": never()})
    job_id = desk.job(made, log="out of memory\n")
    desk.slurm.set_state(job_id, "RUNNING")
    made.observe_once_sync()
    assert ids(made) == []
    assert [job.job_id for job in made.stopped()] == [job_id]
    assert f"still RUNNING: scancel {job_id} ends it" in caplog.text
    assert desk.slurm.squeue() == {job_id: "RUNNING"}
    desk.slurm.set_state(job_id, "FAILED")
    made.observe_once_sync()
    assert list(made.stopped()) == []
    assert f"[job {job_id}] the stopped job is over: FAILED" in caplog.text


# -- budgets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "most"), [("crash", 3), ("stall", 2), ("timeout", 1)])
def test_n_restarts_of_a_mode_mean_n_whatever_the_others_used(desk: Desk, mode, most):
    made = desk.controller(watcher.NullMonitor(), transient())
    desk.job(made)
    for other in {"crash", "stall", "timeout"} - {mode}:
        made.handle_state_change(ids(made)[0], other)
    said = []
    while ids(made):
        said.append(made.handle_state_change(ids(made)[0], mode).action)
    assert said == ["restart"] * most + ["stop"]


def test_upstreams_counting_can_be_had(desk: Desk):
    policies = {"crash": always(3), "stall": always(3)}
    made = desk.controller(watcher.NullMonitor(), policies, counting=mode_policies.Counting.SUBMISSIONS)
    desk.job(made)
    said = [made.handle_state_change(ids(made)[0], mode).action for mode in ("crash", "stall", "crash")]
    assert said == ["restart", "restart", "stop"]


def test_without_any_policy_a_failed_job_is_finished_and_not_warned_about_for_ever(desk: Desk, caplog):
    made = desk.controller(desk.monitor(), {})
    job_id = desk.job(made)
    desk.slurm.set_state(job_id, "FAILED")
    assert made.observe_once_sync().decisions[job_id].reason == "No restart configured"
    assert ids(made) == []
    assert f"[job {job_id}] no policy configured for mode 'crash'" in caplog.text


# -- Slurm's states ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "mode"),
    [
        ("NODE_FAIL", "crash"),
        ("OUT_OF_MEMORY", "crash"),
        ("PREEMPTED", "crash"),
        ("BOOT_FAIL", "crash"),
        ("DEADLINE", "timeout"),
        ("TIMEOUT", "timeout"),
        ("CANCELLED by 1000", "crash"),
        ("REVOKED", "crash"),
        ("COMPLETING", None),
        ("SUSPENDED", None),
        ("REQUEUED", None),
        ("A_WORD_OF_LATER", None),
    ],
)
def test_every_final_state_ends_a_job_and_no_other_does(desk: Desk, word, mode):
    made = desk.controller(desk.monitor(), {"success": never()})
    job_id = desk.job(made)
    desk.slurm.set_state(job_id, word)
    result = made.observe_once_sync()
    assert [one.state for one in result.events if one.event == "run_ended"] == ([mode] if mode else [])
    assert ids(made) == ([] if mode else [job_id])


def test_a_query_that_fails_changes_nothing(desk: Desk, monkeypatch, caplog):
    made = desk.controller(desk.monitor(), {"timeout": always()})
    job_id = desk.job(made)

    def down(*_):
        raise ports.ContactLost("Unable to contact slurm controller")

    monkeypatch.setattr(desk.slurm, "squeue", down)
    for _ in range(5):
        result = made.observe_once_sync()
    assert (result.decisions, result.events, ids(made)) == ({}, [], [job_id])
    assert "states are not known" in caplog.text


def test_a_job_that_slurm_denies_is_believed_gone_after_its_time(desk: Desk):
    made = desk.controller(desk.monitor(), {"timeout": never("Job timeout")})
    job_id = desk.job(made)
    desk.slurm.missing_after_seconds = 600.0
    desk.slurm.remove(job_id)
    made.observe_once_sync()
    desk.clock.advance(500)
    assert made.observe_once_sync().decisions == {}
    desk.clock.advance(101)
    result = made.observe_once_sync()
    assert result.decisions[job_id].reason == "Job timeout"
    assert [one.metadata["reason"] for one in result.events] == ["job_not_in_queue"]


# -- stalls --------------------------------------------------------------------------------------------------


def test_a_job_that_finished_while_its_log_was_silent_has_not_stalled(desk: Desk):
    monitor = desk.monitor(inactivity_threshold_seconds=60)
    made = desk.controller(monitor, {"stall": always(), "success": never()})
    job_id = desk.job(made, log="step 1\n")
    desk.slurm.set_state(job_id, "RUNNING")
    made.observe_once_sync()
    desk.clock.advance(600)
    desk.slurm.set_state(job_id, "COMPLETED")
    assert made.observe_once_sync().decisions[job_id].action == "stop"
    assert list(desk.slurm.squeue()) == [job_id]


def test_a_job_that_waits_beside_an_old_log_does_not_stall(desk: Desk):
    made = desk.controller(desk.monitor(inactivity_threshold_seconds=60), {"stall": always()})
    job_id = desk.job(made, log="an earlier job wrote this\n")
    for _ in range(5):
        assert made.observe_once_sync().decisions == {}
        desk.clock.advance(600)
    assert ids(made) == [job_id]


def test_a_job_that_runs_and_never_writes_a_log_stalls(desk: Desk):
    made = desk.controller(desk.monitor(inactivity_threshold_seconds=60), {"stall": always()})
    job_id = desk.job(made)
    desk.slurm.set_state(job_id, "RUNNING")
    made.observe_once_sync()
    desk.clock.advance(61)
    assert made.observe_once_sync().decisions[job_id].action == "restart"


# -- logs ----------------------------------------------------------------------------------------------------


def test_an_old_error_in_a_fixed_log_is_no_error_of_the_next_attempt(desk: Desk):
    made = desk.controller(desk.monitor(NCCL), {"crash": always(5)})
    desk.job(made, log="NCCL ERROR\n")
    made.observe_once_sync()
    desk.write("NCCL ERROR of a rank of the first attempt that died late\n")
    for _ in range(3):
        assert made.observe_once_sync().decisions == {}
    (second,) = ids(made)
    desk.slurm.set_state(second, "RUNNING")
    desk.write("step 1\n")
    assert made.observe_once_sync().decisions == {}
    desk.write("NCCL ERROR\n")
    assert made.observe_once_sync().decisions[second].action == "restart"


def test_a_log_that_the_next_attempt_truncates_is_read_from_its_beginning(desk: Desk):
    made = desk.controller(desk.monitor(NCCL), {"crash": always(5)})
    desk.job(made, log="banner\nNCCL ERROR\n")
    made.observe_once_sync()
    (second,) = ids(made)
    desk.log.write_text("banner\nNCCL ERROR at once, and then many more words than before\n")
    desk.slurm.set_state(second, "RUNNING")
    assert made.observe_once_sync().decisions[second].action == "restart"


def test_a_line_in_two_pieces_is_one_line_and_the_last_one_needs_no_end(desk: Desk):
    made = desk.controller(desk.monitor(NCCL), {"crash": always()})
    job_id = desk.job(made, log="NCCL ER")
    desk.slurm.set_state(job_id, "RUNNING")
    assert made.observe_once_sync().decisions == {}
    desk.write("ROR timeout")
    assert made.observe_once_sync().decisions == {}
    desk.slurm.set_state(job_id, "FAILED")
    assert [one.event for one in made.observe_once_sync().events] == ["run_ended", "nccl_error"]


def test_lines_that_stand_again_in_a_rewritten_log_are_not_new(desk: Desk):
    note = watcher.LogSignalConfig(
        name="note", pattern="WARN", actions=[actions.ErrorNoteActionConfig(note="w")]
    )
    made = desk.controller(desk.monitor(note), {})
    job_id = desk.job(made, log="long ago\n" * 50 + "WARN one\nWARN two\n")
    desk.slurm.set_state(job_id, "RUNNING")
    assert len(made.observe_once_sync().events) == 3
    desk.log.write_text("WARN two\nWARN three\n")
    desk.clock.advance(5)
    assert len(made.observe_once_sync().events) == 1


@pytest.mark.parametrize(
    ("state", "listed", "read"),
    [
        ("PENDING", ["running"], False),
        ("RUNNING", ["Running"], True),
        ("RUNNING", ["pending"], False),
        ("FAILED", ["running"], True),
        ("RUNNING", [], True),
    ],
)
def test_a_log_is_read_only_in_the_states_of_the_whitelist(desk: Desk, state, listed, read):
    note = watcher.LogSignalConfig(name="note", pattern="WARN", actions=[actions.ErrorNoteActionConfig()])
    made = desk.controller(desk.monitor(note, state_whitelist=listed), {"crash": never()})
    job_id = desk.job(made, log="WARN\n")
    desk.slurm.set_state(job_id, state)
    events = [one.event for one in made.observe_once_sync().events]
    assert ("note" in events) is read


# -- commands ------------------------------------------------------------------------------------------------


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def until(made, desk: Desk, what, looks: int = 40) -> None:
    for _ in range(looks):
        if what():
            return
        desk.clock.advance(5)
        made.observe_once_sync()
    pytest.fail("did not come")


def test_a_start_condition_holds_up_its_own_job_alone(desk: Desk):
    gate = desk.folder / "open"
    made = desk.controller(desk.monitor(), {"crash": always(), "success": never()})
    code = f"import os; print(int(os.path.exists({str(gate)!r})))"
    waits = desk.job(made, start_condition_cmd=python(code), start_condition_interval_seconds=1)
    other = desk.job(made)
    desk.slurm.set_state(waits, "FAILED")
    assert made.observe_once_sync().decisions[waits].action == "restart"
    assert ids(made) == [waits, other]
    desk.slurm.set_state(other, "COMPLETED")
    until(made, desk, lambda: other not in ids(made))
    assert ids(made) == [waits], "still waiting, and the other was seen to end"
    gate.touch()
    until(made, desk, lambda: ids(made) != [waits])
    assert [job.attempts for job in made.jobs()] == [2]


@pytest.mark.parametrize("name", ["start_condition_cmd", "termination_command"])
def test_a_command_for_a_shell_is_refused_when_it_is_given(desk: Desk, name):
    made = desk.controller(desk.monitor(), {"crash": always()})
    with pytest.raises(errors.UsageError, match=r"demo: .*';'.*bash"):
        desk.job(made, **{name: "true; touch x"})
    with pytest.raises(errors.UsageError, match="no shell"):
        desk.monitor(**{name: "a | b"})


@pytest.mark.parametrize(
    ("code", "done"), [("print(1)", True), ("", True), ("raise SystemExit(1)", False), ("print(0)", False)]
)
def test_a_termination_command_says_yes_by_one_or_by_exit_0(desk: Desk, code, done):
    made = desk.controller(desk.monitor(), {"success": never()})
    job_id = desk.job(made, log="x\n", termination_command=python(code))
    desk.slurm.set_state(job_id, "RUNNING")
    made.observe_once_sync()
    if done:
        until(made, desk, lambda: not ids(made))
        return
    for _ in range(3):
        desk.clock.advance(5)
        made.observe_once_sync()
    assert ids(made) == [job_id]


def test_a_line_with_the_termination_string_is_success_whatever_comes_after(desk: Desk, caplog):
    caplog.set_level(logging.INFO)
    made = desk.controller(desk.monitor(NCCL), {"crash": always(), "success": never()})
    job_id = desk.job(
        made, log="[after training is done]\nNCCL ERROR\n", termination_string="training is done"
    )
    desk.slurm.set_state(job_id, "FAILED")
    result = made.observe_once_sync()
    assert [(one.event, one.state) for one in result.events][-1] == ("termination", "success")
    assert result.decisions[job_id].action == "stop"
    assert "job completed successfully, finalizing" in caplog.text


# -- restarts that cannot be made now ------------------------------------------------------------------------


def test_a_submit_that_fails_is_tried_again_and_the_job_is_not_lost(desk: Desk, monkeypatch, caplog):
    made = desk.controller(desk.monitor(), {"crash": always()})
    job_id = desk.job(made)
    desk.slurm.set_state(job_id, "FAILED")
    real = desk.slurm.submit

    def refused(*_):
        raise slurm_client.SubmitFailed("QOSMaxSubmitJobPerUserLimit")

    monkeypatch.setattr(desk.slurm, "submit", refused)
    assert made.observe_once_sync().decisions[job_id].action == "restart"
    assert ids(made) == [job_id]
    assert "restart not made yet: QOSMaxSubmitJobPerUserLimit" in caplog.text
    monkeypatch.setattr(desk.slurm, "submit", real)
    made.observe_once_sync()
    assert [(job.attempts, job.restarts) for job in made.jobs()] == [(2, {"crash": 1})]


def test_nothing_is_submitted_beside_a_job_that_is_still_ending(desk: Desk, monkeypatch):
    made = desk.controller(desk.monitor(NCCL), {"crash": always()})
    job_id = desk.job(made, log="NCCL ERROR\n")
    desk.slurm.set_state(job_id, "RUNNING")
    asked = []
    monkeypatch.setattr(desk.slurm, "cancel", asked.append)
    for _ in range(3):
        made.observe_once_sync()
    assert (ids(made), asked) == ([job_id], [job_id])
    desk.slurm.set_state(job_id, "CANCELLED")
    made.observe_once_sync()
    assert [job.attempts for job in made.jobs()] == [2]


def test_restarts_of_a_job_keep_their_distance(desk: Desk):
    made = desk.controller(desk.monitor(), {"crash": always(5)}, cooldown_seconds=60)
    first = desk.job(made)
    desk.slurm.set_state(first, "FAILED")
    made.observe_once_sync()
    (second,) = ids(made)
    desk.slurm.set_state(second, "FAILED")
    made.observe_once_sync()
    assert ids(made) == [second]
    desk.clock.advance(61)
    made.observe_once_sync()
    assert [job.attempts for job in made.jobs()] == [3]


# -- files ---------------------------------------------------------------------------------------------------


def test_actions_of_one_second_do_not_overwrite_one_another(tmp_path, monkeypatch):
    monkeypatch.setattr(host.time, "time", lambda: 1_900_000_000.5)
    record = records.MonitorRecord("1", "demo", "note", None, "ErrorNoteAction")
    for _ in range(3):
        host.write_action(record, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"1900000000_{i}_ErrorNoteAction.json" for i in range(3)
    ]


def test_a_session_survives_its_monitor(desk: Desk):
    made = desk.controller(desk.monitor(NCCL), {"crash": always()}, desk.store())
    job_id = desk.job(made, log="step 1\nNCCL ER", termination_string="done")
    desk.slurm.set_state(job_id, "RUNNING")
    made.observe_once_sync()
    made.handle_state_change(job_id, "crash")
    (second,) = ids(made)
    desk.slurm.set_state(second, "RUNNING")
    desk.write("ROR in the log of the first\nstep 2\n")
    made.observe_once_sync()
    desk.write("NCCL ER")
    made.observe_once_sync()

    desk.slurm = slurm_client.FakeSlurmClient()
    again = desk.controller(desk.monitor(NCCL), {"crash": always()}, desk.store())
    assert [job.name for job in again.restore()] == ["demo"]
    assert desk.slurm.squeue() == {second: "PENDING"}, "the client knows it again"
    desk.slurm.set_state(second, "RUNNING")
    result = again.observe_once_sync()
    assert (result.events, result.decisions) == ([], {}), "nothing old comes again"
    desk.write("ROR now\n")
    assert again.observe_once_sync().decisions[second].action == "restart"
    (job,) = again.jobs()
    assert (job.attempts, job.restarts, job.registration.termination_string) == (3, {"crash": 2}, "done")


def test_a_restart_that_was_due_is_made_by_the_next_monitor(desk: Desk):
    made = desk.controller(desk.monitor(), {"crash": always()}, desk.store(), cooldown_seconds=60)
    first = desk.job(made)
    desk.slurm.set_state(first, "FAILED")
    made.observe_once_sync()
    (second,) = ids(made)
    desk.slurm.set_state(second, "FAILED")
    made.observe_once_sync()
    again = desk.controller(desk.monitor(), {"crash": always()}, desk.store(), cooldown_seconds=60)
    again.restore()
    again.observe_once_sync()
    assert ids(again) == [second], "the distance is kept too"
    desk.clock.advance(61)
    again.observe_once_sync()
    assert [(job.attempts, job.restarts) for job in again.jobs()] == [(3, {"crash": 2})]


def test_another_session_sees_none_of_the_first_ones_jobs(desk: Desk):
    desk.job(desk.controller(desk.monitor(), {}, desk.store("s1")))
    assert desk.store("s2").load() == {}
    assert len(desk.store("s1").load()) == 1
    mirror = json.loads((desk.folder / "state" / "monitor" / "state.json").read_text())
    assert (mirror["session_id"], len(mirror["jobs"])) == ("s1", 1)


def test_a_session_is_written_only_when_it_changed_and_stays_when_its_jobs_are_over(desk: Desk, monkeypatch):
    store = desk.store()
    made = desk.controller(desk.monitor(), {"success": never()}, store)
    job_id = desk.job(made, log="x\n")
    made.observe_once_sync()
    before = os.stat(store.session_path).st_ino
    for _ in range(5):
        made.observe_once_sync()
    assert os.stat(store.session_path).st_ino == before
    desk.slurm.set_state(job_id, "COMPLETED")
    asyncio.run(host._monitor_loop(made, made._monitor, desk.folder / "actions", store))
    assert json.loads(store.session_path.read_text())["jobs"] == []


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden"])
def test_a_session_id_is_no_path(tmp_path, name):
    with pytest.raises(ValueError, match="no session id"):
        state_store.MonitorStateStore(tmp_path, name)


# -- command lines -------------------------------------------------------------------------------------------


@pytest.fixture
def manifest(desk: Desk):
    body = {
        "plan_id": "plan1234",
        "project_name": "demo",
        "monitoring_state_dir": str(desk.folder / "state"),
        "action_queue_dir": str(desk.folder / "actions"),
        "monitor": {
            "module": "os",
            "class_name": "SlurmLogMonitor",
            "config": {
                "check_interval_seconds": 1,
                "log_signals": [
                    {
                        "name": "saved",
                        "pattern": "saved (?P<n>\\d+)",
                        "actions": [{"class_name": "ErrorNoteAction", "note": "checkpoint"}],
                        "extract_groups": {"n": "n"},
                    }
                ],
            },
        },
        "config": {
            "restart": {
                "policies": [{"mode": "success", "implementation": {"class_name": "NoRestartPolicy"}}]
            }
        },
    }
    path = desk.folder / "manifest.json"
    path.write_text(json.dumps(body))
    return path


def test_the_monitor_goes_on_with_a_session_and_leaves_its_files(desk: Desk, manifest, capsys, monkeypatch):
    made = desk.controller(desk.monitor(), {}, desk.store("plan1234"))
    job_id = desk.job(made, log="saved 5\n")
    real = slurm_client.FakeSlurmClient.register_job

    def completed(self, job_id, name, *paths):
        real(self, job_id, name, *paths, state="COMPLETED")

    monkeypatch.setattr(slurm_client.FakeSlurmClient, "register_job", completed)
    assert monitor_autoexp.main(["--manifest", str(manifest), "--use-fake-slurm"]) == 0
    out = capsys.readouterr().out
    assert "Restored 1 job(s): demo\nMonitoring session: plan1234\n" in out
    written = [json.loads(path.read_text()) for path in sorted((desk.folder / "actions").iterdir())]
    assert {one["action"] for one in written} == {"ErrorNoteAction", "run_ended"}
    assert {one["job_id"] for one in written} == {job_id}
    assert monitor_autoexp.main(["--manifest", str(manifest), "--use-fake-slurm"]) == 0
    assert "No jobs registered in monitoring session; nothing to monitor." in capsys.readouterr().out


def test_a_manifest_with_mistakes_is_refused_with_all_of_them(desk: Desk, manifest, capsys):
    body = json.loads(manifest.read_text())
    body["monitor"]["config"]["log_signals"][0]["pattern"] = "("
    body["monitor"]["config"]["check_interval_second"] = 1
    body["config"]["restart"]["policies"][0]["mode"] = "crsh"
    manifest.write_text(json.dumps(body))
    assert monitor_autoexp.main(["--manifest", str(manifest), "--use-fake-slurm"]) == 2
    err = capsys.readouterr().err
    for text in ("is no regular expression", "check_interval_second", "'crsh' is none of"):
        assert text in err


def test_sessions_are_listed_shown_dumped_and_removed(desk: Desk, capsys):
    store = state_store.MonitorStateStore(desk.folder / "state", "abc", project_name="p", config={"a": [1]})
    desk.job(desk.controller(desk.monitor(), {}, store))
    words = ["--monitoring-state-dir", str(desk.folder / "state")]
    assert manage_monitoring.main([*words, "list"]) == 0
    assert "abc" in (out := capsys.readouterr().out)
    assert "1 job(s)" in out
    assert manage_monitoring.main([*words, "show", "abc"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert set(shown) >= {"session_id", "project_name", "created_at", "config", "timestamp", "manifest_path"}
    assert {"job_id", "name", "script_path", "log_path", "attempts", "metadata", "output_paths"} <= set(
        shown["jobs"][0]
    )
    target = desk.folder / "config.yaml"
    assert manage_monitoring.main([*words, "dump-config", "abc", "--output", str(target)]) == 0
    assert target.read_text() == "a:\n- 1\n"
    assert manage_monitoring.main([*words, "show", "abd"]) == 1
    assert manage_monitoring.main([*words, "remove", "abc"]) == 1
    assert "give --force" in capsys.readouterr().err
    assert manage_monitoring.main([*words, "remove", "abc", "--force"]) == 0
    assert manage_monitoring.main([*words, "show", "abc"]) == 1


def test_a_mistake_of_a_manifest_names_its_file_and_key_and_no_line_that_it_does_not_have(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"config": {"monitoring": {"log_signals": [{"name": "a", "pattern": "("}]}}}))
    with pytest.raises(errors.UsageError) as caught:
        host.build_host_runtime(path)
    assert f"{path}: monitoring.log_signals.a.pattern: " in str(caught.value)
