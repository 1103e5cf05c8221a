"""What a restart would only meet again, beside what looks alike and where one helps."""

import pytest

from corpus import judging

_STEPS = "".join(f"step {n} | loss {3 - n / 100:.2f}\n" for n in range(10, 60, 10))


def _event(what: str, container: str, **more: object) -> str:
    told = ", ".join(f"{key}={value}" for key, value in {**more, "image": "lab/t:9"}.items())
    return f"2031-06-01T07:00:01.2 container {what} {container} ({told})\n"


_ENDED = _event("die", "ab12cd", execDuration=90, exitCode=137)


@pytest.mark.parametrize(
    ("told", "cause"),
    [
        (_event("oom", "ab12cd") + _ENDED, "host_oom"),
        (_event("oom", "ab12cd"), "host_oom"),
        (_event("oom", "99ff00") + _ENDED, "killed"),
        (_event("exec_start", "ab12cd") + _ENDED, "killed"),
        ("$ docker events --filter event=oom --since 1h\n" + _ENDED, "killed"),
    ],
    ids=["its-own", "nobody-died", "anothers", "none", "only-asked"],
)
def test_the_engines_event_of_a_kill_for_memory_counts_for_its_own_container(told: str, cause: str) -> None:
    assert judging.answer(_STEPS + told, 137)[0] == cause


_LOST = "slurmstepd: error: *** STEP 77.0 ON k3 CANCELLED AT 2031-06-01T07:00:00 DUE TO NODE FAILURE ***\n"
_RAISED = (
    'Traceback (most recent call last):\n  File "fit.py", line 4, in <module>\n    go()\nNameError: sched\n'
)
_MORE = "".join(f"step {n} | loss {3 - n / 100:.2f}\n" for n in range(60, 200, 10))


@pytest.mark.parametrize(
    ("between", "cause"),
    [
        ("==== requeue #2 ====\nstep 60 | loss 2.4\n", "exception"),
        (_MORE, "exception"),
        ("step 60 | loss 2.4\n", "node_failure"),
        ("will requeue 2 jobs\nstep 60 | loss 2.4\n", "node_failure"),
    ],
    ids=["titled", "went-on", "still-printed", "no-title"],
)
def test_a_node_that_an_earlier_attempt_lost_is_not_why_the_last_one_died(between: str, cause: str) -> None:
    assert judging.answer(_STEPS + _LOST + between + _RAISED)[0] == cause


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("========= Invalid __shared__ read of size 8 bytes\n", ("cuda_error", "hold")),
        ("========= Misaligned Shared or Local Address\n", ("cuda_error", "hold")),
        (
            "==31==ERROR: AddressSanitizer: stack-use-after-return on address 0x7f\n==31==ABORTING\n",
            ("abort", "hold"),
        ),
        ("RuntimeError: CUDA error: an illegal memory access was encountered\n", ("cuda_error", "restart")),
    ],
    ids=["memcheck", "alignment", "asan", "without-checker"],
)
def test_what_a_checker_of_memory_saw_is_the_programs_own(log: str, expected: tuple[str, str]) -> None:
    assert judging.answer(_STEPS + log) == expected


def test_a_checker_that_found_nothing_is_no_fault() -> None:
    assert (
        judging.answer("========= COMPUTE-SANITIZER\nok\n========= ERROR SUMMARY: 0 errors\n", 0)[0] == "none"
    )


@pytest.mark.parametrize(
    ("log", "action"),
    [
        ("RuntimeError: HIP error: initialization error\n", "change"),
        ("RuntimeError: Cannot re-initialize XPU in forked subprocess. To use XPU\n", "change"),
        ("RuntimeError: CUDA error: system not yet initialized\n", "restart_elsewhere"),
    ],
    ids=["in-a-copy", "said-so", "fabric"],
)
def test_a_gpu_that_is_used_after_a_fork_is_set_up_wrong(log: str, action: str) -> None:
    assert judging.answer(_STEPS + log)[1] == action


_ABORTED = "Aborted (core dumped)\n"


