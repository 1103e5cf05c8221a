"""Jobs that go on: queued again in place, by a chain of the user's own, or because their limit was near."""

import os
from pathlib import Path

import pytest

from backends.slurm.test_backend import Cluster, row, status
from runward import ports
from runward.backends.slurm import aged, appended, backend, chains, limits, one_run, records
from runward.core import job


@pytest.fixture
def here() -> Cluster:
    return Cluster()


def mine(job_id: str, word: str, **more: str) -> str:
    return row(job_id, word, **{"UserID": str(os.getuid()), **more})


def requeuing(here: Cluster) -> one_run.OneRun:
    return one_run.OneRun(here.slurm, one_run.Of("demo", requeues=True))


def test_a_restart_in_place_keeps_the_id_and_names_its_attempt_and_bad_nodes(
    here: Cluster, tmp_path: Path
) -> None:
    log = tmp_path / "log-7"
    log.write_text("step 1\nKeyError: 1\n")
    here.rows = [row("7", "FAILED", Comment="demo-1-abc", STDOUT=f"{tmp_path}/log-%j")]
    here.scontrol = ""
    view = requeuing(here)
    options = {backend.EXCLUDE: "n4,n5"}
    handle = view.submit(job.JobSpec(("job.sh",), "/", options=options), "demo-2-def")
    assert backend.split(handle) == ("7", 1)
    asked = [call.argv[1:] for call in here.asked("scontrol")]
    assert asked == [
        ("requeue", "7"),
        ("update", "JobId=7", "Comment=demo-2-def", "ExcNodeList=n4,n5"),
    ]
    assert here.asked("sbatch") == []
    assert isinstance(here.look(handle), job.Unseen), (
        "what Slurm shows is still the end of the attempt before"
    )
    here.rows = [row("7", "RUNNING", RestartCnt="1", STDOUT=f"{tmp_path}/log-%j")]
    assert status(here.look(handle)).state is job.JobState.RUNNING
    with log.open("a") as file:
        file.write("step 2\n")
    (stream,) = view.logs(handle)
    assert [chunk.data for chunk in stream.read_new(1000)] == [b"step 2\n"]


def test_what_slurm_does_not_queue_again_goes_on_in_a_new_job(here: Cluster) -> None:
    here.rows = [row("7", "FAILED", Comment="demo-1-abc")]
    here.scontrol = ports.Completed(
        ("scontrol",), 1, b"", b"Requested operation is presently disabled for job 7"
    )
    assert requeuing(here).submit(job.JobSpec(("job.sh",), "/"), "demo-2-def") == "7@0"
    assert len(here.asked("sbatch")) == 1


def test_a_requeue_without_an_answer_is_not_followed_by_a_new_job(here: Cluster) -> None:
    here.rows = [row("7", "FAILED", Comment="demo-1-abc")]
    here.scontrol = ports.Completed(("scontrol",), None, b"", b"", timed_out=True)
    view = requeuing(here)
    with pytest.raises(ports.ContactLost):
        view.submit(job.JobSpec(("job.sh",), "/"), "demo-2-def")
    here.rows = [row("7", "PENDING", RestartCnt="1", Comment="demo-1-abc")]
    assert view.submit(job.JobSpec(("job.sh",), "/"), "demo-3-def") == "7@1", "it had been done"
    assert here.asked("sbatch") == []


@pytest.mark.parametrize("now", ["PENDING", "RUNNING", "COMPLETED"])
def test_what_slurm_queued_again_is_the_next_attempt_even_where_it_is_over_by_now(
    here: Cluster, now: str
) -> None:
    view = one_run.OneRun(here.slurm, one_run.Of("demo", first="7", observe_only=True))
    here.rows = [mine("7", "RUNNING")]
    here.look()
    here.rows = [mine("7", now, RestartCnt="1")]
    here.look()
    assert status(view.poll(["7@0"])["7@0"]).state is job.JobState.PREEMPTED
    assert "queued job 7 again" in str(view.follows())
    assert view.submit(job.JobSpec(("job.sh",), "/"), "demo-2-def") == "7@1"
    assert here.asked("sbatch") == []


