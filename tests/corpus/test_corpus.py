"""The generated corpus: cascades, near-miss pairs and clean logs, of seeds that nobody looked at while tuning."""

import pytest

from corpus import generate
from runward.config import rulesets
from runward.core import errors, standing
from runward.wiring import bench_diagnose


@pytest.mark.parametrize("seed", [11, 4711])
def test_the_first_cause_and_its_rank_are_found_and_clean_logs_are_left_alone(seed):
    cases = generate.corpus(seed)
    figures = bench_diagnose.score(cases, list(bench_diagnose.predictions(cases, ".")))
    assert figures["false_alarm"] == figures["false_restart"] == figures["false_stop"] == 0, figures["wrong"]
    assert figures["both"] >= 0.98 * figures["cases"], figures["wrong"]
    assert figures["rank"] >= 0.97 * figures["ranked"], figures["wrong"]
    assert figures["evidence"] >= 0.97 * figures["with_evidence"]


_ENDED = "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2031-01-01T01:01:01 DUE TO PREEMPTION ***\n"
_STEPS = "".join(f"step {step}/1000 | loss 2.1 | lr 1e-4\n" for step in range(401, 420))


@pytest.mark.parametrize(
    ("log", "context", "cause"),
    [
        (_ENDED + _STEPS, {"process": "running"}, "none"),
        (_ENDED + _STEPS, {"exit_code": 0}, "none"),
        (_STEPS + _ENDED, {"process": "running"}, "preempted"),
        (_ENDED + _STEPS, {"exit_code": 143, "scheduler": "slurm", "state": "PREEMPTED"}, "preempted"),
        (_ENDED, {"exit_code": 143}, "preempted"),
    ],
)
def test_a_job_that_is_back_in_the_same_log_after_its_scheduler_ended_it_is_not_ended(log, context, cause):
    case = {"id": "back", "context": context, "log": log}
    assert [guess["cause"] for guess in bench_diagnose.predictions([case], ".")] == [cause]


def test_a_peer_that_goes_away_after_the_last_step_is_no_failure_of_a_run_that_ended_well():
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nBrokenPipeError: [Errno 32] Broken pipe\n'
    whole, cut = (
        "".join(f"step {step}/1000 | loss 2.1\n" for step in range(first, first + 20)) for first in (981, 500)
    )
    cases = [{"id": log[:9], "context": {"exit_code": 0}, "log": log + trace} for log in (whole, cut)]
    assert [guess["cause"] for guess in bench_diagnose.predictions(cases, ".")] == ["none", "network"]


def _read(frame: str) -> str:
    return f'Traceback (most recent call last):\n  File "a.py", line 1, in main\n    go()\n{frame}EOFError: Ran out of input\n'


@pytest.mark.parametrize(
    ("announced", "cause"),
    [
        ("", "data_error"),
        ("loading checkpoint 'runs/last.pth'\n", "checkpoint_corrupt"),
        ("successfully loaded checkpoint from runs/last.pth\n", "data_error"),
    ],
)
def test_a_checkpoint_that_is_just_being_loaded_is_what_ends_too_early(announced, cause):
    case = {"id": "eof", "context": {"exit_code": 1}, "log": announced + _read("")}
    assert [guess["cause"] for guess in bench_diagnose.predictions([case], ".")] == [cause]


@pytest.mark.parametrize(
    ("frame", "cause", "action"),
    [
        (
            '  File "a.py", line 9, in load_checkpoint\n    s = torch.load(path)\n',
            "checkpoint_corrupt",
            "resume_previous",
        ),
        (
            '  File "a.py", line 9, in fit\n    s = torch.load(resume_path)\n',
            "checkpoint_corrupt",
            "resume_previous",
        ),
        ('  File "d.py", line 9, in __getitem__\n    s = torch.load(f)\n', "data_error", "hold"),
        ('  File "d.py", line 9, in fit\n    s = pickle.load(f)\n', "data_error", "hold"),
    ],
)
def test_whether_a_file_that_ends_too_early_is_a_checkpoint_or_data_the_frames_tell(frame, cause, action):
    guess = next(
        iter(
            bench_diagnose.predictions([{"id": "eof", "context": {"exit_code": 1}, "log": _read(frame)}], ".")
        )
    )
    assert (guess["cause"], guess["action"]) == (cause, action)


