"""Whose failure it is: every way in which launchers and loggers name a speaker, and what binds the rest to a rank."""

import pytest

from corpus import judging

_TRACE = 'Traceback (most recent call last):\n  File "fit.py", line 7, in step\n    loss = net(x)\n'
_ECHO = (
    "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited or there was a network"
    " error, NCCL version 2.26.2"
)


@pytest.fixture
def guess():
    def ask(log, **context):
        found = judging.verdict(log, **(context or {"exit_code": 1}))
        return found.cause, found.rank

    return ask


def _steps(front: str = "", last: int = 4) -> str:
    return judging.said(front, "\n".join(f"step {step}/900 | loss 2.{step}" for step in range(1, last)))


def _fault(front: str = "", what: str = "KeyError: 'mask'") -> str:
    return judging.said(front, _TRACE + what)


_FRONTS = [
    "[rank{}]: ", "[default{}]:", "[trainer{}]: ", "[worker{}]:", "{}: ", " {}: ", "{:04d}: ", "[1,{}]<stderr>:",
    "[1,mpirank:{},algo-1]<stderr>:", "[prterun-a-1@1,{}]<stderr>: ", "[{}] ", "[{}]: ", "[RANK {}] ", "rank={} ",
    "[rank={}] ", "[rank_{}] ", "[rank-{}] ", "[R{}] ", "R{}: ", "(rank {}) ", "<rank {}> ", "(rank={}): ",
    "rank {} | ", "Rank {} - ", "rank{}> ", "[{}/8] ", "[Rank {}/8] ", "rank {}/8: ", "[global rank {}] ",
    "[global_rank={}] ", "Global rank {}: ", "[GR{}] ", "Process {}: ", "[p{}] ", "p{}: ", "[process_id={}] ",
    "[process {}/8] ", "[worker-{}]: ", "worker {}: ", "[w{}] ", "task {}: ", "[task {}] ", "task_{}: ", "[host {}] ",
    "[GPU {}] ", "2031-03-04 12:00:00,123 [rank {}] ", "2031-03-04 12:00:00,123 - ERROR - [Rank {}] ",
    "[2031-03-04 12:00:00,123] [ERROR] [engine.py:99:step] [Rank {}] ",
    "2031-03-04 12:00:00.123 | ERROR    | train:step:88 | rank={} - ",
    "2031-03-04 12:00:00.123 | ERROR    | rank{} | train:step:88 - ", "03/04/2031 12:00:00 - ERROR - train - [rank{}] ",
    "[NeMo E 2031-03-04 12:00:00 trainer:88 rank:{}] ", "{}: [NeMo E 2031-03-04 12:00:00 trainer:88] ",
    "[03/04/31 12:00:00] ERROR    colossalai - rank {} - ", "[2031-03-04 12:00:00,123] [   ERROR] rank {} - ",
    "[job-worker-{}] ", "[pod/job-worker-{}/pytorch] ", "job-worker-{} pytorch ", "worker-{}  | ", "trainer_{}_1  | ",
    "n1: {}: ", "[n1:{}] ", "node07 rank {}: ", "[n1, rank {}] ", "[trainer{}|n1]: ", "[trainer rank={} restart=0]: ",
    "[{}] E0304 12:00:00.123456 4711 train.py:88] ", "(W pid=70{0}, ip=10.9.0.{0}) [rank {0}] ",
    "(TorchTrainer rank={0} pid=70{0}) ", "[Rank {}][MainProcess] ", " > rank {}: ", "[dp_rank 0, tp_rank 1, rank {}] ",
    "app.job/0 [rank{}]: ", "app.job/0 [default0]:[rank{}]:",
]  # fmt: skip


@pytest.mark.parametrize("front", _FRONTS)
def test_a_front_that_names_a_speaker_is_read(guess, front: str) -> None:
    mine, other = front.format(5), front.format(0)
    log = _steps(other) + _steps(mine) + _fault(other, _ECHO) + _fault(mine)
    assert guess(log) == ("exception", 5)


