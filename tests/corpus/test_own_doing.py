"""What would help where no single line decides: the same again, ended by itself, over before it crashed."""

import pytest

from corpus import judging
from runward.wiring import bench_diagnose

_STEPS = "".join(f"step {n} | loss {3 - n / 100:.2f}\n" for n in range(10, 60, 10))


def _waits(rank: int, op: str, numel: int, seq: int = 904) -> str:
    return (
        f"[rank{rank}]:[E ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) ran for "
        "600004 milliseconds before timing out.\n"
    )


def test_a_rank_that_waits_in_another_operation_under_the_same_number_comes_there_again() -> None:
    others = "".join(_waits(rank, "_ALLGATHER_BASE", 8388608) for rank in range(5))
    assert judging.answer(_STEPS + others + _waits(5, "ALLREDUCE", 1))[1] == "hold"
    assert judging.answer(_STEPS + others + _waits(5, "_ALLGATHER_BASE", 8388608))[1] == "restart"


@pytest.mark.parametrize(
    ("came", "action"), [(12, "change"), (3, "restart")], ids=["two-launches", "one-short"]
)
def test_more_at_the_store_than_belong_to_the_run_are_two_launches_on_one_port(
    came: int, action: str
) -> None:
    late = "Timed out initializing process group in store based barrier on rank: 1, for key: store_based_barrier_key:1"
    assert (
        judging.answer(f"RuntimeError: {late} (world_size=6, worker_count={came}, timeout=0:30:00)\n")[1]
        == action
    )


def test_a_training_that_ends_to_have_a_step_computed_on_another_gpu_gets_one() -> None:
    odd = (
        "WARNING:rerun_state_machine:Unexpected result tensor(nan) on rank 6 at iteration #51 invocation #1\n"
    )
    asks = "WARNING:rerun_state_machine:Need to rerun on a different GPU to verify correctness\n"
    found = judging.verdict(_STEPS + odd + asks, exit_code=16)
    assert (found.cause, found.action, found.rank) == ("numerical_instability", "restart_elsewhere", 6)
    assert judging.verdict(_STEPS + odd, exit_code=1).action == "hold"


def test_what_torch_wrote_into_a_ranks_error_file_is_read_as_what_it_raised() -> None:
    raised = "OSError: [Errno 122] Disk quota exceeded: '/out/step_9'"
    record = (
        f'{{"message": {{"message": "{raised}", "extraInfo": {{"py_callstack": '
        f'"Traceback (most recent call last):\\n  File \\"a.py\\", line 3\\n{raised}\\n", "timestamp": "1746000002"}}}}}}\n'
    )
    assert judging.answer(_STEPS + "# cat attempt_0/3/error.json\n" + record) == ("disk_full", "hold")


@pytest.mark.parametrize(
    ("log", "code", "action"),
    [
        ("loading recipe\nthe moon is in the wrong house\n", 3, "hold"),
        ("loading recipe\nthe feed did not answer: connection was closed\n", 3, "restart"),
        (_STEPS + "the moon is in the wrong house\n", 3, "restart"),
        ("loading recipe\nthe moon is in the wrong house\n", 137, "restart"),
        ("", 1, "restart"),
    ],
    ids=["before-the-first-step", "waited-for-others", "after-steps", "killed", "empty"],
)
def test_a_program_that_ends_itself_before_its_first_step_is_not_begun_again_unasked(
    log, code, action
) -> None:
    assert judging.answer(log, exit_code=code)[1] == action


@pytest.mark.parametrize("signum", [11, 6], ids=["segmentation", "abort"])
def test_native_code_that_crashes_after_the_trainings_own_end_has_failed_nothing(signum) -> None:
    words = {11: "Segmentation fault (core dumped)", 6: "Aborted (core dumped)"}[signum]
    log = _STEPS + "Training completed in 0:41:07\n" + words + "\n"
    assert judging.answer(log, exit_code=128 + signum) == ("none", "none")
    assert judging.answer(_STEPS + words + "\n", exit_code=128 + signum)[0] != "none"


def test_torch_load_of_nothing_that_no_frame_names_is_a_checkpoints_fault() -> None:
    trace = (
        'Traceback (most recent call last):\n  File "fit.py", line 7, in main\n{}EOFError: Ran out of input\n'
    )
    load = '  File "/v/lib/python3.11/site-packages/torch/serialization.py", line 88, in _legacy_load\n'
    item = '  File "corpus.py", line 3, in __getitem__\n'
    assert judging.answer(trace.format(load)) == ("checkpoint_corrupt", "resume_previous")
    assert judging.answer(trace.format(item + load))[0] == "data_error"


def test_a_file_that_is_not_there_is_a_wrong_name_where_a_checkpoint_was_to_be_loaded() -> None:
    trace = (
        'Traceback (most recent call last):\n  File "fit.py", line 7, in {}\n'
        "FileNotFoundError: [Errno 2] No such file or directory: '/r/best/last.pt'\n"
    )
    assert judging.answer(trace.format("resume_from_checkpoint")) == ("config_error", "change")
    assert judging.answer(trace.format("__getitem__"))[0] == "data_error"