@pytest.mark.parametrize(
    ("log", "code", "expected"),
    [
        (
            (
                "xgboost.core.XGBoostError: [09:00:00] /b/src/objective/rank_obj.cc:12: Check failed: ok: "
                "relevance labels must be non-negative integers\n"
            ),
            1,
            ("data_error", "hold"),
        ),
        (
            (
                "xgboost.core.XGBoostError: [09:00:00] /b/src/gbm/gbtree.cc:50: Check failed: n > 0: "
                "Invalid parameter eta\n"
            ),
            1,
            ("exception", "hold"),
        ),
        (
            "terminate called after throwing an instance of 'dmlc::Error'\n"
            "  what():  [09:00:00] /b/io.cc:3: Check failed: fp: labels must have one column\n" + _ABORTED,
            134,
            ("data_error", "hold"),
        ),
        ("[LightGBM] [Fatal] Forced splits file is not valid json\n", 255, ("exception", "hold")),
        (
            "terminate called after throwing an instance of 'std::invalid_argument'\n  what():  stoi\n"
            + _ABORTED,
            134,
            ("exception", "hold"),
        ),
        (
            (
                "terminate called after throwing an instance of 'c10::Error'\n"
                "  what():  hidden size should be a multiple of the heads\n"
            ),
            134,
            ("exception", "hold"),
        ),
    ],
    ids=["labels", "parameter", "native", "lightgbm", "logic", "argument"],
)
def test_a_librarys_check_of_what_it_was_given_refuses_it_again(log, code, expected) -> None:
    assert judging.answer(_STEPS + log, code) == expected


@pytest.mark.parametrize(
    ("log", "code"),
    [
        ("[LightGBM] [Fatal] Socket recv error, Connection reset by peer (code: 104)\n", 255),
        ("terminate called after throwing an instance of 'std::runtime_error'\n  what():  eof\n", 134),
        (
            "terminate called after throwing an instance of 'std::system_error'\n  what():  Broken pipe\n",
            134,
        ),
        ("double free or corruption (!prev)\n" + _ABORTED, 134),
    ],
    ids=["peer", "stream", "pipe", "heap"],
)
def test_what_native_code_finds_of_its_heap_or_of_others_may_pass(log: str, code: int) -> None:
    assert judging.answer(_STEPS + log, code)[1] == "restart"


def _lived(first: int, last: int, end: str, **more: str) -> str:
    steps = "".join(f"iter {n} loss {9 - n / 50:.2f}\n" for n in range(first, last, 5))
    return more.get("title", "") + steps + end


_TOUCHED = "RuntimeError: CUDA error: misaligned address\n"
_CORE = "train.sh: line 3:  90 Segmentation fault      (core dumped) ./fit\n"


@pytest.mark.parametrize(
    ("log", "action"),
    [
        (_lived(5, 60, _TOUCHED) + _lived(5, 60, _TOUCHED, title="attempt 2\n"), "hold"),
        (_lived(5, 60, _CORE) + _lived(5, 60, _CORE), "hold"),
        (_lived(5, 60, _TOUCHED) + _lived(5, 90, _TOUCHED, title="attempt 2\n"), "restart"),
        (_lived(5, 60, _TOUCHED) + _lived(5, 60, _CORE, title="attempt 2\n"), "restart"),
        (_lived(5, 60, _CORE + _CORE), "restart"),
    ],
    ids=["same-step", "native", "another-step", "another-fault", "told-twice"],
)
def test_a_crash_at_the_step_of_the_one_before_comes_again(log: str, action: str) -> None:
    assert judging.answer(log)[1] == action


@pytest.mark.parametrize(
    ("command", "action"),
    [('python3 -c "from reader import cut"', "hold"), ("python3 fit.py -c reader.toml", "restart")],
)
def test_a_module_that_crashes_where_it_is_only_loaded_crashes_again(command: str, action: str) -> None:
    log = f"run.sh: line 21:  90 Segmentation fault      (core dumped) {command}\n"
    assert judging.answer(log, 139) == ("segfault", action)


def _try(number: int, where: int, exc: str = "IndexError: pop from empty list") -> str:
    return (
        f"attempt {number}\n{_lived(5, 40, '')}[rank1]: Traceback (most recent call last):\n"
        f'[rank1]:   File "pack.py", line {where}, in take\n[rank1]:     rows.pop()\n[rank1]: {exc}\n'
    )