@pytest.mark.parametrize(
    "line", ["[3/7] c++ -c a.cc", "[12] see the notes", "[epoch 3] evaluating", "gpu3: "]
)
def test_what_only_looks_like_a_front_names_nobody(guess, line: str) -> None:
    assert guess(_steps() + f"{line}\nRuntimeError: Error building extension 'a'\n")[1] is None
    assert guess(_steps() + "[3/7] OSError: [Errno 28] No space left on device\n") == ("disk_full", None)


_KILLED = "[812.1] Memory cgroup out of memory: Killed process 7005 (python3) total-vm:8kB, anon-rss:4kB\n"


@pytest.mark.parametrize(
    "told",
    [
        "n1:{p}:{p}9 [{r}] NCCL INFO ncclCommInitRank comm 0x5{r} rank {r} nranks 8 cudaDev {r} nvmlDev {r} busId {r}b000 - Init COMPLETE",
        "[rank {r}] pid={p} host=n1 device=cuda:{r}",
        "started rank {r} (pid {p})",
        "Process {p}: rank {r} local_rank {r} world_size 8",
        "[launch.py:256:main] process {p} spawned with command: ['python', 'train.py', '--local_rank={r}']",
        '{{"level":"info","rank":{r},"pid":{p},"msg":"hello"}}',
        "(Head pid=9) - (node_id=a, ip=10.0.0.1, pid={p}) world_rank={r}, local_rank={r}, node_rank=0",
    ],
    ids=["nccl", "own-words", "launcher", "named", "deepspeed", "json", "ray"],
)
def test_a_process_that_the_kernel_killed_is_the_rank_that_the_log_bound_to_it(guess, told: str) -> None:
    log = "".join(told.format(r=rank, p=7000 + rank) + "\n" for rank in range(8))
    assert guess(log + _steps() + _KILLED) == ("host_oom", 5)


def _row(number: int, rank: int, code: int, pid: int, host: str = "n2", local: int | None = None) -> str:
    local = rank if local is None else local
    return (
        f"[{number}]:\n  time      : 2031-08-20_04:40:21\n  host      : {host}\n  rank      : {rank} (local_rank: {local})\n"
        f"  exitcode  : {code} (pid: {pid})\n  error_file: <N/A>\n"
    )


def _table(others: str, root: str) -> str:
    return f"train.py FAILED\nFailures:\n{others}Root Cause (first observed failure):\n{root}"


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        (_steps("[default6]:") + _fault("[default6]:") + _table("", _row(0, 14, 1, 90, local=6)), 14),
        (judging.said("n1: ", _steps("[default1]:")) + judging.said("n2: ", _fault("[default1]:")) + _table("", _row(0, 10, 1, 90, local=2)), 9),
        (judging.said("n1: ", _steps("[default1]:")) + judging.said("n2: ", _steps("[default1]:") + _fault("[default2]:")), None),
        ("local_ranks=[0, 1]\nglobal_ranks=[4, 5]\n" + _steps("[default1]:") + _fault("[default1]:"), 5),
        (_steps() + _fault() + _table(_row(1, 1, -15, 91), _row(0, 5, 1, 95)), 5),
        (_steps() + judging.said("n1: ", _table(_row(1, 1, -15, 91), _row(0, 5, -11, 95))), 5),
        (_steps() + "Root Cause:\n[0]:\n  rank: 6 (local_rank: 6)\n  exitcode: -11 (pid: 6)\n", 6),
        (_steps() + _fault() + "first process to do so was:\n  Process name: [[512,1],2]\n  Exit code:    1\n", 2),
        (_steps() + _fault() + "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD\n", 3),
    ],
    ids=["local-by-table", "node-by-table", "two-nodes", "by-lists", "root", "behind-a-node", "old-table", "openmpi", "abort"],
)  # fmt: skip
def test_a_launchers_own_word_makes_a_rank_of_a_local_one(guess, log: str, rank: int | None) -> None:
    assert guess(log)[1] == rank


def test_the_last_command_in_deepspeeds_message_is_nobodys(guess) -> None:
    log = "[launch.py:341:sigkill_handler] ['python', 'train.py', '--local_rank=3'] exits with return code = -9\n"
    assert guess(_steps() + log, exit_code=247) == ("killed", None)


