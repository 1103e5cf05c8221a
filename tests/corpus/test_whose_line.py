"""Whose line it is, where the line itself does not say so: bound speakers, local numbers, tables, named culprits."""

import pytest

from corpus import judging

_TRACE = 'Traceback (most recent call last):\n  File "fit.py", line 7, in step\n'


def _fault(front: str) -> str:
    return judging.said(front, _TRACE + "KeyError: 'pixel_mask'")


@pytest.mark.parametrize(
    ("front", "rank"),
    [
        ("(TrainWorker pid=70, ip=10.9.0.4) ", "[rank6] "),
        ("(TrainWorker pid=70) ", "[rank6]: "),
        ("[gpu-3:48213] ", "[rank6] "),
        ("gpu-3:48213:48999 [1] ", "[rank6] "),
    ],
    ids=["ray", "ray-head", "host-and-pid", "nccl"],
)
@pytest.mark.parametrize("text", ["step 4/90 | loss 2.1", "tokenizer is ready"], ids=["step", "other"])
def test_a_speaker_that_says_its_rank_once_is_that_rank_in_its_other_lines(front, rank, text) -> None:
    log = judging.said(f"{front}{rank}", text) + judging.said(
        "(TrainWorker pid=71, ip=10.9.0.5) [rank1] ", text
    )
    assert judging.guess(log + _fault(front)) == ("exception", 6)


def test_a_speaker_that_says_two_ranks_binds_nothing() -> None:
    front = "(Driver pid=70, ip=10.9.0.4) "
    log = judging.said(f"{front}[rank6] ", "step 4/90 | loss 2.1") + judging.said(
        f"{front}[rank7] ", "step 4/90 | loss 2.1"
    )
    assert judging.guess(log + _fault(front)) == ("exception", None)


_BOTH = judging.said("[n0:0] [rank0]: ", "step 4/90 | loss 2.1") + judging.said(
    "[n1:2] [rank6]: ", "step 4/90 | loss 2.1"
)


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        (_BOTH + _fault("[n3:1] "), 13),
        (_BOTH + _fault("[n1:2] "), 6),
        (_BOTH + _fault("[n1:3] "), 7),
        (_BOTH + _fault("[spare:1] "), None),
        (judging.said("[n0:1] ", "step 4/90 | loss 2") + judging.said("[n1:1] ", "step 4/90 | loss 2") + _fault("[n1:1] "), None),
        (judging.said("[n0:3] ", "step 4/90 | loss 2") + judging.said("[n1:11] ", "step 4/90 | loss 2") + _fault("[n1:11] "), 11),
        (judging.said("[n0:0] ", "step 4/90 | loss 2") + judging.said("[n2:5] ", "step 4/90 | loss 2") + _fault("[n2:5] "), None),
        (judging.said("[n0:0] ", "step 4/90 | loss 2") + judging.said("[n1:1] ", "step 4/90 | loss 2") + _fault("[n1:1] "), 1),
        (judging.said("[n0:20] ", "step 4/90 | loss 2") + _fault("[n0:21] "), 21),
        (_fault("[gpu-3:48213] "), None),
    ],
    ids=["by-ranks-a-node", "said", "same-node", "node-without-number", "repeated", "global", "with-gaps", "one-a-node", "one-node", "a-pid"],
)  # fmt: skip
def test_a_number_beside_a_node_is_a_global_rank_only_where_nothing_speaks_against_it(log, rank) -> None:
    assert judging.guess(log) == ("exception", rank)


def test_a_local_number_behind_a_slash_is_learnt_too() -> None:
    log = judging.said("[n0/0] [rank0] ", "step 4/90 | loss 2.1") + judging.said(
        "[n1/3] [rank11] ", "step 4/90 | loss 2.1"
    )
    assert judging.guess(log + _fault("[n1/1] ")) == ("exception", 9)


def test_a_part_in_which_two_ranks_speak_is_the_log_of_neither() -> None:
    first = judging.said("[rank6]: ", "step 4/90 | loss 2.1") + judging.said(
        "[rank7]: ", "step 4/90 | loss 2.1"
    )
    log = f"==> a.txt <==\n{first}{_fault('')}==> b.txt <==\n" + judging.said(
        "[rank0]: ", "step 4/90 | loss 2.1"
    )
    assert judging.guess(log) == ("exception", None)


def test_an_exception_behind_a_node_in_brackets_is_read_as_one() -> None:
    assert (
        judging.guess(judging.said("[box-3] [rank3]: ", "step 4/90 | loss 2.1") + _fault("[box-3] "))[0]
        == "exception"
    )
    assert judging.guess(judging.said("[r5] ", "step 4/90 | loss 2.1") + _fault("[r6] ")) == ("exception", 6)


def test_a_handler_for_the_clouds_word_is_not_that_word() -> None:
    log = "step 4/90 | loss 2.1\nINFO spot instance interruption handler installed\nINFO awaiting spot interruption notices\n"
    assert judging.guess(log, process="running")[0] == "none"


def test_a_line_of_another_node_in_brackets_still_tells_its_rank() -> None:
    log = judging.said("[box-05] [rank12]: ", "step 4/90 | loss 2.1")
    log += "[box-05] kernel: NVRM: Xid (PCI:0000:1b:00): 95, pid=9, name=fit, Uncontained: FBHUB\n"
    log += "[box-05] [rank13]: torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered\n"
    assert judging.guess(log) == ("gpu_hardware", 13)


