"""The interface of Hydra users' monitors: what scripts around it rely on."""

import asyncio
import json
import logging
import subprocess
import sys
from types import SimpleNamespace

import pytest

from compat.conftest import Desk, always, never, selective
from runward.compat.autoexp import actions, aliases, host, schema, slurm_client, states, validator, watcher
from runward.compat.autoexp import controller as controllers


def signal(name: str, pattern: str, **keys) -> watcher.LogSignalConfig:
    return watcher.LogSignalConfig(name=name, pattern=pattern, **keys)


# -- restarts ------------------------------------------------------------------------------------------------


def test_a_stall_restarts_under_a_new_id_and_a_mode_without_policy_stops(desk: Desk):
    made = desk.controller(watcher.NullMonitor(), {"stall": always(), "success": never()})
    first = desk.job(made)
    assert made.handle_state_change(first, "stall").action == "restart"
    (job,) = made.jobs()
    assert (job.attempts, job.job_id != first) == (2, True)
    assert desk.slurm.get_job(first).state == "CANCELLED"
    assert made.handle_state_change(job.job_id, "missing-mode").action == "stop"


def test_a_stop_takes_the_job_out_of_the_list(desk: Desk):
    made = desk.controller(watcher.NullMonitor(), {}, desk.store())
    job_id = desk.job(made)
    assert made.handle_state_change(job_id, "crash").action == "stop"
    assert list(made.jobs()) == []
    assert desk.slurm.get_job(job_id).state == "PENDING", "a stop ends nothing"


def test_silence_beyond_the_threshold_is_a_stall(desk: Desk):
    desk.log.write_text("initial\n")
    monitor = desk.monitor(inactivity_threshold_seconds=1)
    job = watcher.MonitoredJob(job_id=1, name="demo", log_path=desk.log, check_interval_seconds=1)
    assert asyncio.run(monitor.watch([job]))[1].status == "active"
    desk.clock.advance(1.1)
    outcome = asyncio.run(monitor.watch([job]))[1]
    assert (outcome.status, round(outcome.last_update_seconds, 1)) == ("stall", 1.1)


def test_a_stall_seen_by_two_looks_restarts_once(desk: Desk):
    made = desk.controller(desk.monitor(inactivity_threshold_seconds=0), {"stall": always()})
    desk.job(made, log="start\n")

    async def look():
        await made.observe_once()
        return await made.observe_once()

    result = asyncio.run(look())
    assert [one.action for one in result.decisions.values()] == ["restart"]
    assert [job.attempts for job in made.jobs()] == [2]


def test_a_cancelled_job_is_restarted_by_a_policy_that_names_it(desk: Desk, caplog):
    caplog.set_level(logging.INFO, "oellm_autoexp.monitor.controller")
    policy = selective(
        default_action="restart", restart_on_error_types=["cancelled"], exclude_error_types=["oom"]
    )
    made = desk.controller(desk.monitor(), {"crash": policy, "success": never()})
    first = desk.job(made, log="running\n")
    desk.slurm.set_state(first, "RUNNING")
    assert [one.action for one in made.observe_once_sync().events] == ["run_started"]
    desk.slurm.set_state(first, "CANCELLED")
    result = made.observe_once_sync()
    assert result.decisions[first].action == "restart"
    (ended,) = result.events
    assert (ended.action, ended.state) == ("run_ended", "crash")
    assert {"error_type": "cancelled", "subsystem": "slurm"}.items() <= ended.metadata.items()
    (job,) = made.jobs()
    assert (job.attempts, job.job_id != first) == (2, True)
    said = [record.message for record in caplog.records]
    for line in (
        f"[job {first}] registered for monitoring: name=demo, log_path={desk.log}, attempts=1",
        f"[job {first}] SLURM state transition: NONE -> RUNNING",
        f"[job {first}] SLURM state transition: RUNNING -> CANCELLED",
        f"[job {first}] classified as mode 'crash' (monitor_status=active, slurm_state=CANCELLED)",
        (
            f"[job {first}] policy decision for mode 'crash': action=restart, "
            "reason=Transient failure detected, restarting (error_type=cancelled), attempt=1"
        ),
        f"[job {first}] restarting job (attempt 1 -> 2)",
        f"[job {first}] restarting as regular single job",
        f"[job {first}] restarted as job {job.job_id}",
    ):
        assert line in said