@pytest.mark.parametrize(
    ("words", "rank"),
    [("\x20\x20pid: 702\n", 2), ("Memory (actor ID: ff, name=W, pid=702, memory used=3GB) was 4GB\n", 2), ("pid unknown\n", None)],
    ids=["dead", "memory", "none"],
)  # fmt: skip
def test_an_actor_that_died_is_the_rank_that_ray_named_it(guess, words: str, rank: int | None) -> None:
    log = "".join(
        f"(Head pid=9) - (node_id=a, ip=10.0.0.1, pid={700 + r}) world_rank={r}, local_rank={r}\n"
        for r in range(4)
    )
    log += "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n" + words
    assert guess(log) == ("host_oom", rank)


_BUSES = "".join(
    f"n{n}:4{n}0{i}:4{n}9{i} [{i}] NCCL INFO ncclCommInitRank comm 0x5{i} rank {8 * n + i} nranks 16 cudaDev {i} busId 1{i}000 - Init COMPLETE\n"
    for n in range(2) for i in range(8)
)  # fmt: skip


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        (_BUSES + "Mar  4 12:00:00 n1 kernel: NVRM: Xid (PCI:0000:13:00): 79, pid=1, GPU has fallen off the bus.\n", 11),
        (_BUSES + "NVRM: Xid (PCI:0000:99:00): 79, pid=4103, GPU has fallen off the bus.\n", 11),
        (_BUSES + "NVRM: Xid (PCI:0000:13:00): 79, pid=1, GPU has fallen off the bus.\n", None),
        ("3, 00000000:13:00.0\n4, 00000000:14:00.0\nNVRM: Xid (PCI:0000:13:00): 79, pid=1, GPU has fallen off the bus.\n", 3),
    ],
    ids=["node-and-bus", "pid", "bus-of-two-nodes", "nvidia-smi"],
)  # fmt: skip
def test_a_gpu_that_the_kernel_names_is_its_ranks(guess, log: str, rank: int | None) -> None:
    assert guess(_steps() + log) == ("gpu_hardware", rank)


_TIMED_OUT = (
    "[rank{0}]:[E304 12:00:00.1 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=52, OpType={1}, NumelIn={2}, NumelOut={2}, Timeout(ms)=600000) ran for 600055 milliseconds before"
    " timing out.\n"
)


def _timeouts(*ranks: int, op: str = "ALLREDUCE", size: int = 4) -> str:
    return "".join(_TIMED_OUT.format(rank, op, size) for rank in ranks)


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        ("world_size=8\n" + _timeouts(*range(7)), 7),
        (_timeouts(0, 1, 2, 3, 5) + _timeouts(4, op="ALLGATHER"), 4),
        (_timeouts(0, 1, 2, 3, 5) + _timeouts(4, size=1), 4),
        (_timeouts(*range(8)) + "missing ranks: {5}\n", 5),
        (_timeouts(*range(8)) + "watchdog: rank 6 never entered allreduce 52\n", 6),
        ("WARNING straggler rank=6\n" + _timeouts(*range(8)), 6),
        ("saving checkpoint at iteration 100 to /out\n" + _timeouts(1, 3), 0),
        (_timeouts(*range(8)), None),
        (_timeouts(40, 63), None),
    ],
    ids=["last", "other-call", "other-size", "missing", "never-entered", "straggler", "saves", "all", "few-of-many"],
)  # fmt: skip
def test_who_did_not_come_to_a_collective(guess, log: str, rank: int | None) -> None:
    assert guess(_steps() + log)[1] == rank


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        ("".join(_fault(f"[rank{r}]: ", "ModuleNotFoundError: No module named 'apex'") for r in range(4)), None),
        ("".join(_fault(f"[rank{r}]: ", "FileNotFoundError: [Errno 2] No such file: '/d/a'") for r in (8, 9, 10)) + _fault("[rank0]: ", _ECHO), None),
        (_fault("[rank1]: ", "FileNotFoundError: [Errno 2] No such file: '/d/a'") + _fault("[rank0]: ", _ECHO), 1),
        (_fault("[rank0]: ", "RuntimeError: NaN loss detected on rank 3 at step 88"), 3),
        ("[rank0]: ERROR: rank 5 reported failure: KeyError: 'x'\n", 5),
        (_fault("[rank0]: ", "RuntimeError: [x/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.5]:3"), None),
        ("a:1:2 [0] y.cc:9 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<4> with status=12 opcode=0 len=0 vendor err 129\n", None),
        (("[rank1]: torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0]"
         " via c10d key-value store by key '0', but store->get('0') got error: wait timeout after 9000ms\n"), 0),
        ("2031-03-04 12:00:00,123 - train - ERROR - [rank 5] failed\n" + _fault() + "2031-03-04 12:00:01,123 - train - ERROR - [rank 0] failed\n" + _fault("", _ECHO), 5),
        ("2031-03-04 12:00:00 | ERROR | train:step:88 - OSError: [Errno 28] No space left on device | {'rank': 5}\n", 5),
        ("2031-03-04 12:00:00 [error    ] OSError: [Errno 28] No space left on device rank=5 step=120\n", 5),
        (("# logs/attempt_0/6/error.json\n" '{"message": {"message": "PermissionError: [Errno 13] Permission denied: \'/c\'", "extraInfo": {}}}\n'), 6),
        ('{"level":"info","rank":9,"local_rank":1,"node":"n1","msg":"rank and pid told"}\n{"level":"error","local_rank":5,"node":"n1","msg":"KeyError: 1"}\n', 13),
    ],
    ids=["all", "surroundings", "one", "named", "reported", "lost-peer", "ib-peer", "awaited", "record", "extras", "fields", "error-file", "json-local"],
)  # fmt: skip
def test_the_culprit_is_named_and_who_only_reports_is_not(guess, log: str, rank: int | None) -> None:
    assert guess(_steps("[rank0]: ") + log)[1] == rank