_TASK = "/job:jax_worker/replica:0/task:37"
_LATE = "XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: init::0. Some timed out task names:\n"
_WAITED = "".join(
    f"[rank{rank}]:[E101 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=16, NumelOut=16, Timeout(ms)=600000) ran for 600051 ms\n"
    for rank in (0, 1, 2, 3, 5, 6, 7)
)
_RAISED = "Traceback (most recent call last):\n  File 'a.py', line 1, in f\nValueError: odd\n"


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        (f"-- Process 2 terminated with the following error:\n{_RAISED}", 2),
        (f"coordination_service.cc:954] UNAVAILABLE: Task {_TASK} heartbeat timeout.\n", 37),
        (f"{_LATE}{_TASK}\n", 37),
        (f"{_LATE}{_TASK}\n/job:jax_worker/replica:0/task:3\n", None),
        (_WAITED, 4),
        ("srun: error: n1: task 5: Out Of Memory\n", 5),
        ("srun: error: n1: tasks 5-7: Out Of Memory\n", None),
    ],
)
def test_a_rank_that_only_others_name_is_named(log, rank):
    case = {"id": "named", "context": {"exit_code": 1}, "log": log}
    assert [guess["rank"] for guess in bench_diagnose.predictions([case], ".")] == [rank]


_TEXTS = [
    '{{"text": "{}", "label": 1}}',
    "sample 12: {}",
    "prompt[3] = '{}'",
    "### User: why do I see `{}`?",
    'decoded: "{}"',
]
_HEALTHY = "".join(f"step {step}/1000 | loss 2.{step}\n" for step in range(1, 20))


@pytest.mark.parametrize("shape", _TEXTS)
def test_what_a_data_set_says_in_a_log_accuses_nobody_although_no_step_came_after_it(shape):
    engine_rules = [
        rule
        for rule in rulesets.full(user=False).rules
        if str(rule.role) in ("root", "echo") and rule.weight >= 40
    ]
    cases = [
        {
            "id": rule.name,
            "context": {"process": "running"},
            "log": _HEALTHY + shape.format(line.strip()) + "\n",
        }
        for rule in engine_rules[_TEXTS.index(shape) :: 10]
        for line in rule.match[:1]
    ]
    assert [guess["id"] for guess in bench_diagnose.predictions(cases, ".") if guess["cause"] != "none"] == []


@pytest.mark.parametrize(
    ("context", "steps_after", "cause"),
    [
        ({"process": "running"}, 5, "none"),
        ({"exit_code": 1}, 12, "unknown"),
        ({"exit_code": 139}, 2, "segfault"),
    ],
)
def test_a_crash_after_which_many_steps_were_made_was_none_of_this_run(context, steps_after, cause):
    later = "".join(f"step {step}/1000 | loss 2.{step}\n" for step in range(20, 20 + steps_after))
    case = {"id": "x", "context": context, "log": f"{_HEALTHY}Segmentation fault (core dumped)\n{later}"}
    assert [guess["cause"] for guess in bench_diagnose.predictions([case], ".")] == [cause]


def test_a_silence_in_a_phase_that_takes_long_is_no_hang_and_one_after_its_end_is():
    ours = rulesets.full(user=False).rules
    begins = [rule for rule in ours if rule.edge == "begin" and rule.phase in standing.LONG_PHASES]
    context = {"process": "running", "silent_s": 900}
    cases = [
        {"id": f"{rule.name} {when}", "context": context, "log": f"{_HEALTHY}{line}\n{later}"}
        for rule in begins
        for line in rule.match
        for when, later in (("goes on", ""), ("ended", "step 20/1000 | loss 2.2\nstep 21/1000 | loss 2.1\n"))
    ]
    said = [(guess["id"].split()[1], guess["cause"]) for guess in bench_diagnose.predictions(cases, ".")]
    assert len(begins) > 5
    assert set(said) == {("goes", "none"), ("ended", "hang")}, said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[1]", "not an object"),
        ('{"id": "x", "cause": "none"}', "it has none of log, log_file, logs"),
        ('{"id": "x", "log": "step 1", "evidence": ["step 1"]}', "evidence is not a text"),
        ('{"id": "x", "log": "step 1", "context": 3}', "context is not an object"),
    ],
)
def test_what_is_no_labelled_case_is_refused_with_its_number(tmp_path, line, said):
    path = tmp_path / "cases.jsonl"
    path.write_text('{"id": "a", "log": "step 1"}\n' + line + "\n")
    with pytest.raises(errors.UsageError, match=f"case 2 is no labelled case: {said}"):
        bench_diagnose.cases(str(path))
