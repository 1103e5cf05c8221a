"""Whole logs through reader and judge: the first cause is named, echoes and survived faults are not."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runward import ports
from runward.app import diagnose as app
from runward.core import context, diagnosis, failures, job, signals
from runward.wiring import diagnose as wired
from runward.wiring import log_paths

ENGINE = wired.engine()


def judged(log, ctx=None, attempt=None, cut=None, engine=ENGINE):
    data = log.encode()
    pieces = [data] if cut is None else [data[at : at + cut] for at in range(0, len(data), cut)]
    offset, chunks = 0, []
    for piece in pieces:
        chunks.append(ports.Chunk(offset, piece))
        offset += len(piece)
    logs = [app.Log(signals.Source("run.log", None, None, 2031), chunks)]
    return app.judge(engine, logs, context.from_json({"exit_code": 1} if ctx is None else ctx), attempt)


STEPS = "".join(f"step {n} | loss 2.{n} | 0.5 s/it\n" for n in range(10, 60, 10))
KEYERROR = (
    "[rank5]: Traceback (most recent call last):\n"
    '[rank5]:   File "/srv/m/fit.py", line 90, in step\n'
    "[rank5]:     y = table[word]\n"
    "[rank5]: KeyError: 'unk'\n"
)
PEERS = "".join(
    f"[rank{r}]: torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:1970, remote process exited"
    " or there was a network error, NCCL version 2.20.5\n"
    for r in range(5)
)


def test_the_rank_that_raised_is_named_before_those_that_lost_it():
    found = judged(STEPS + PEERS + KEYERROR + PEERS)
    assert (found.verdict.cause, found.verdict.rank, found.verdict.action) == ("exception", 5, "hold")
    assert found.evidence[0].text.endswith("KeyError: 'unk'")
    assert found.verdict.root == "python_exception:KeyError@/srv/m/fit.py:90 in step"
    assert any(echo.rule == "nccl_error_line" for echo in found.echoes)


@pytest.mark.parametrize("times", [3, 40, 400])
def test_a_known_failure_of_many_ranks_without_names_stays_what_it_is(times):
    lost = PEERS.splitlines()[0].removeprefix("[rank0]: ")
    log = STEPS + f"Traceback (most recent call last):\n  File 'fit.py', line 9, in step\n{lost}\n" * times
    assert judged(log).verdict.cause == "nccl_error"


LOST = (
    "[rank0]: RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:38032\n"
)


EXITED, KILLED = "srun: error: n1: task 0: Exited with exit code 1\n", "srun: error: n2: task 1: Killed\n"
BAD_EXIT = "srun: launch/slurm: _step_signal: Terminating StepId=21.4\n"
ABORTED = "srun: Job step aborted: Waiting up to 4 seconds for job step to finish.\n"
CANCELLED = "slurmstepd-n1: error: *** STEP 21.5 ON n1 CANCELLED AT 2026-11-28T12:29:31 ***\n"
FORCED = "srun: Force Terminated StepId=21.0\n"


@pytest.mark.parametrize(
    ("ends", "cause", "rank"),
    [
        (KILLED + EXITED, "killed", 1),
        (EXITED + KILLED + FORCED, "killed", 1),
        (EXITED + BAD_EXIT + KILLED + FORCED, "network", 1),
        (EXITED + BAD_EXIT + ABORTED + KILLED, "network", 1),
        (ABORTED + CANCELLED + KILLED, "network", 1),
        (CANCELLED + "step 9 loss 2.0\nstep 10 loss 2.0\n" + LOST + EXITED + KILLED, "killed", 1),
    ],
    ids=[
        "first",
        "after a peer",
        "bad exit",
        "waited for",
        "step cancelled",
        "an earlier step was cancelled",
    ],
)
def test_a_task_that_srun_names_as_killed_is_the_root_unless_srun_ended_the_step_before(ends, cause, rank):
    found = judged(STEPS + LOST + ends)
    assert (found.verdict.cause, found.verdict.rank) == (cause, rank)


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (STEPS + "step 60/100 | loss 2.0\n", "time_limit"),
        (STEPS + "step 100/100 | loss 2.0\n", "none"),
        (STEPS + "[after training is done] datetime: 2026-11-28 01:00:00\n", "none"),
    ],
)
def test_a_training_that_came_to_its_end_near_its_limit_was_not_ended_by_it(log, cause):
    limit = {"source": "scheduler", "fact": "time_limit", "detail": "SIGTERM is sent 300 s before it"}
    assert judged(log, {"exit_code": 0, "witnesses": [limit]}).verdict.cause == cause
    assert judged(log, {"exit_code": 143, "witnesses": [limit]}).verdict.cause == "time_limit"


def test_evidence_names_line_and_byte_offset():
    log = STEPS + "RuntimeError: CUDA error: out of memory\n"
    found = judged(log)
    assert found.evidence[0].line == 6
    assert log.encode()[found.evidence[0].offset :].startswith(b"RuntimeError: CUDA error")


@pytest.mark.parametrize("cut", [1, 7, 64, 1000])
def test_cutting_a_log_anywhere_changes_nothing(cut):
    log = STEPS + KEYERROR + PEERS
    whole, pieces = judged(log), judged(log, cut=cut)
    assert whole == pieces


def test_a_caught_exception_that_training_went_on_after_is_no_failure():
    log = KEYERROR + STEPS
    assert judged(log, {"process": "running"}).verdict.cause == "none"
    assert judged(log, {"exit_code": 0}).verdict.cause == "none"
    assert judged(log, {"exit_code": -9}).verdict.cause == "killed"


def test_the_crash_of_an_earlier_attempt_is_no_evidence():
    old = KEYERROR + "srun: error: n1: task 5: Exited with exit code 1\n"
    log = STEPS + old + "[launcher] attempt 2\n" + STEPS + "OSError: [Errno 28] No space left on device\n"
    assert judged(log).verdict.cause == "disk_full"
    assert judged(log, attempt=1).verdict.cause == "exception"
    assert judged(STEPS + old + "[launcher] attempt 2\n" + STEPS).verdict.cause == "unknown"


@pytest.mark.parametrize(
    ("ctx", "cause", "certainty"),
    [
        ({"exit_code": 137}, "killed", "possible"),
        ({"exit_code": 137, "docker": "OOMKilled=false"}, "killed", "possible"),
        ({"exit_code": 137, "scheduler": "slurm", "state": "PREEMPTED"}, "preempted", "proven"),
        ({"exit_code": 137, "scheduler": "slurm", "state": "OUT_OF_MEMORY"}, "host_oom", "proven"),
        ({"exit_code": 137, "k8s": {"reason": "OOMKilled"}}, "host_oom", "proven"),
        ({"exit_code": 137, "witnesses": [{"source": "cgroup", "fact": "oom_kill"}]}, "host_oom", "proven"),
    ],
)
def test_137_is_out_of_memory_only_with_a_witness(ctx, cause, certainty):
    found = judged(STEPS, ctx)
    assert (found.verdict.cause, found.verdict.certainty) == (cause, certainty)


def test_a_counter_that_did_not_rise_is_shown_against_the_verdict():
    ctx = {
        "exit_code": 137,
        "witnesses": [{"source": "cgroup", "fact": "no_oom_kill", "detail": "oom_kill 0 -> 0"}],
    }
    assert judged(STEPS, ctx).counter_evidence[0].text == "oom_kill 0 -> 0"


def test_the_rank_that_never_came_to_the_collective_is_named():
    log = STEPS
    for rank in range(8):
        enqueued = 52 if rank == 3 else 54
        log += (
            f"[rank{rank}]:[E101 21:12:44.8 ProcessGroupNCCL.cpp:1914] [PG ID 0 Rank {rank}] Received a dump signal due"
            f" to a collective timeout. Last enqueued NCCL work: {enqueued}, last completed NCCL work: 52.\n"
        )
    found = judged(log + "step 60 | loss 2.6 | 75 s/it\n")
    assert (found.verdict.cause, found.verdict.rank, found.verdict.action) == ("hang", 3, "restart")


def test_unknown_shows_the_unusual_lines_once_and_numbered_instead_of_a_guess():
    log = STEPS * 40 + "flux capacitor misaligned in sector 7\n" + STEPS
    found = judged(log)
    assert found.verdict.cause == "unknown"
    assert "flux capacitor misaligned in sector 7" in found.extra["unusual"]
    shown = {one.offset: one for one in found.evidence}
    assert len(shown) == len(found.evidence)
    lines = log.splitlines()
    assert all(lines[one.line - 1] == one.text for one in shown.values())


@pytest.mark.parametrize(
    ("log", "cause", "certainty"),
    [
        ("step 1/3 loss 2\nstep 2/3 loss 2\nstep 3/3 loss 1\n", "none", "likely"),
        ("step 1/3 loss 2\nTraining completed.\n", "none", "likely"),
        ("step 1/3 loss 2\nstep 2/3 loss 2\n", "unknown", "possible"),
    ],
)
def test_an_exit_that_nobody_saw_is_a_good_end_only_where_the_training_says_so(log, cause, certainty):
    logs = [app.Log(signals.Source("run.log"), [ports.Chunk(0, log.encode())])]
    found = app.judge(ENGINE, logs, context.Context(exit=job.ExitStatus.unseen(), running=False))
    assert (found.verdict.cause, found.verdict.certainty) == (cause, certainty)


def test_a_spike_before_an_early_stop_is_instability():
    rows = "".join(f"step {n} | loss 2.1 | grad_norm 0.5\n" for n in range(1, 9))
    log = rows + "step 9 | loss 7.9 | grad_norm 412.0\nEarly stopping triggered at step 9\n"
    found = judged(log)
    assert (found.verdict.cause, found.verdict.action) == ("numerical_instability", "hold")


OWN = """
family: own
rules:
- {name: own_shard, pattern: shard is torn, role: root, cause: data_error, weight: 70, says: damaged}
- {name: own_mount, pattern: no such share, role: root, cause: io_error, weight: 70, action: hold, alone: wait}
- {name: own_pump, pattern: coolant pump slows, role: root, cause: gpu_hardware, weight: 70, live: true, running: true}
- {name: own_upload, pattern: upload was lost, role: root, cause: io_error, weight: 70, live: true, phase: checkpoint}
- {name: own_launcher, pattern: 'first to fall: (?P<rank>[0-9]+)', role: advice, says: ended_first}
"""
RANKS = "".join(
    f"[rank{rank}]: ready\n[rank{rank}]: no such port, asking again: Connection refused\n"
    for rank in range(8)
)
LIVE = {"process": "running"}


@pytest.mark.parametrize(
    ("log", "ctx", "said"),
    [
        ("RuntimeError: shard is torn: /d/a.parquet\n", None, ("data_error", "hold", None)),
        ("loading /d/checkpoints/7: shard is torn\n", None, ("checkpoint_corrupt", "resume_previous", None)),
        (RANKS + "[rank3]: no such share\n", None, ("io_error", "wait", 3)),
        (RANKS + "[rank3]: no such share\n[rank4]: no such share\n", None, ("io_error", "hold", 3)),
        (STEPS + "coolant pump slows\n", LIVE, ("gpu_hardware", "restart_elsewhere", None)),
        (STEPS + "coolant pump slows\n", None, ("unknown", "restart", None)),
        (STEPS + "upload was lost\n", LIVE, ("io_error", "restart", None)),
        (STEPS + "upload was lost\nsaving checkpoint to /c/8\n", LIVE, ("none", "none", None)),
        (STEPS + "first to fall: 6\n", {"exit_code": 137}, ("killed", "restart", 6)),
    ],
)
def test_what_a_users_rule_declares_is_acted_on(tmp_path, log, ctx, said):
    (tmp_path / "own.yaml").write_text(OWN)
    engine = wired.engine([str(tmp_path / "own.yaml")])
    found = judged(log, ctx, engine=engine)
    assert (found.verdict.cause, found.verdict.action, found.verdict.rank) == said


def test_secrets_do_not_leave():
    found = judged(
        "ValueError: cannot log in at https://bob:hunter22@host/ with HF_TOKEN=hf_abcdefghijklmnopqrst\n"
    )
    text = json.dumps(found.to_json("x"))
    assert "hunter22" not in text
    assert "hf_abcdefgh" not in text


def test_logs_of_several_ranks_are_put_in_order_by_corrected_time():
    def rank_log(rank, skew, last):
        rows = "".join(f"2031-05-01 10:0{m}:{skew:02d} step {m * 10} loss 2.0\n" for m in range(1, 6))
        data = (rows + last).encode()
        return app.Log(signals.Source(f"rank{rank}.log", rank, None, 2031), [ports.Chunk(0, data)])

    first = rank_log(0, 40, "2031-05-01 10:06:41 ValueError: second, on a clock that is 40 s ahead\n")
    second = rank_log(1, 0, "2031-05-01 10:06:00 KeyError: 'first'\n")
    assert app.judge(ENGINE, [first, second], context.Context()).verdict.rank == 1
    late = rank_log(1, 0, "2031-05-01 10:06:05 KeyError: 'later by true time'\n")
    assert app.judge(ENGINE, [first, late], context.Context()).verdict.rank == 0


def test_every_cause_has_an_action_and_every_answer_is_json():
    for cause in failures.Cause:
        found = judged(STEPS, {"state": "FAILED"})
        assert json.dumps(found.to_json("x"))
        assert cause in failures.Cause


WORDS = [rule.match[0] for rule in wired.rulesets.full(user=False).rules if rule.match]


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(WORDS), st.binary(max_size=60).map(lambda b: b.decode("latin-1")), st.just(STEPS)
        ),
        max_size=12,
    ),
    st.integers(1, 4000),
    st.dictionaries(
        st.sampled_from(
            ["exit_code", "state", "k8s", "docker", "process", "silent_s", "gpu_util", "witnesses", "node"]
        ),
        st.one_of(
            st.none(), st.integers(-300, 300), st.text(max_size=12), st.lists(st.integers(), max_size=2)
        ),
        max_size=5,
    ),
)
def test_no_log_and_no_context_makes_it_raise(rows, cut, ctx):
    found = judged("\n".join(rows), ctx, cut=cut)
    assert json.dumps(found.to_json("x"))


def test_a_casebook_stays_small_whatever_is_read():
    book = app.read(
        ENGINE,
        [
            app.Log(
                signals.Source("x", None, None, 2031),
                (
                    ports.Chunk(n * 1000, (f"[rank{n}]: KeyError: 'a'\n" * 6).encode()[:1000])
                    for n in range(4300)
                ),
            )
        ],
    )
    assert len(book.buckets) <= 4096 + len({rule for rule, _ in book.buckets})  # beyond it one a rule
    assert sum(len(edges.head) + len(edges.tail) for edges in book.edges.values()) <= 128 << 10


def _long(tmp_path, middle=""):
    line = (
        "[2026-11-02 10:00:00] iteration {}/ 90000 | lm loss: 2.1 | grad norm: 0.5 | learning rate: 1E-4 |\n"
    )
    lines = [line.format(step) for step in range(1, 60_001)]
    lines[30_000:30_000] = [middle] if middle else []
    (tmp_path / "long.log").write_text("".join(lines))
    assert (tmp_path / "long.log").stat().st_size > 5 << 20  # several pieces that say the same
    return log_paths.open_log(str(tmp_path / "long.log"), [])


def test_of_a_long_healthy_log_the_first_and_the_last_step_are_known_and_little_is_judged(tmp_path):
    book = app.read(ENGINE, [_long(tmp_path)])
    assert (book.span().first_step, book.span().last_step) == (1, 60_000)
    assert book.order < 1200
    assert diagnosis.diagnose(book, context.from_json({"exit_code": 0})).verdict.cause == "none"


def test_a_fault_in_the_middle_of_a_long_log_is_seen_with_what_came_after_it(tmp_path):
    fault = 'Traceback (most recent call last):\n  File "a.py", line 3, in f\nKeyError: 7\n'
    book = app.read(ENGINE, [_long(tmp_path, fault)])
    assert [found.name for found in book.first_tracebacks] == ["KeyError"]
    steps = [entry.signal.fields["step"] for entry in book.entries(signals.Role.PROGRESS)]
    assert steps[-1] == "60000"
    assert max(advance.step for advance in book.advances) == 60_000
    assert diagnosis.diagnose(book, context.from_json({"exit_code": 0})).verdict.cause == "none"