def _pod(name: str, text: str) -> str:
    return judging.said(f"[{name}] ", text)


def test_the_rank_that_mpirun_names_before_a_line_break_ended_first(guess) -> None:
    told = "prterun noticed that process rank 6 with PID 4711 on node n2 exited on\nsignal 6 (Aborted).\n"
    failed = "terminate called after throwing an instance of 'c10::Error'\n  what():  CUDA error: device-side assert triggered\n"
    assert guess(_steps() + failed + told, exit_code=134)[1] == 6


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        (_pod("x-worker-0", _steps()) + _pod("x-worker-2", _fault()) + _pod("x-worker-0", _fault("", _ECHO)), 2),
        (_pod("x-master-0", _steps()) + _pod("x-worker-2", _fault()) + _pod("x-worker-0", _fault("", _ECHO)), 3),
        (_pod("x-worker-0", _steps("[rank3]: ")) + _pod("x-worker-2", _fault()) + _pod("x-worker-0", _steps("[rank1]: ")), None),
        (_pod("x-worker-0", _steps()) + _pod("x-worker-1", _steps()) + "pod x-worker-1: terminated, reason: OOMKilled\n", 1),
    ],
    ids=["workers", "behind-a-master", "several-a-pod", "named"],
)  # fmt: skip
def test_the_number_of_a_pod_is_its_rank_where_it_holds_one(guess, log: str, rank: int | None) -> None:
    assert guess(log)[1] == rank


@pytest.mark.parametrize(
    "name",
    ["rank_{}.log", "{}/stderr.log", "a/attempt_0/{}/stdout.log", "worker-{}.log", "out.{}", "j.out.{}", "slurm-9_{}.out",
     "t.log.{}", "1/rank.{}/stderr", "1/rank.0{}/stdout", "n0_rank{}.log", "r{}.log", "log/workerlog.{}", "process{}.log", "rank={}/out.log", "{}.err"],
)  # fmt: skip
def test_the_name_of_a_log_tells_its_rank(guess, name: str) -> None:
    logs = {name.format(0): _steps(last=30) + _fault("", _ECHO), name.format(5): _steps(last=9) + _fault()}
    assert guess(logs) == ("exception", 5)


def test_of_torchruns_attempts_the_last_one_counts(guess) -> None:
    logs = {f"l/attempt_{a}/{r}/stderr.log": _fault("", "ValueError: a" if r == 2 - a else _ECHO) for a in (0, 1) for r in range(3)}  # fmt: skip
    assert guess(logs) == ("exception", 1)