def test_an_element_of_an_array_is_submitted_alone(desk: Desk):
    made = desk.controller(watcher.NullMonitor(), {"crash": always()})
    ids = desk.slurm.submit_array("sweep", desk.script, [desk.log] * 3, ["a", "b", "c"])
    assert [desk.slurm.get_job(one).name for one in ids] == ["a", "b", "c"]
    given = controllers.JobRegistration(
        name="c", script_path=desk.script, log_path=desk.folder / "o-%A_%a.out"
    )
    made.register_job(ids[2], given)
    made.handle_state_change(ids[2], "crash")
    (job,) = made.jobs()
    assert job.job_id.endswith("_2")
    assert job.log_path == str(desk.folder / f"o-{job.job_id}.out")


# -- signals -------------------------------------------------------------------------------------------------


def test_a_monitor_without_signals_has_the_built_in_ones():
    monitor = watcher.SlurmLogMonitor(watcher.SlurmLogMonitorConfig())
    names = [one.name for one in monitor.config.log_signals]
    assert names == ["error", "checkpoint", "training_complete"]
    first = watcher.default_log_signals()[0]
    assert isinstance(first.state, states.CrashState)
    assert (first.state.class_name, first.state.key) == ("CrashState", "crash")


def test_a_signal_is_recorded_once_with_its_note_and_fields(desk: Desk):
    one = signal(
        "checkpoint",
        r"Checkpoint saved: (?P<path>.+)",
        actions=[actions.ErrorNoteActionConfig(note="new_checkpoint")],
        metadata={"kind": "checkpoint"},
        extract_groups={"checkpoint_path": "path"},
    )
    made = desk.controller(desk.monitor(one), {"success": never()})
    job_id = desk.job(made, log="Checkpoint saved: /ckpt/path\n")
    result = made.observe_once_sync()
    assert result.decisions == {}
    (record,) = result.events
    assert (record.action, record.event, record.state) == ("ErrorNoteAction", "checkpoint", None)
    assert record.payload == {"type": "ErrorNoteAction", "note": "new_checkpoint"}
    assert record.metadata == {
        "kind": "checkpoint",
        "checkpoint_path": "/ckpt/path",
        "job_name": "demo",
        "source": "log",
        "source_path": str(desk.log),
        "event_name": "checkpoint",
        "signal_name": "checkpoint",
    }
    assert (record.job_id, record.job_name) == (job_id, "demo")
    assert made.observe_once_sync().events == []


def test_a_text_that_proves_a_crash_restarts(desk: Desk):
    one = signal("fatal", "FATAL ERROR", pattern_type="substring", state=states.CrashStateConfig())
    made = desk.controller(desk.monitor(one), {"crash": always(), "success": never()})
    desk.job(made, log="FATAL ERROR occurred\n")
    assert [one.action for one in made.observe_once_sync().decisions.values()] == ["restart"]


def test_a_signal_of_an_output_file_says_so(desk: Desk):
    output = desk.folder / "train.log"
    output.write_text("Checkpoint saved: /tmp/check.ckpt\n")
    made = desk.controller(desk.monitor(output_paths=[str(output)]), {"success": never()})
    desk.job(made, log="running\n", output_paths=[output])
    (record,) = made.observe_once_sync().events
    assert record.payload["note"] == "new_checkpoint"
    assert (record.metadata["source"], record.metadata["checkpoint_path"]) == ("output", "/tmp/check.ckpt")


def test_states_of_slurm_begin_and_end_a_run(desk: Desk, caplog):
    caplog.set_level(logging.INFO, "oellm_autoexp.monitor.controller")
    made = desk.controller(desk.monitor(), {"success": never()})
    job_id = desk.job(made, log="starting\n")
    desk.slurm.set_state(job_id, "RUNNING")
    assert [one.event for one in made.observe_once_sync().events] == ["run_started"]
    desk.slurm.set_state(job_id, "COMPLETED")
    result = made.observe_once_sync()
    assert [(one.event, one.state) for one in result.events] == [("run_ended", "success")]
    assert list(made.jobs()) == []
    assert "job completed successfully, finalizing" in caplog.text


