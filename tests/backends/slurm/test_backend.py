"""What the backend makes of answers, and of their absence."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fakes import runner as fakes
from runward import ports
from runward.backends.slurm import appended, backend, commands, one_run, records
from runward.core import job
from runward.scan import tailer

SEP = records.SEPARATOR


def row(job_id: str, word: str, **more: str) -> str:
    plain = dict.fromkeys(records.SQUEUE_FIELDS, "")
    base = {"JobArrayID": job_id, "JobID": job_id, "State": word, "RestartCnt": "0", "exit_code": "0:0"}
    return SEP.join({**plain, **base, "UserID": "0", "Name": "x", **more}.values()) + SEP


class Cluster:
    """Answers of squeue, sacct and scontrol that a test changes; the clock is the test's."""

    def __init__(self, name: str | None = None) -> None:
        self.rows: list[str] = []
        self.siblings: list[str] = []
        """What the other clusters of a federation have."""
        self.answers: Callable[[Sequence[str]], list[str]] | None = None
        """In place of `rows`, by the arguments."""
        self.down: str | None = None
        self.sinfo = ""
        self.now = 1000.0
        self.sbatch = ports.Completed(("sbatch",), 0, b"7\n", b"")
        self.sacct = ports.Completed(("sacct",), 1, b"", b"Slurm accounting storage is disabled")
        said = b"slurm_load_jobs error: Invalid job id specified"
        self.scontrol: ports.Completed | str = ports.Completed(("scontrol",), 1, b"", said)
        self.runner = fakes.FakeRunner(handler=self.answer)
        settings = backend.Settings(every_s=10.0, missing_after_s=60.0, quiet_s=30.0)
        env = {"SQUEUE_FORMAT": "%i", "SLURM_CONF": "/c", "HOME": "/h", "SLURM_TIME_FORMAT": "relative"}
        self.asking = asking = commands.Commands(self.runner, env, cluster=name)
        self.slurm = backend.Slurm(backend.Means(asking, tailer.FileLog, settings, lambda: self.now))

    def answer(self, call: ports.Call) -> fakes.Answer | None:
        name = call.argv[0]
        if self.down is not None and name != "sbatch":
            return ports.Completed(call.argv, 1, b"", self.down.encode())
        if name == "squeue" and "--federation" in call.argv:
            return "\n".join([*self.siblings, *self.rows]) + "\n"
        if name == "squeue":
            return "\n".join(self.rows if self.answers is None else self.answers(call.argv)) + "\n"
        if name == "sacct":
            return self.sacct
        if name == "scontrol":
            return self.scontrol
        return self.sbatch if name == "sbatch" else self.sinfo

    def look(self, handle: str = "7@0", after: float = 11.0) -> job.JobStatus | job.Unseen:
        self.now += after
        self.slurm.poll([handle])
        under_way = self.slurm.looker.under_way
        if under_way is not None:
            under_way.ready(30)
        return self.slurm.poll([handle])[handle]

    def asked(self, name: str) -> list[ports.Call]:
        return [call for call in self.runner.calls if call.argv[0] == name]


@pytest.fixture
def here() -> Cluster:
    return Cluster()


def status(found: job.JobStatus | job.Unseen) -> job.JobStatus:
    assert isinstance(found, job.JobStatus), found
    return found


def test_a_query_that_fails_says_nothing_about_the_job(here: Cluster) -> None:
    here.rows = [row("7", "RUNNING")]
    assert status(here.look()).state is job.JobState.RUNNING
    here.down = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    for _ in range(100):
        found = here.look()
    assert isinstance(found, job.Unseen)
    assert "Unable to contact" in found.why
    here.down = None
    assert status(here.look()).state is job.JobState.RUNNING