_WAITING = "    all_reduce (torch/distributed/distributed_c10d.py:28)\n    fit (fit.py:1)\n"
_READING = "    read (data/shards.py:8)\n    fit (fit.py:1)\n"


@pytest.mark.parametrize(
    "head",
    ["# py-spy dump, rank {r} (pid 70{r})", "$ py-spy dump --pid 70{r}", "Process 70{r}: python fit.py"],
)
@pytest.mark.parametrize(
    ("away", "rank"), [((2,), 2), ((1, 2), None), ((), None)], ids=["one", "two", "none"]
)
def test_the_one_printed_stack_that_does_not_wait_names_its_rank(guess, head, away, rank) -> None:
    log = "".join(f"rank {r} pid 70{r}\n" for r in range(4)) + _steps()
    for r in range(4):
        body = _READING if r in away else _WAITING
        log += (
            head.format(r=r)
            + f'\nThread 70{r} (active): "MainThread"\n{body}Thread 9 (idle): "Thread-1"\n{_WAITING}'
        )
    assert guess(log, process="running", silent_s=3600, gpu_util=100) == ("hang", rank)


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        ("  1 rank has launched up to operation 8\n  Rank 21 -- GPU 5 managed by process 312 on node 172.16.6.2\n", 21),
        ("".join(f"rank {r}: flight recorder tail: seq {9 if r == 3 else 10} allgather\n" for r in range(6)) + _timeouts(*range(6)), 3),
        ("".join(
            f"Waiting in store based barrier to initialize process group for rank: {r}, key: k:1 (world_size=8, worker_count=7, timeout=1)\n"
            for r in range(8) if r != 6
        ) + "RuntimeError: Timed out initializing process group in store based barrier on rank: 3, for key: k:1 (world_size=8, worker_count=7, timeout=1)\n", 6),
    ],
    ids=["ras", "recorder", "barrier"],
)  # fmt: skip
def test_a_tool_or_the_others_say_who_is_behind(guess, log: str, rank: int) -> None:
    context = (
        {"exit_code": 1} if "ed out" in log else {"process": "running", "silent_s": 3600, "gpu_util": 100}
    )
    assert guess(_steps() + log, **context)[1] == rank


def _wrapped(index: int, text: str) -> str:
    import json

    pod = {
        "pod_name": f"ddp-{index}-x8k2q",
        "labels": {"batch.kubernetes.io/job-completion-index": str(index)},
    }
    return "".join(
        json.dumps({"time": "2031-05-13T07:30:59Z", "kubernetes": pod, "log": line}) + "\n"
        for line in text.splitlines()
    )


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        (_steps() + "".join(judging.said(f"logs/rank_{r}.log:", text) for r, text in ((5, _fault()), (0, _fault("", _ECHO)))), 5),
        (_wrapped(0, _steps()) + _wrapped(5, _fault()) + _wrapped(0, _fault("", _ECHO)), 5),
        (_steps("[2031-07-01T15:10:44.6Z] [9ab84e8c] || <info> [rank=0] ") + _fault("[2031-07-01T15:10:45.6Z] [9ab84e8d] || <info> [rank=5] "), 5),
        (_steps() + "==> 912_0_log.err <==\n" + _fault("", _ECHO) + "==> 912_3_log.err <==\n" + _fault(), 3),
        (judging.said("[n1:-] ", "launcher: host n1 is node_rank 1, nproc_per_node=8, world 16") + _steps("[n0:0] ") + _fault("[n1:5] "), 13),
        (_steps() + "Error in rank 5: KeyError: 'x'\n", 5),
        (_steps() + "ray.train.WorkerGroupError: Training failed due to worker errors:\n[Rank 3]\n" + _fault(), 3),
        (_steps() + "ray.train.WorkerGroupError: Training failed due to worker errors:\n[Rank 3 Error Snippet]:\n" + _fault(), 3),
    ],
    ids=["grep", "collector", "two-ids", "submitit", "node-rank", "words", "ray-train-first", "ray-train"],
)  # fmt: skip
def test_whoever_shows_the_lines_of_many_tells_whose_they_are(guess, log: str, rank: int) -> None:
    assert guess(log) == ("exception", rank)


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        ("rank 9 -> n3 gpu 1\nrank 10 -> n3 gpu 2\nn3$ dcgmi health -c\n| GPU 2 had uncorrectable memory errors and row remapping failed. |\n", 10),
        ("rank 22 = node g3 gpu 6 (0000:db:00.0)\nNVRM: Xid (PCI:0000:db:00): 79, pid=1, GPU has fallen off the bus.\n", 22),
    ],
    ids=["number-at-a-prompt", "bus"],
)  # fmt: skip
def test_a_gpu_that_a_tool_names_is_the_rank_that_was_put_on_it(guess, log: str, rank: int) -> None:
    assert guess(_steps() + log) == ("gpu_hardware", rank)