def test_a_crash_that_a_live_training_went_on_after_ends_none_of_what_was_said_before_it() -> None:
    died = "W pool: loader 3 died: exitcode=-11\nFatal Python error: Segmentation fault\n\nW pool: loader 3 began anew\n"
    assert judging.answer(_STEPS + died + _MORE, process="running") == ("none", "none")
    assert judging.answer(_STEPS + died + _MORE, exit_code=0) == ("none", "none")
    assert judging.answer(_STEPS + died, exit_code=139)[0] == "segfault"


_LOST = "ERROR - background save of step 50 failed: no route\n"
_MORE = "".join(f"step {n} | loss {3 - n / 100:.2f}\n" for n in range(60, 110, 10))


def test_a_live_run_whose_saves_fail_is_told_of_until_one_does_not() -> None:
    assert judging.answer(_STEPS + _LOST + _MORE, process="running") == ("io_error", "hold")
    saved = "Saving model checkpoint to /out/checkpoint-60\n"
    assert judging.answer(_STEPS + _LOST + saved + _MORE, process="running") == ("none", "none")
    assert judging.answer(_STEPS + _LOST + _MORE + "Training completed in 0:41:07\n", exit_code=0) == (
        "none",
        "none",
    )


def test_a_bus_error_in_a_mapped_file_is_no_lack_of_shared_memory() -> None:
    dump = "Fatal Python error: Bus error\n\nCurrent thread 0x00007f2 (most recent call first):\n"
    mapped = '  File "/w/corpus/memmap_shards.py", line 12 in __getitem__\n'
    other = '  File "/w/corpus/queue.py", line 12 in put\n'
    assert judging.answer(_STEPS + dump + mapped, exit_code=135) == ("data_error", "hold")
    assert judging.answer(_STEPS + dump + other, exit_code=135) == ("shm", "change")


def test_an_exception_said_in_passing_counts_where_nothing_else_speaks() -> None:
    said = "shards.reader: KeyError: 'tokens'\n"
    assert judging.answer(_STEPS + said) == ("exception", "hold")
    assert judging.answer(_STEPS + said + _MORE, exit_code=0) == ("none", "none")
    assert (
        judging.answer(_STEPS + said + "Segmentation fault (core dumped)\n", exit_code=139)[0] == "segfault"
    )


_IDLE = {"process": "running", "silent_s": 9000, "gpu_util": 0}


@pytest.mark.parametrize(
    ("end", "verdict"),
    [
        (
            "{'train_runtime': 812.4, 'train_loss': 1.1, 'epoch': 1.0}\nstep 50 | loss 2.50\n",
            ("gpu_idle", "hold"),
        ),
        ("Training finished.\n", ("gpu_idle", "hold")),
        ("wandb: Network error (ReadTimeout), entering retry loop.\n", ("hub_network", "wait")),
        ("", ("hang", "restart")),
    ],
    ids=["its-end-mark", "its-own-word", "a-tracker-that-does-not-answer", "nothing"],
)
def test_a_live_run_without_new_steps_is_no_hang_where_it_is_done_or_waits_for_its_tracker(end, verdict):
    assert judging.answer(_STEPS + end, **_IDLE) == verdict


def test_a_tracker_that_is_tried_again_is_no_failure_of_a_run_that_goes_on():
    later = "".join(f"step {n} | loss 2.1\n" for n in range(60, 90, 10))
    retried = "wandb: Network error (ConnectTimeout), entering retry loop.\n"
    assert judging.answer(_STEPS + retried + later, process="running") == ("none", "none")
    assert judging.answer(_STEPS + retried, process="running") == ("none", "none")


_PREEMPTED = "slurmstepd: error: *** STEP 52.0 ON a1 CANCELLED AT 2031-01-02T03:04:05 DUE TO PREEMPTION ***\n"


@pytest.mark.parametrize("context", [{"state": "CANCELLED"}, {}], ids=["state", "log-alone"])
def test_the_schedulers_word_that_it_ended_the_job_counts_though_a_script_left_with_zero(context):
    assert judging.answer(_STEPS + _PREEMPTED, exit_code=0, **context) == ("preempted", "restart")
    assert (
        judging.answer(_STEPS + "Training finished.\n" + _PREEMPTED, exit_code=0, **context)[1] != "restart"
    )


def test_a_numbered_banner_of_a_script_begins_a_new_attempt():
    broken = "Traceback (most recent call last):\n  File \"t.py\", line 2, in <module>\nModuleNotFoundError: No module named 'x'\n"
    node = "slurmstepd: error: *** JOB 7 ON a1 CANCELLED AT 2031-01-02T03:04:05 DUE TO NODE FAILURE ***\n"
    log = "#### run 1 ####\n" + broken + "#### run 2 ####\n" + _STEPS + node
    assert judging.answer(log, state="NODE_FAIL") == ("node_failure", "restart_elsewhere")