def test_the_end_of_a_training_is_a_record_of_success(desk: Desk):
    made = desk.controller(desk.monitor(), {"success": never()})
    desk.job(made, log="Training complete\n")
    assert [one.state for one in made.observe_once_sync().events] == ["success"]


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"pattern": "x"}, "LogSignalConfig 's' must specify a state change or at least one action"),
        ({"pattern": "x", "pattern_type": "glob", "state": states.CrashState()}, "Unsupported pattern_type"),
        (
            {"pattern": "x", "actions": [actions.ExecutionAction(command=["eval", "{no_such}"])]},
            "no field 'no_such'",
        ),
    ],
)
def test_a_wrong_signal_is_refused_when_the_monitor_is_made(keys, says):
    with pytest.raises(ValueError, match=says):
        watcher.SlurmLogMonitor(watcher.SlurmLogMonitorConfig(log_signals=[signal("s", **keys)]))


def test_a_lone_brace_in_a_command_is_refused_when_it_is_made():
    with pytest.raises(ValueError, match="lone"):
        actions.ExecutionActionConfig(command=["echo", "${x"])


# -- Slurm ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "tokens", "says"),
    [
        ("#!/bin/bash", (), "no #SBATCH --job-name=demo"),
        ("#SBATCH --job-name=demo\nvalue {placeholder}\n", (), "{placeholder}"),
        ("#SBATCH --job-name=demo\n", ("module load",), "'module load' does not stand in it"),
    ],
)
def test_a_script_that_should_not_be_submitted_is_refused(script, tokens, says):
    with pytest.raises(validator.SlurmValidationError, match=says):
        validator.validate_job_script(script, "demo", required_tokens=tokens)
    good = "#SBATCH --job-name=demo\nmodule load x\necho ${HOME} {{kept}}\n"
    validator.validate_job_script(good, "demo", required_tokens=["module load"])


def test_slurm_in_memory_does_what_a_test_says(tmp_path):
    slurm = slurm_client.FakeSlurmClient(slurm_client.FakeSlurmClientConfig())
    job_id = slurm.submit("demo", tmp_path / "job.sbatch", tmp_path / "log.txt")
    slurm.set_state(job_id, "RUNNING")
    assert slurm.squeue()[job_id] == "RUNNING"
    slurm.set_state(job_id, "COMPLETED", return_code=0)
    assert (slurm.get_job(job_id).state, slurm.get_job(job_id).return_code) == ("COMPLETED", 0)
    ids = slurm.submit_array("a", tmp_path / "s", [tmp_path / f"{i}" for i in range(3)], ["x", "y", "z"])
    assert [one.partition("_")[2] for one in ids] == ["0", "1", "2"]
    assert slurm.job_ids_by_name("y") == [ids[1]]
    slurm.remove(job_id)
    assert job_id not in slurm.squeue()


class Answers:
    """Stands in for `subprocess.run`: says what it was told, keeps what it was asked."""

    def __init__(self, *said: tuple[int, str]) -> None:
        self.said, self.asked = list(said), []

    def __call__(self, argv, **_):
        self.asked.append(argv)
        code, text = self.said.pop(0)
        if code == 124:
            raise subprocess.TimeoutExpired(argv, 60)
        return SimpleNamespace(returncode=code, stdout=text if code == 0 else "", stderr=text)


def test_the_real_client_asks_for_an_array_and_names_its_elements(tmp_path, monkeypatch):
    answers = Answers((0, "Submitted batch job 10000"))
    monkeypatch.setattr(slurm_client.subprocess, "run", answers)
    client = slurm_client.SlurmClient(slurm_client.SlurmClientConfig())
    client.configure(schema.SlurmConfig(submit_cmd="sbatch --export=NONE"))
    script = tmp_path / "array.sbatch"
    logs = [tmp_path / f"log_{i}.txt" for i in range(3)]
    ids = client.submit_array("test_array", script, logs, ["task0", "task1", "task2"])
    assert ids == ["10000_0", "10000_1", "10000_2"]
    assert answers.asked == [["sbatch", "--export=NONE", "--array=0-2", str(script)]]
    assert [client.get_job(one).name for one in ids] == ["task0", "task1", "task2"]