def test_a_task_of_srun_that_is_a_launcher_is_no_rank(guess) -> None:
    log = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \nsrun: error: n2: task 1: Killed\n"
    assert guess(_steps() + log) == ("killed", None)


@pytest.mark.parametrize(
    "front",
    [
        "mnp-job#{}: ", "t1v-n-12ab-w-{}: ", "[{}]<stderr>:", "[n1:mpi_rank_{}][handler] ", "(worker{0}, rank={0}, pid=70{0}, ip=10.0.0.{0}) ",
        "[ERROR] 2031-03-04-12:00:00 (PID:70{0}, Device:{0}, RankID:{0}) ", "(Worker_TP{0} pid=70{0}) ERROR 04-11 12:00:00 [x.py:1] ",
        "[2031-03-11 12:00:00 TP{}] ", "[04/03/2031-12:00:00] [TRT-LLM] [RANK {}] [E] ", "[ERROR] [a.train:88] [PID:70{0}] [RANK:{0}] ",
        "{}@n1: ", "n1:{}: ", "{{rank {}}} ", "*** rank {}: ", "rank{}\t", "rank {} ▶ ", "{} | ", "{}> ", "trainer/{} ", "{} n1: ",
        "[rank{}]:wandb: ", "12:00:00 r{} E train: ", "2031-03-04 12:00:00,123 ERROR rank{} train.py:88 ", "[2031-03-04 12:00:00,123][train][ERROR][rank {}] - ",
    ],
)  # fmt: skip
def test_a_front_of_a_kind_that_nobody_knows_is_one_where_all_lines_of_a_traceback_bear_it(
    guess, front: str
) -> None:
    mine, other = front.format(5), front.format(0)
    assert guess(_steps(other) + _steps(mine) + _fault(other, _ECHO) + _fault(mine)) == ("exception", 5)


_ENGINE = "[2031-04-21 04:12:{:02d} {}] Scheduler hit an exception: "
_LOGGED = "2031-03-04 12:00:{:02d},123 [{}] ERROR training failed: "


@pytest.mark.parametrize(
    ("opener", "mine", "other", "rank"),
    [
        (_ENGINE, "TP5", "TP0", 5),
        (_ENGINE, "PP0 TP5 EP5", "PP0 TP0 EP0", 5),
        (_ENGINE, "PP1 TP5", "PP0 TP0", None),
        (_ENGINE, "TP5 PP1", "TP0 PP0", None),
        (_ENGINE, "DP1 TP5", "DP0 TP0", None),
        (_LOGGED, "rank 5", "rank 0", 5),
    ],
    ids=["tp", "first-stage", "later-stage", "later-stage-last", "later-replica", "logger"],
)
def test_a_record_that_only_begins_with_a_front_is_its_speakers(guess, opener, mine, other, rank) -> None:
    log = opener.format(1, mine) + _fault() + opener.format(2, other) + _fault("", _ECHO)
    assert guess(_steps() + log) == ("exception", rank)


def test_a_frame_without_a_front_under_two_openers_is_nobodys(guess) -> None:
    first = _TRACE.splitlines(keepends=True)[0]
    assert guess(_steps() + f"[rank5]: {first}[rank2]: {first}" + _fault()) == ("exception", None)


def test_the_rank_that_pytorch_prints_stands_over_sruns_label_of_a_task_with_several(guess) -> None:
    log = _steps("0: [rank0]: ") + _fault("1: [rank9]: ") + _fault("0: [rank3]: ", _ECHO)
    assert guess(log) == ("exception", 9)
    assert guess(_steps("0: ") + _fault("5: ") + "5: rank 2: bye\n") == ("exception", 5)