def test_a_job_that_all_deny_is_believed_gone_only_after_its_time(here: Cluster) -> None:
    here.rows = [row("7", "RUNNING")]
    here.look()
    here.rows = []
    assert isinstance(here.look(), job.Unseen)
    assert isinstance(here.look(after=40.0), job.Unseen)
    gone = status(here.look(after=40.0))
    assert (gone.state, gone.word) == (job.JobState.FAILED, "NOT_FOUND")
    assert gone.exit == job.ExitStatus.unseen()


def test_a_job_that_appears_again_starts_its_time_anew(here: Cluster) -> None:
    here.rows = [row("7", "RUNNING")]
    here.look()
    here.rows = []
    here.look(after=50.0)
    here.rows = [row("7", "RUNNING")]
    here.look()
    here.rows = []
    assert isinstance(here.look(after=50.0), job.Unseen)
    assert isinstance(here.look(after=50.0), job.Unseen)


def test_accounting_that_does_not_answer_is_no_denial(here: Cluster) -> None:
    here.sacct = ports.Completed(("sacct",), None, b"", b"", timed_out=True)
    for _ in range(20):
        found = here.look(after=60.0)
    assert isinstance(found, job.Unseen)


def test_an_id_that_another_job_got_is_not_ours(here: Cluster) -> None:
    here.rows = [row("7", "RUNNING", Name="mine")]
    here.look()
    here.rows = [row("7", "RUNNING", Name="theirs")]
    found = here.look()
    assert isinstance(found, job.Unseen)
    assert "another job" in found.why


def test_a_requeue_under_the_same_id_ends_one_attempt_and_is_the_next(here: Cluster) -> None:
    here.rows = [row("7", "RUNNING", Comment="demo-1-abc")]
    here.look()
    here.rows = [row("7", "PENDING", RestartCnt="1", Reason="BeginTime", Comment="demo-1-abc")]
    over = status(here.look())
    assert (over.state.final, over.word, over.restarts) == (True, "REQUEUED", 1)
    view = one_run.OneRun(here.slurm, one_run.Of("demo"))
    assert view.submit(job.JobSpec(("job.sh",), "/"), "demo-2-def") == "7@1"
    assert here.asked("sbatch") == []
    assert status(here.look("7@1")).state is job.JobState.PENDING


def test_a_job_of_another_run_is_not_taken_for_the_next_attempt(here: Cluster) -> None:
    here.rows = [row("6", "RUNNING", Comment="demo-x-1-abc")]
    view = one_run.OneRun(here.slurm, one_run.Of("demo"))
    assert view.submit(job.JobSpec(("job.sh",), "/"), "demo-2-def") == "7@0"