def test_the_real_client_asks_squeue_then_sacct_for_what_is_missing(monkeypatch):
    said = ((0, "7 RUNNING\n"), (0, "8|CANCELLED by 1000\n8.batch|FAILED\n"))
    answers = Answers(*said)
    monkeypatch.setattr(slurm_client.subprocess, "run", answers)
    client = slurm_client.SlurmClient()
    for job_id in ("7", "8", "9"):
        client.register_job(job_id, "demo")
    assert client.squeue() == {"7": "RUNNING", "8": "CANCELLED"}
    assert answers.asked == [
        ["squeue", "--jobs", "7,8,9", "--noheader", "--format", "%i %T"],
        ["sacct", "--jobs", "8,9", "--noheader", "--format", "JobID,State", "--parsable2"],
    ]


def test_a_submit_without_an_answer_is_looked_for_before_it_is_repeated(monkeypatch, tmp_path):
    answers = Answers((124, ""), (0, "41 PENDING\n"))
    monkeypatch.setattr(slurm_client.subprocess, "run", answers)
    client = slurm_client.SlurmClient()
    with pytest.raises(slurm_client.SubmitFailed):
        client.submit("demo", tmp_path / "s", tmp_path / "l")
    assert client.submit("demo", tmp_path / "s", tmp_path / "l") == "41"
    assert [argv[0] for argv in answers.asked] == ["sbatch", "squeue"], "never a second job"


# -- the process around it -----------------------------------------------------------------------------------


def test_the_loop_writes_one_file_for_each_action(tmp_path, monkeypatch, capsys):
    record = controllers.MonitorRecord(
        "1", "demo", "manual", None, "notify", {"message": "hi"}, {"signal": "s"}
    )

    class Once:
        done = False

        def jobs(self):
            return [] if self.done else [object()]

        async def observe_once(self):
            self.done = True
            return controllers.MonitorCycleResult(events=[record])

        def drain_events(self):
            return [record]

    async def no_sleep(_):
        return None

    monkeypatch.setattr(host.asyncio, "sleep", no_sleep)
    asyncio.run(host._monitor_loop(Once(), watcher.NullMonitor(), tmp_path))
    (path,) = tmp_path.glob("*.json")
    body = json.loads(path.read_text())
    assert path.name.endswith("_0_notify.json")
    assert {"job_id": "1", "event": "manual", "payload": {"message": "hi"}}.items() <= body.items()
    assert capsys.readouterr().out == f"[actions] wrote {path} for job 1 (demo) -> notify\n"


def test_the_modules_can_be_had_under_upstreams_names():
    code = (
        "from runward.compat.autoexp import aliases; aliases.install()\n"
        "from oellm_autoexp.monitor.controller import JobRegistration, MonitorController\n"
        "from oellm_autoexp.monitor.policy import SelectiveRestartPolicyConfig\n"
        "from oellm_autoexp.monitor.states import CrashStateConfig\n"
        "from oellm_autoexp.monitor.actions import ErrorNoteActionConfig\n"
        "from oellm_autoexp.persistence import MonitorStateStore\n"
        "from oellm_autoexp.slurm.client import FakeSlurmClient\n"
        "from oellm_autoexp.slurm.validator import validate_job_script\n"
        "from oellm_autoexp.config.schema import SlurmConfig\n"
        "from oellm_autoexp.workflow import host\n"
        "from oellm_autoexp.utils import run; assert callable(run.run_with_tee)\n"
        "import oellm_autoexp.monitor.watcher as w; print(w.__name__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.returncode) == ("runward.compat.autoexp.watcher\n", 0), done.stderr
    assert aliases._NAMES["monitor.policy"] == "restart_policies"