@pytest.mark.parametrize(
    ("dependency", "word", "follows"),
    [
        ("afterany:7(unfulfilled)", "FAILED", "8"),
        ("afterany:7(unfulfilled)", "COMPLETED", "8"),
        ("afterok:7(unfulfilled)", "FAILED", None),
        ("afterok:7(unfulfilled)", "COMPLETED", "8"),
        ("afternotok:7(unfulfilled)", "FAILED", "8"),
        ("afternotok:7(unfulfilled)", "COMPLETED", None),
        ("afterok:5(unfulfilled),afterany:7(unfulfilled)", "TIMEOUT", "8"),
        ("after:7(unfulfilled)", "FAILED", None),
        ("afterany:77(unfulfilled)", "FAILED", None),
        ("singleton(unfulfilled)", "FAILED", "8"),
        ("", "FAILED", None),
    ],
)
def test_the_next_job_of_a_users_own_chain_is_the_next_attempt(
    here: Cluster, dependency: str, word: str, follows: str | None
) -> None:
    view = one_run.OneRun(here.slurm, one_run.Of("demo", first="7"))
    waiting = mine("8", "PENDING", Dependency=dependency, Reason="Dependency")
    here.rows = [mine("7", "RUNNING"), waiting]
    here.look()
    here.rows = [mine("7", word), mine("8", "PENDING")]
    here.look()
    view.poll(["7@0"])
    said = view.follows()
    assert (said is not None and f"job {follows} " in said) if follows else said is None
    here.sbatch = ports.Completed(("sbatch",), 0, b"9\n", b"")
    expected = "9@0" if follows is None else "8@0"
    assert view.submit(job.JobSpec(("job.sh",), "/"), "demo-2-def") == expected
    assert len(here.asked("sbatch")) == (follows is None)


def test_a_chain_that_was_quicker_than_the_watcher_is_an_attempt_all_the_same(here: Cluster) -> None:
    view = one_run.OneRun(here.slurm, one_run.Of("demo", first="7"))
    here.rows = [
        mine("7", "RUNNING"),
        mine("8", "PENDING", Dependency="afterany:7(unfulfilled)", Reason="Dependency"),
    ]
    here.look()
    here.look()
    here.rows = [mine("7", "FAILED"), mine("8", "COMPLETED")]
    here.look()
    view.poll(["7@0"])
    assert "job 8 " in str(view.follows())
    assert view.submit(job.JobSpec(("job.sh",), "/"), "demo-2-def") == "8@0"
    assert here.asked("sbatch") == []


def test_an_element_of_an_array_has_those_who_wait_for_it_or_for_all() -> None:
    waiting = [
        records.Record("20", "PENDING", dependency="afterany:12_3(unfulfilled)"),
        records.Record("21", "PENDING", dependency="afterany:12_*(unfulfilled)"),
        records.Record("22", "PENDING", dependency="afterany:12_4(unfulfilled)"),
        records.Record("23", "PENDING", dependency="afterok:12:13?afternotok:14"),
    ]
    found = chains.of(chains.index(waiting), records.Record("12_3", "RUNNING"))
    assert [link.record.job_id for link in found] == ["20", "23", "21"]


@pytest.mark.parametrize(
    ("options", "script", "told"),
    [
        (["--signal=USR1@300"], "", limits.Warned(10, 300.0)),
        (["--time=1"], "#SBATCH --signal=B:TERM@120\nsrun x\n", limits.Warned(15, 120.0)),
        ([], "#SBATCH -n 2\n#SBATCH --signal 12\n", limits.Warned(12, 60.0)),
        ([], "#SBATCH --signal=R:SIGINT@9\n", limits.Warned(2, 9.0)),
        ([], "#SBATCH --signal=USR1@9\n#SBATCH --signal=USR2@30\n", limits.Warned(12, 30.0)),
        (["--signal=USR2@30"], "#SBATCH --signal=TERM@120\n", limits.Warned(12, 30.0)),
        ([], "##SBATCH --signal=TERM@120\necho --signal=TERM@9\n", None),
        ([], "", None),
    ],
)
def test_the_early_signal_is_read_from_options_or_script(
    tmp_path: Path, options: list[str], script: str, told: limits.Warned | None
) -> None:
    path = tmp_path / "job.sh"
    path.write_text(f"#!/bin/bash\n{script}")
    assert limits.warned(options, str(path)) == told


@pytest.mark.parametrize(
    ("exit_code", "left_s", "early"),
    [("0", 250, True), (f"{143 << 8}", 250, True), (f"{138 << 8}", 310, True), (f"{1 << 8}", 250, False),
     ("0", 1000, False), ("9", 250, False)],
)  # fmt: skip
def test_only_a_job_that_went_when_it_was_warned_is_taken_for_one_at_its_limit(
    here: Cluster, exit_code: str, left_s: int, early: bool
) -> None:
    word = "COMPLETED" if exit_code == "0" else "FAILED"
    begin, end = "2026-11-28T01:00:00", f"2026-11-28T01:{60 - (left_s + 59) // 60:02d}:00"
    here.rows = [row("7", word, exit_code=exit_code, StartTime=begin, EndTime=end, TimeLimit="1:00:00")]
    view = one_run.OneRun(here.slurm, one_run.Of("demo", warned=limits.Warned(10, 300.0)))
    here.look()
    over = status(view.poll(["7@0"])["7@0"])
    assert [one.fact for one in over.witnesses] == (["time_limit"] if early else [])