def test_a_node_that_failed_proves_nothing_until_the_job_was_quiet(here: Cluster, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("x")
    here.rows = [row("7", "NODE_FAIL", STDOUT=str(log), NodeList="n1")]
    assert status(here.look()).state is job.JobState.ENDING
    assert status(here.look(after=31.0)).state is job.JobState.ENDING, "its log was written a moment ago"
    os.utime(log, (1.0, 1.0))
    over = status(here.look())
    assert (over.state, over.node) == (job.JobState.NODE_FAILED, "n1")


def test_one_query_serves_any_number_of_jobs_and_a_big_cluster_is_asked_by_user(here: Cluster) -> None:
    handles = [f"{n}@0" for n in range(1, 600)]
    here.rows = [row(str(n), "RUNNING") for n in range(1, 600)]
    here.slurm.poll(handles)
    under_way = here.slurm.looker.under_way
    assert under_way is None or under_way.ready(30)
    found = here.slurm.poll(handles)
    assert {status(one).state for one in found.values()} == {job.JobState.RUNNING}
    (asked,) = here.asked("squeue")
    assert "-u" in asked.argv
    assert "-j" not in asked.argv


def test_commands_get_no_variable_that_changes_what_they_print(here: Cluster) -> None:
    here.look()
    asked = here.asked("squeue")[0]
    assert asked.env == {"SLURM_CONF": "/c", "HOME": "/h"}


def test_a_submit_without_an_answer_is_looked_for_and_not_denied_too_early(here: Cluster) -> None:
    here.sbatch = ports.Completed(("sbatch",), None, b"", b"", timed_out=True)
    with pytest.raises(ports.ContactLost):
        here.slurm.submit(job.JobSpec(("job.sh",), "/"), "demo-1-abc")
    with pytest.raises(ports.ContactLost, match="may still appear"):
        here.slurm.find("demo-1-abc")
    here.now += 11.0
    assert here.slurm.find("demo-1-abc") is None
    here.rows = [row("9", "PENDING", Comment="note demo-1-abc")]
    assert here.slurm.find("demo-1-abc") == "9@0"


def test_a_submit_names_token_excluded_nodes_and_the_users_options(here: Cluster) -> None:
    options = {backend.SBATCH: json.dumps(["--partition=gpu", "--array=3-3"]), backend.EXCLUDE: "n1,n2"}
    spec = job.JobSpec(("job.sh", "--load", "/c/step 4"), "/w", options=options)
    assert here.slurm.submit(spec, "demo-2-abc") == "7_3@0"
    (asked,) = here.asked("sbatch")
    assert asked.argv[1:] == (
        *("--parsable", "--partition=gpu", "--array=3-3", "--comment=demo-2-abc", "--exclude=n1,n2"),
        *("job.sh", "--load", "/c/step 4"),
    )
    assert asked.cwd == "/w"


def test_a_cancel_asks_first_and_insists_after_the_grace(here: Cluster) -> None:
    here.rows = [row("7", "RUNNING")]
    here.look()
    here.slurm.cancel("7@0", ports.EndPlan(grace_s=30.0))
    here.look()
    assert [call.argv[1:] for call in here.asked("scancel")] == [("-s", "15", "--full", "7")]
    here.look(after=30.0)
    assert [call.argv[1:] for call in here.asked("scancel")][1:] == [("7",)]


def test_while_an_end_is_waited_for_the_cluster_is_asked_more_often(here: Cluster) -> None:
    here.rows = [row("7", "RUNNING")]
    here.look()
    for _ in range(3):
        here.look(after=2.0)
    before = len(here.asked("squeue"))
    here.slurm.cancel("7@0", ports.EndPlan(grace_s=30.0))
    for _ in range(4):
        here.look(after=2.0)
    assert len(here.asked("squeue")) == before + 4
    for _ in range(4):
        here.look(after=200.0)
    later = len(here.asked("squeue"))
    here.look(after=2.0)
    assert len(here.asked("squeue")) == later, "the end is long over"


def test_a_job_that_waits_is_cancelled_at_once(here: Cluster) -> None:
    here.rows = [row("7", "PENDING")]
    here.look()
    here.slurm.cancel("7@0", ports.EndPlan())
    assert [call.argv[1:] for call in here.asked("scancel")] == [("7",)]


def test_what_is_only_observed_is_never_cancelled(here: Cluster) -> None:
    view = one_run.OneRun(here.slurm, one_run.Of("demo", observe_only=True))
    view.cancel("7@0", ports.EndPlan())
    assert here.asked("scancel") == []
    assert status(view.poll(["7@0"])["7@0"]).word == "let go"


def test_the_attempt_after_a_requeue_does_not_read_the_text_of_the_one_before(tmp_path: Path) -> None:
    log = tmp_path / "log"
    mark = "slurmstepd-n2: error: *** JOB 8 ON n2 CANCELLED AT 2026-11-28T01:27:54 DUE TO JOB REQUEUE ***\n"
    before = "CUDA out of memory\n" * 100_000
    log.write_text(before + mark + "step 1\n" + mark + "step 2\n")
    for restarts, told in ((1, "step 1\n" + mark + "step 2\n"), (2, "step 2\n"), (3, "step 2\n")):
        begin = appended.begin_of(str(log), restarts)
        stream = appended.After(tailer.FileLog(str(log)), lambda begin=begin: begin)
        read = b""
        while chunks := stream.read_new(1 << 16):
            read += b"".join(chunk.data for chunk in chunks)
        assert read.decode() == told, restarts


def test_a_log_that_a_requeued_job_began_anew_is_read_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("step 1\n")
    assert appended.begin_of(str(log), 1) == 0
    assert appended.begin_of(str(tmp_path / "none"), 1) == 0


def test_an_attempt_that_sbatch_refuses_is_over_with_its_words_and_never_repeated_by_us(
    here: Cluster,
) -> None:
    said = b"sbatch: error: Batch job submission failed: Invalid partition name specified"
    here.sbatch = ports.Completed(("sbatch",), 1, b"", said)
    view = one_run.OneRun(here.slurm, one_run.Of("demo"))
    handle = view.submit(job.JobSpec(("job.sh",), "/"), "demo-1-abc")
    over = status(view.poll([handle])[handle])
    assert (over.state, over.exit) == (job.JobState.FAILED, job.ExitStatus(1))
    assert "Invalid partition" in (view.refusal(handle) or "")
    (stream,) = view.logs(handle)
    assert b"Invalid partition" in stream.read_new(1000)[0].data
    assert stream.read_new(1000) == ()
    assert len(here.asked("sbatch")) == 1


def test_every_command_about_another_cluster_names_it_and_its_headers_are_no_jobs_or_nodes() -> None:
    there = Cluster("west")
    there.rows = ["CLUSTER: west", row("7", "NODE_FAIL", NodeList="n[1-2]")]
    there.sinfo = "CLUSTER: west\nn2\n"
    there.scontrol = "CLUSTER: west\nJobId=7 JobState=RUNNING Command=/a.sh\n"
    there.look()
    over = status(there.look(after=40.0))
    assert (over.state, over.node) == (job.JobState.NODE_FAILED, "n2")
    there.rows = []
    asking = there.asking
    assert asking.fields("7")["Command"] == "/a.sh"
    assert asking.count() == 1
    asking.cancel("7")
    asking.accounts(["67108888"])
    asking.requeue("7")
    assert there.slurm.submit(job.JobSpec(("job.sh",), "/"), "demo-1-abc") == "7@0"
    assert {call.argv[1:3] for call in there.runner.calls} == {("-M", "west")}
    asking.hostnames("n[1-2]")
    assert "-M" not in there.runner.calls[-1].argv, "it asks no cluster"


def test_of_a_job_that_left_a_named_cluster_the_whole_federation_is_asked() -> None:
    there = Cluster("west")
    there.rows = [row("67108888", "REVOKED")]
    there.siblings = [row("67108888", "RUNNING")]
    assert status(there.look("67108888@0")).word == "RUNNING"
    (asked,) = {call.argv[1:3] for call in there.asked("squeue") if "--federation" in call.argv}
    assert asked != ("-M", "west"), "that would be the named cluster alone"


def test_a_job_of_another_user_is_asked_for_by_id_and_one_of_the_users_own_with_all_of_them(
    here: Cluster,
) -> None:
    here.rows = [row("7", "RUNNING", UserID=str(os.getuid()))]
    here.look()
    here.look()
    assert ["-j" in call.argv for call in here.asked("squeue")] == [False, False]
    here.look("8@0")
    here.look("8@0")
    assert ["-j" in call.argv for call in here.asked("squeue")[2:]] == [False, True, False], "nobody has it"
    theirs = row("9", "RUNNING", UserID="4711")
    whole = list(here.rows)
    here.answers = lambda argv: [*whole, theirs] if "-j" in argv else whole
    assert status(here.look("9@0")).state is job.JobState.RUNNING
    here.look("9@0")
    assert ["-j" in call.argv for call in here.asked("squeue")[5:]] == [False, True, True]