_ENDS = "srun: Terminating StepId=71.0\nsrun: error: n0: tasks 0-3: Killed\nsrun: error: n1: tasks 4-7: Terminated\n"


@pytest.mark.parametrize(
    ("said", "code", "cause"),
    [
        ("Out Of Memory", 137, "host_oom"),
        ("Killed", 137, "killed"),
        ("Segmentation fault (core dumped)", 139, "segfault"),
        ("Bus error", 135, "shm"),
        ("Aborted (core dumped)", 134, "abort"),
        ("Floating point exception (core dumped)", 136, "exception"),
        ("Exited with exit code 17", 17, "unknown"),
    ],
)
def test_the_one_task_that_srun_names_first_is_the_rank(guess, said: str, code: int, cause: str) -> None:
    one, several = (f"srun: error: n3: {tasks}: {said}\n{_ENDS}" for tasks in ("task 12", "tasks 12-14"))
    assert guess(_steps() + one, exit_code=code) == (cause, 12)
    assert guess(_steps() + several, exit_code=code)[1] is None
    launcher = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    assert guess(_steps() + launcher + one, exit_code=code)[1] is None


def test_who_only_lost_its_workers_does_not_hide_the_task_that_ran_out_of_memory(guess) -> None:
    log = (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=71.0.\nsrun: error: n3: task 12: Out Of Memory\n"
        " 9: RuntimeError: DataLoader worker (pid 20114) is killed by signal: Terminated. \n" + _ENDS
    )
    assert guess(_steps(" 0: ") + log, exit_code=137) == ("host_oom", 12)


@pytest.mark.parametrize(
    "told",
    [
        "RuntimeError: Horovod detected that one or more processes exited\nProcess name: 5\nExit code: 1\n",
        "application called MPI_Abort(MPI_COMM_WORLD, 1) - process 5\n",
        "Abort(1) on node 5 (rank 5 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 1) - process 5\n",
    ],
    ids=["horovod", "mpich", "mpich-4"],
)
def test_the_process_that_a_launcher_says_ended_first_is_the_rank(guess, told: str) -> None:
    assert guess(_steps() + _fault() + told) == ("exception", 5)


def test_a_traceback_that_another_message_quotes_stays_quoted(guess) -> None:
    log = f"worker 5 said: {_TRACE}KeyError: 'mask'\n" + _steps(last=90)
    assert guess(log, process="running")[0] == "none"


@pytest.mark.parametrize(
    "title",
    ["===== rank {} =====", "--- rank {} stderr ---", "### logs/rank_{}.log ###", "stderr of rank {}:", "Rank {} stderr:", "$ kubectl logs x-worker-{}",
     "$ cat logs/rank{}/stderr", "# rank {}", "logs/771.{}.out", "user_logs/std_log_process_{}.txt"],
)  # fmt: skip
def test_what_stands_under_a_ranks_title_is_its_own(guess, title: str) -> None:
    parts = [
        f"{title.format(r)}\n{_steps(last=30)}{_fault('', text)}"
        for r, text in ((0, _ECHO), (5, "KeyError: 'mask'"))
    ]
    assert guess("".join(parts)) == ("exception", 5)


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        ("# n2 pids: 51208=rank8 51209=rank9 51210=rank10\nOut of memory: Killed process 51210 (python) total-vm:2kB\n", 10),
        ("".join(f"box{n} app: RANK={9 - n} WORLD_SIZE=2\n" for n in (8, 9)) + _steps("box8 app: ") + judging.said("box9 app: ", "RuntimeError: CUDA error: out of memory"), None),
        ("".join(f"workerpool1-{n} app: RANK={n + 1} WORLD_SIZE=2\n" for n in (0, -1) if n == 0) + "workerpool0-0 app: RANK=0 WORLD_SIZE=2\n"
         + judging.said("workerpool1-0 app: ", "RuntimeError: CUDA error: out of memory"), 1),
        ("".join(f"[rank{r}]: RuntimeError: Detected mismatch between collectives on ranks. Rank {r} is running collective: F(OpType=A),"
                 " but Rank 7 is running collective: F(OpType=B)\n" for r in range(4)), 7),
        ("worker rank 5 exited with code 137\n", 5),
    ],
    ids=["list", "unknown-front", "one-a-node", "odd-one", "child"],
)  # fmt: skip
def test_lists_and_others_words_bind_a_rank(guess, log: str, rank: int | None) -> None:
    assert guess(_steps() + log)[1] == rank