_BUSY = (
    '2: Traceback (most recent call last):\n2:   File "t.py", line 2, in <module>\n'
    "2: torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable\n"
)
_BEGIN = "".join(f"{n}: Initializing distributed: GLOBAL_RANK: {n}, MEMBER: {n + 1}/4\n" for n in (0, 1, 3))
_OWN = "1: Traceback (most recent call last):\n1:   File \"t.py\", line 9, in <module>\n1: KeyError: 'x'\n"


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (_BUSY + _BEGIN, "driver"),
        (_BEGIN + _BUSY + _BEGIN + _OWN, "exception"),
        (
            _BUSY + "0: Map (num_proc=8):  12%|#2        | 12000/100000 [00:10<01:20, 1100.0 examples/s]\n",
            "driver",
        ),
    ],
    ids=["others-start-late", "all-start-again", "others-prepare-data"],
)
def test_a_start_of_other_ranks_is_a_new_attempt_only_where_they_had_started_before(log: str, cause: str):
    torn = "0: slurmstepd: error: *** STEP 41807.0 ON c17 CANCELLED AT 2032-10-02T08:00:31 ***\n"
    assert judging.answer(log + torn)[0] == cause


def test_a_first_start_without_checkpoint_is_not_why_a_rank_crashed():
    fresh = "WARNING: could not find the metadata file /c/latest_checkpointed_iteration.txt\n"
    table = (
        "Root Cause (first observed failure):\n  rank      : 1 (local_rank: 1)\n  exitcode  : -11 (pid: 7)\n"
    )
    crash = table + "  traceback : Signal 11 (SIGSEGV) received by PID 7\n"
    assert judging.answer(fresh + crash)[0] == "segfault"
    assert judging.answer(fresh)[0] == "config_error"


def test_a_live_run_that_restores_a_checkpoint_is_given_the_time_of_a_long_phase():
    reading = "I0102 03:04:05 loader.py:8] Restoring checkpoint step-700\nI0102 03:04:09 loader.py:9] read 3 of 50 GB\n"
    assert judging.answer(reading, process="running", silent_s=900, gpu_util=0) == ("none", "none")
    assert judging.answer(reading, process="running", silent_s=9000, gpu_util=0)[0] == "hang"


def test_a_verdict_without_a_line_cites_no_empty_one():
    case = {"id": "x", "context": {"process": "running", "silent_s": 9000}, "log": "loading\n"}
    (found,) = bench_diagnose.predictions([case], ".")
    assert found["cause"] == "hang"
    assert all(found["evidence"])


def test_a_loss_of_zero_without_gradient_does_not_heal_one_that_was_no_number():
    def line(batch: int, loss: str, norm: str) -> str:
        return (
            f"2031-01-02 03:04:05,678 - mmdet - INFO - Epoch [2][{batch}/900]\tlr: 1e-04, eta: 2:03:04, "
            f"time: 0.7, loss_cls: 0.1, loss: {loss}, grad_norm: {norm}\n"
        )

    log = line(50, "3.1", "20.1") + line(100, "nan", "nan") + line(150, "0.0000", "nan")
    broken = 'Traceback (most recent call last):\n  File "a.py", line 9, in match\nKeyError: (nan, 4)\n'
    assert judging.answer(log + broken) == ("numerical_instability", "hold")


_ASKED = "[rank: 0] Received SIGTERM: 15\n"
_NEXT = "step 60 | loss 2.31\n"


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (_STEPS + _ASKED, "cancelled"),
        (_STEPS + _ASKED + _NEXT, "cancelled"),
        (_STEPS + _ASKED + _NEXT + "step 70 | loss 2.30\n", "none"),
        (_STEPS + _ASKED + "Training completed in 0:41:07\n", "none"),
    ],
    ids=["at-once", "after-the-step-under-way", "went-on", "had-ended"],
)
def test_a_program_that_obeys_a_sigterm_and_exits_with_0_did_not_finish(log, cause) -> None:
    assert judging.answer(log, exit_code=0)[0] == cause


def _missing(path: str, *frames: str) -> str:
    stack = "".join(
        f'  File "{frame}", line 7, in {where}\n' for frame, _, where in (f.partition(" ") for f in frames)
    )
    return f"Traceback (most recent call last):\n{stack}FileNotFoundError: [Errno 2] No such file or directory: '{path}'\n"


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (
            _missing("taskset", "/w/go.py <module>", "/usr/lib/python3.12/subprocess.py _execute_child"),
            "config_error",
        ),
        (_missing("taskset", "/w/go.py <module>", "/w/corpus.py read_all"), "data_error"),
        (_missing("/out/a/ckpt_9.pt", "/w/go.py <module>"), "config_error"),
        (_missing("/corpus/part_9.pt", "/w/go.py <module>"), "data_error"),
        (_missing("/out/checkpoint-9/trainer_state.json", "/w/go.py <module>"), "checkpoint_corrupt"),
    ],
    ids=["program", "directory", "weights", "data", "part-of-a-checkpoint"],
)
def test_a_file_that_is_not_there_is_what_its_name_and_its_frames_say(log, cause) -> None:
    assert judging.answer(log, exit_code=1)[0] == cause