def test_a_forgotten_job_is_known_by_its_own_files(tmp_path: Path) -> None:
    log = tmp_path / "log"
    mark = "slurmstepd-n1: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-28T03:51:38{} ***\n"
    record = records.Record("7", "RUNNING", raw_id="7", started_at=1.0, workdir=str(tmp_path))
    log.write_text("step 1\n" + mark.format(" DUE TO TIME LIMIT"))
    found = aged.of(record, [str(log)])
    assert found is not None
    assert (found.word, found.state, found.exit) == (
        "TIMEOUT",
        job.JobState.TIME_LIMIT,
        job.ExitStatus.unseen(),
    )
    log.write_text("step 1\n" + mark.format(""))
    assert aged.of(record, [str(log)]) is None, "an early signal writes the same line"
    log.write_text(mark.format(" DUE TO TIME LIMIT").replace("JOB 7", "JOB 6"))
    assert aged.of(record, [str(log)]) is None
    (tmp_path / "slurm-7.exit").write_text("3\n")
    found = aged.of(record, [str(log)])
    assert found is not None
    assert (found.word, found.exit) == ("FAILED", job.ExitStatus(3))
    os.utime(tmp_path / "slurm-7.exit", (0.5, 0.5))
    assert aged.of(record, [str(log)]) is None, "it is older than the job"


def test_a_forgotten_job_is_settled_at_once_by_its_exit_code_file(here: Cluster, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("x\n")
    here.rows = [row("7", "RUNNING", STDOUT=str(log), StartTime="2001-01-01T00:00:00")]
    here.look()
    here.rows = []
    assert isinstance(here.look(), job.Unseen)
    (tmp_path / "log.exit").write_text("0")
    assert status(here.look()).state is job.JobState.SUCCEEDED


def test_a_job_that_another_cluster_of_a_federation_took_is_never_taken_for_over(here: Cluster) -> None:
    here.rows = [row("7", "REVOKED")]
    assert not status(here.look()).state.final
    here.rows = []
    for _ in range(20):
        found = here.look(after=100.0)
    assert isinstance(found, job.Unseen)
    assert "federation" in found.why


def test_a_job_that_another_cluster_took_is_followed_there(here: Cluster) -> None:
    handle, taken = "67108888@0", "67108888"
    here.rows = [row(taken, "REVOKED", exit_code="256")]
    here.siblings = [row(taken, "RUNNING", NodeList="m1")]
    running = status(here.look(handle))
    assert (running.state, running.word) == (job.JobState.RUNNING, "RUNNING")
    here.siblings = [row(taken, "FAILED", NodeList="m1", exit_code="256")]
    over = status(here.look(handle))
    assert (over.state, over.exit) == (job.JobState.FAILED, job.ExitStatus(1))
    assert over.node is None, "a node of another cluster cannot be left out here"


def test_a_federated_job_that_aged_out_is_asked_of_the_accounting_of_all_clusters(here: Cluster) -> None:
    here.rows = [row("67108888", "REVOKED"), row("7", "RUNNING")]
    here.look("67108888@0")
    here.rows = []
    lines = b"67108888|COMPLETED|0:0|0:0|2026-11-28T03:55:49|2026-11-28T03:55:50|m1|root|5|x\n"
    here.sacct = ports.Completed(("sacct",), 0, lines, b"")
    assert status(here.look("67108888@0")).state is job.JobState.SUCCEEDED
    here.look("7@0")
    by_id = {call.argv[call.argv.index("-j") + 1]: call.argv for call in here.asked("sacct")}
    assert "--federation" in by_id["67108888"]
    assert "--federation" not in by_id["7"], "a low id may be a job of each cluster"


def test_a_heterogeneous_job_that_aged_out_is_one_job_in_accounting(here: Cluster) -> None:
    lines = (
        b"7+0|COMPLETED|0:0|0:0|2026-11-28T03:55:49|2026-11-28T03:55:50|n1|root|UNLIMITED|het.sh\n"
        b"7+1|FAILED|2:0|0:0|2026-11-28T03:55:49|2026-11-28T03:55:50|n2|root|UNLIMITED|het.sh\n"
    )
    here.sacct = ports.Completed(("sacct",), 0, lines, b"")
    over = status(here.look())
    assert (over.word, over.exit) == ("FAILED", job.ExitStatus(2))


def test_accounting_tells_of_a_step_that_failed_in_a_script_that_ended_well(here: Cluster) -> None:
    here.rows = [row("7", "COMPLETED")]
    line = b"7|COMPLETED|0:0|1:0|2026-11-28T03:55:49|2026-11-28T03:55:50|n1|root|525600|a.sh\n"
    here.sacct = ports.Completed(("sacct",), 0, line, b"")
    (witness,) = status(here.look()).witnesses
    assert (witness.fact, "1:0" in witness.detail) == ("step_failed", True)


def test_a_line_without_reason_begins_no_attempt(tmp_path: Path) -> None:
    log = tmp_path / "log"
    early = "slurmstepd-n2: error: *** JOB 8 ON n2 CANCELLED AT 2026-11-28T01:26:54 ***\n"
    again = early.replace(" ***\n", " DUE TO JOB REQUEUE ***\n")
    log.write_text("step 1\n" + early + "step 2\n" + again + "step 3\n")
    assert log.read_bytes()[appended.begin_of(str(log), 1) :] == b"step 3\n"