_ROWS = "rank gpu   util% last_step\n" + "".join(
    f"  {r}  n1:{r}    {0 if r == 6 else 100}  {10 if r == 6 else 11}\n" for r in range(8)
)


def test_a_table_of_all_ranks_shows_the_one_that_is_behind(guess) -> None:
    assert guess(_steps() + _ROWS, process="running", silent_s=3600) == ("hang", 6)


_OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
_RAY = (
    "ray.exceptions.RayTaskError(OutOfMemoryError): ray::Worker.step() (pid=510, ip=10.1.0.2, actor_id=ab)\n"
)


@pytest.mark.parametrize(
    ("told", "rank"),
    [
        ("(W pid=510, ip=10.1.0.2) rank: 13, world_size: 16, local_rank: 5\n(W pid=510, ip=10.1.0.3) rank: 7, world_size: 16\n", 13),
        ("(W pid=510, ip=10.1.0.2) global_rank: 13\n(W pid=511, ip=10.1.0.2) global_rank: 14\n", 13),
        ("(W pid=510) Setting up process group for: env:// [rank=6, world_size=8]\n", 6),
        ("(W pid=510, ip=10.1.0.3) global_rank: 13\n", None),
        ("(W pid=510, ip=10.1.0.2) waits for rank 13\n", None),
    ],
    ids=["world", "alone", "head", "other-node", "others"],
)  # fmt: skip
def test_the_process_that_ray_says_failed_is_the_rank_that_it_said_it_is(
    guess, told: str, rank: int | None
) -> None:
    assert guess(told + _steps() + judging.said("(TaskRunner pid=9) ", _RAY + _OOM)) == ("gpu_oom", rank)


_NODES = "{0}: global_rank_mapping=defaultdict(<class 'list'>, {{'ubuntu@{0}': [0, 1, 2, 3], '{1}': [4, 5, 6, 7]}})\n"


@pytest.mark.parametrize("nodes", [("10.4.0.1", "10.4.0.2"), ("hgx-11", "hgx-12")], ids=["ip", "name"])
@pytest.mark.parametrize(
    ("node", "word", "rank"),
    [
        (1, "local_rank=2 failed in forward:", 6),
        (0, "local rank 2 raised an error in step:", 2),
        (1, "Rank 7 failed:", 7),
        (1, "local_rank=2 is ready:", None),
        (None, "local_rank=2 failed in forward:", None),
    ],
    ids=["local", "first-node", "global", "no-failure", "other-node"],
)
def test_a_line_over_an_error_says_whose_it_is(
    guess, nodes, node: int | None, word: str, rank: int | None
) -> None:
    at = nodes[1] if node is None else nodes[node]
    title = f"{nodes[0] if node is None else at}: {word}\n"
    log = _NODES.format(*nodes) + _steps(f"{nodes[0]}: ") + title + _fault(f"{at}: ")
    assert guess(log) == ("exception", rank)


_TASK = "UNAVAILABLE: Task /job:jax_worker/replica:0/task:5 heartbeat timeout. This indicates that it has failed\n"
_EVICTED = (
    "Warning  DisruptionTarget  pod/tr-w{0}  TaintManagerEviction: Marking for deletion Pod ns/tr-w{0}\n"
)


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        (_EVICTED.format(5) + _TASK, 5),
        (_EVICTED.format(5), None),
        (_EVICTED.format(5) + _EVICTED.format(6) + _TASK, None),
        ("slurmstepd: error: *** STEP 52.0 ON a1 CANCELLED AT 2031-01-02T03:04:05 DUE TO PREEMPTION ***\n" + _TASK, None),
    ],
    ids=["named", "unnamed", "two", "whole-job"],
)  # fmt: skip
def test_the_one_machine_that_was_taken_away_is_the_rank_that_the_others_miss(
    guess, log, rank: int | None
) -> None:
    assert guess(_steps() + log) == ("preempted", rank)