_NOT_MET = (
    "attempt 3\n[E0304 12:00:09.1 ProcessGroupGloo.cpp:67] Gloo connectFullMesh failed with [/g/pair.cc:152] "
    "timed out connecting: SO_ERROR: Connection refused\n"
)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (_try(1, 7) + _try(2, 7) + _NOT_MET, ("exception", "hold", 1)),
        (_try(1, 7) + _NOT_MET, ("distributed_timeout", "restart", None)),
        (_try(1, 7) + _try(2, 8, "KeyError: 3") + _NOT_MET, ("distributed_timeout", "restart", None)),
        (
            _try(1, 7) + _try(2, 7) + _lived(5, 200, _NOT_MET, title="attempt 3\n"),
            ("distributed_timeout", "restart", None),
        ),
    ],
    ids=["twice", "once", "two-errors", "after-steps"],
)
def test_what_two_attempts_died_of_outweighs_that_the_third_did_not_begin(log, expected) -> None:
    found = judging.verdict(log, exit_code=1)
    assert (found.cause, found.action, found.rank) == expected


@pytest.mark.parametrize(
    ("log", "action"),
    [
        (
            "HorovodInternalError: Mismatched data types: One rank had type int8, but another rank had type half.\n",
            "hold",
        ),
        (
            "k1:7:9 [1] enqueue.cc:99 NCCL WARN Reduce : invalid root 9 (root should be in the 0..7)\n",
            "change",
        ),
        ("/b/ggml.c:12: GGML_ASSERT(a->ne[2] == 1) failed\n" + _ABORTED, "hold"),
        ("HorovodInternalError: [/g/pair.cc:58] Connection closed by peer [10.0.0.2]:4\n", "restart"),
        ("/b/ggml.c:12: GGML_ASSERT(cudaSetDevice(0) == 0) failed\n" + _ABORTED, "restart"),
    ],
    ids=["horovod", "nccl", "ggml", "peer", "device"],
)
def test_ranks_that_ask_for_different_things_do_so_again(log: str, action: str) -> None:
    assert judging.answer(_STEPS + log, 134 if _ABORTED in log else 1)[1] == action


@pytest.mark.parametrize(
    ("what", "action"),
    [
        ("could not open /corpus/a.bin: No such file or directory", "hold"),
        ("unsupported rope scaling: yarn3", "hold"),
        ("open /dev/kfd: No such file or directory", "change"),
        ("unknown error: 5", "restart"),
    ],
)
def test_what_an_uncaught_exception_of_cpp_was_about(what: str, action: str) -> None:
    log = (
        f"terminate called after throwing an instance of 'std::runtime_error'\n  what():  {what}\n{_ABORTED}"
    )
    assert judging.answer(_STEPS + log, 134)[1] == action


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (
            "box: rank0: memory.failcnt 0 oom_kill 0\nbox: rank1: memory.failcnt 9 oom_kill 2\n",
            ("host_oom", 1),
        ),
        ("memory.oom_control: oom_kill_disable 0; under_oom 0; oom_kill 3\n", ("host_oom", None)),
        ("memory.oom_control: oom_kill_disable 1; under_oom 0; oom_kill 0\n", ("killed", None)),
    ],
    ids=["of-a-rank", "first-version", "none"],
)
def test_the_counter_of_a_memory_cgroup_is_read_in_every_form(told: str, expected: tuple) -> None:
    found = judging.verdict(_STEPS + told, exit_code=137)
    assert (found.cause, found.rank) == expected


def _limited(title: str, first: int = 5) -> str:
    over = "slurmstepd: error: *** JOB 7 ON k1 CANCELLED AT 2031-06-01T07:00:00 DUE TO TIME LIMIT ***\n"
    return _lived(first, first + 40, over, title=title)


@pytest.mark.parametrize(
    ("log", "action"),
    [
        (_limited("no snapshot yet\n") * 2, "change"),
        (_limited("") + _limited("training from scratch\n"), "change"),
        (_limited("no snapshot yet\n"), "restart"),
        (_limited("no snapshot yet\n") + _limited("resuming from step 40\n", 45), "restart"),
        (_limited("no snapshot yet\n") + _limited("loaded out/last\n"), "restart"),
    ],
    ids=["twice", "said-otherwise", "once", "goes-on", "counts-anew"],
)
def test_a_limit_that_two_attempts_came_to_before_they_kept_anything_is_too_short(
    log: str, action: str
) -> None:
    found = judging.verdict(log, exit_code=143, state="TIMEOUT", scheduler="slurm")
    assert (found.cause, found.action) == ("time_limit", action)