def _row(number: int, rank: int, code: int) -> str:
    return f"[{number}]:\n  time      : 2031-08-20_04:40:21\n  host      : n1\n  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: 3{rank})\n  error_file: <N/A>\n"


@pytest.mark.parametrize(
    ("words", "code", "cause"),
    [
        (
            "Fatal Python error: Segmentation fault\n\nThread 0x7f1 (most recent call first):\n",
            -11,
            "segfault",
        ),
        ("malloc(): corrupted top size\n", -6, "abort"),
        ("Fatal Python error: Bus error\n", -7, "shm"),
    ],
    ids=["segfault", "abort", "bus-error"],
)
@pytest.mark.parametrize("alone", [True, False], ids=["one-fits", "two-fit"])
def test_the_rank_of_the_failure_table_whose_exit_fits_is_the_rank_else_the_first_one(
    words, code, cause, alone
) -> None:
    rows = [_row(1, 2, code), _row(0, 1, 1)] if alone else [_row(1, 1, code), _row(0, 2, code)]
    table = f"Failures:\n{rows[0]}Root Cause (first observed failure):\n{rows[1]}"
    log = judging.said("[rank0]: ", "step 4/90 | loss 2.1") + words + table
    assert judging.guess(log) == (cause, 2)


@pytest.mark.parametrize(
    "log",
    [
        judging.said(
            "[rank0]: ",
            "CheckpointException ranks:dict_keys([5])\nTraceback (most recent call last): (RANK 5)",
        )
        + judging.said(
            "[rank0]: ", '  File "w.py", line 3, in write\nOSError: [Errno 28] No space left on device'
        ),
        "OSError: [Errno 28] No space left on device\nCheckpointException ranks:dict_keys([5])\n",
        "[Rank 5 Error Snippet]:\n" + _TRACE + "OSError: [Errno 28] No space left on device\n",
    ],
    ids=["gathered", "named", "ray-train"],
)
def test_a_message_that_names_the_culprit_is_believed_over_the_rank_that_prints_it(log: str) -> None:
    assert judging.guess(judging.said("[rank0]: ", "step 4/90 | loss 2.1") + log) == ("disk_full", 5)


def test_a_rank_that_its_launcher_had_to_kill_is_the_silent_one_of_a_time_out() -> None:
    log = "".join(judging.said(f"{r}: [rank {r}] ", "step 4/90 | loss 2.1") for r in range(8))
    for r in (3, 0, 7, 1, 5, 2, 4):
        log += (
            f"{r}: [rank{r}]:[E903 02:10:09.94 ProcessGroupNCCL.cpp:616] [Rank {r}] Watchdog caught collective operation"
            " timeout: WorkNCCL(SeqNum=912, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600055"
            " milliseconds before timing out.\n"
        )
    log += "srun: error: n1: tasks 0-5,7: Aborted (core dumped)\nsrun: error: n1: task 6: Killed\n"
    assert judging.guess(log) == ("nccl_timeout", 6)


@pytest.mark.parametrize(
    "word",
    ["SecondaryStatus: Interrupted - Spot Instance interruption received", "Host EC2 (instance i-0ab12cd34) terminated.",
     "Low-priority node tvm_3 was preempted", "WARNING the spot VM gpu-3 was evicted"],
    ids=["sagemaker", "batch", "azure", "vm"],
)  # fmt: skip
def test_the_clouds_own_word_of_taking_a_machine_back_stands_over_the_signal(word: str) -> None:
    log = f"step 4/90 | loss 2.1\n{word}\nSIGTERM received, saving to /out/44\n"
    assert judging.guess(log, exit_code=143)[0] == "preempted"


def test_a_checkpoint_without_metadata_was_never_finished() -> None:
    log = f" loading distributed checkpoint from /out/b at iteration 5500\n{_TRACE}megatron.core.CheckpointingException: "
    assert (
        judging.guess(f"{log}Cannot find checkpoint metadata: /out/b/iter_0005500/.metadata\n")[0]
        == "checkpoint_corrupt"
    )


def _losses(*ranks: tuple[int, int]) -> str:
    """Losses of steps 1 to 9 by each rank, which are no number from its second figure on."""
    return "".join(
        f"[rank{rank}]: step {step}/900 | loss {'nan' if step >= first else 2.5 - step / 100}\n"
        for step in range(1, 10)
        for rank, first in ranks
    )


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        (_losses((0, 7)), None),
        (_losses((0, 7), (1, 7)), None),
        (_losses((0, 8), (1, 8), (2, 7), (3, 8)), 2),
        (_losses((0, 99), (1, 99), (2, 7), (3, 99)), 2),
        (_losses((0, 8), (1, 7), (2, 7), (3, 8)), None),
    ],
    ids=["one-reports-for-all", "all-at-once", "one-step-before-the-others", "one-alone", "two"],
)
@pytest.mark.parametrize("context", [{"exit_code": 1}, {"process": "running"}], ids=["ended", "running"])
def test_a_loss_that_is_no_number_accuses_the_rank_where_it_was_so_first(log: str, rank, context) -> None:
    assert judging.guess(log, **context) == ("numerical_instability", rank)
