"""Plain sentences of programs that no rule knows: said as an error of a log, and raised as a message."""

import pytest

from corpus import judging

_STEPS = "step 10 loss 2.1\nstep 20 loss 2.0\n"
_RAISED = (
    'Traceback (most recent call last):\n  File "/srv/train/fit.py", line 88, in <module>\n    main()\n'
    '  File "/srv/train/fit.py", line 61, in main\n    raise err\nRuntimeError: {}\n'
)
_SENTENCES = [
    ("card 3 ran out of VRAM during the warm-up", "gpu_oom", "change"),
    ("unable to reserve 3 GB on the accelerator", "gpu_oom", "change"),
    ("not enough host memory for the cache of pages", "host_oom", "change"),
    ("scratch /fast is full", "disk_full", "hold"),
    ("the file quota of this group is used up", "disk_full", "hold"),
    ("document 1190 of wiki.db cannot be decoded", "data_error", "hold"),
    ("the snapshot was saved on 8 machines, but this run has 6", "checkpoint_mismatch", "change"),
    ("the checkpoint used a pipeline of 4 but the current one is 2", "checkpoint_mismatch", "change"),
    ("rank 12 never joined the barrier", "distributed_timeout", "restart"),
    ("no sign of life from rank 7 for 300 s", "distributed_timeout", "restart"),
    ("the remote worker dropped the connection", "network", "restart"),
    ("could not look up the address of head-0", "network", "wait"),
    ("no GPUs are visible", "driver", "change"),
    ("the NVIDIA driver is older than this build wants", "driver", "change"),
    ("compute capability 5.2 is not supported", "config_error", "change"),
    ("the licence has expired", "auth", "hold"),
    ("bucket answered 403", "auth", "hold"),
    ("the token has expired", "auth", "hold"),
    ("registry said 502", "network", "wait"),
    ("the hub has no such revision: 404", "config_error", "change"),
    ("GPU 5 was lost", "gpu_hardware", "restart_elsewhere"),
    ("host c12 is shutting down", "node_failure", "restart_elsewhere"),
    ("storage backend stopped responding", "io_error", "restart"),
    ("child 3 died of a segmentation fault", "segfault", "restart"),
]


@pytest.mark.parametrize(("sentence", "cause", "action"), _SENTENCES)
@pytest.mark.parametrize("front", ["FATAL: ", "2031-05-01 10:00:00,120 ERROR fit - "])
def test_a_sentence_that_a_log_calls_an_error_tells_the_cause(front, sentence, cause, action):
    assert judging.answer(f"{_STEPS}{front}{sentence}\n") == (cause, action)


@pytest.mark.parametrize(("sentence", "cause", "action"), _SENTENCES)
def test_so_does_the_message_of_an_exception_whose_class_tells_nothing(sentence, cause, action):
    assert judging.answer(_STEPS + _RAISED.format(sentence)) == (cause, action)


@pytest.mark.parametrize(("sentence", "cause", "action"), _SENTENCES)
def test_what_was_said_before_weighs_less_than_what_was_raised(sentence, cause, action):
    log = f"{_STEPS}ERROR: {sentence}\n{_STEPS}" + _RAISED.format("the plan has no stages")
    assert judging.answer(log) == ("exception", "hold")


@pytest.mark.parametrize(("sentence", "cause", "action"), _SENTENCES)
def test_a_run_that_goes_on_behind_it_is_well(sentence, cause, action):
    steps = "".join(f"step {n} loss 1.{n}\n" for n in range(30, 90, 10))
    assert judging.answer(f"{_STEPS}ERROR: {sentence}\n{steps}training finished\n", 0) == ("none", "none")


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("WARN received SIGTERM: the spot machine will be reclaimed in 30 s", "preempted"),
        ("got an eviction notice from the pool", "preempted"),
        ("INFO got SIGINT, saving and leaving", "cancelled"),
    ],
)
def test_who_was_told_to_leave_says_by_whom(line, cause):
    assert judging.answer(f"{_STEPS}{line}\n", 143)[0] == cause


def test_a_stub_of_the_driver_is_found_by_a_path_that_other_nodes_share():
    stub = "Unexpected error from cudaGetDeviceCount(). Error 34: CUDA driver is a stub library"
    assert judging.answer(_RAISED.format(stub)) == ("driver", "change")


def test_a_dump_that_an_error_of_nccl_asks_for_is_no_time_out():
    front = "[rank0]:[E1129 12:21:55.8 ProcessGroupNCCL.cpp:612] [Rank 0] "
    log = (
        f"{_STEPS}{front}Collective WorkNCCL(SeqNum=36, OpType=ALLREDUCE, NumelIn=6, NumelOut=6, Timeout(ms)=600000) raised"
        " the following async exception: NCCL error: remote process exited or there was a network error, NCCL version 2.29.7\n"
        f"{front}First PG on this rank to signal dumping.\n"
        f"{front}Received a dump signal due to a collective timeout from this local rank and we will try our best to dump.\n"
        "E1129 12:21:56.1 597 torch/distributed/elastic/multiprocessing/api.py:986] failed (exitcode: -9) local_rank: 2"
        " (pid: 603) of binary: python3\nRoot Cause (first observed failure):\n[0]:\n  rank      : 2 (local_rank: 2)\n"
        "  exitcode  : -9 (pid: 603)\n"
    )
    assert judging.blame(log) == ("killed", "restart", 2)


@pytest.mark.parametrize(
    "line",
    [
        *(f"INFO fit: {sentence}" for sentence, _, _ in _SENTENCES),
        "  W upload part 5: HTTP 503 SlowDown, once more",
        "HTTP 404 for a.bin",
    ],
)
def test_what_no_front_calls_an_error_tells_nothing_of_a_live_run(line):
    log = f"{_STEPS}{line}\nshard 1/9 written\nshard 2/9 written\n"
    assert judging.answer(log, exit_code=None, process="running", silent_s=13) == ("none", "none")
