"""The project's own hard corpus: `python tests/corpus/generate.py OUT.jsonl [SEED]`.

Cascades over 8 to 256 ranks in many launchers' dress, skewed clocks, near-miss pairs that differ in one witness, and
clean logs full of error words. Templates are ours; the formats are those of the software. The recorded runs of the
example trainer (`record.py`) are part of it.
"""

import json
import random
import sys
from pathlib import Path

PREFIXES = {
    "torchrun": lambda r, n: f"[rank{r}]: ",
    "default": lambda r, n: f"[default{r}]:",
    "srun": lambda r, n: f"{r}: ",
    "ray": lambda r, n: f"(TrainWorker(rank={r}) pid={4000 + r}, ip=10.0.{r // 8}.{n}) [rank{r}]: ",
    "mpirun": lambda r, n: f"[1,{r}]<stderr>:",
    "node": lambda r, n: f"gpu-{r // 8:02d}[{r}]: ",
}
FAULTS = [
    (
        "gpu_oom",
        ["change", "hold"],
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 2 has a total capacity of 79.10 GiB of which 1.02 GiB is free.",
    ),
    ("exception", ["hold", "change"], "KeyError: 'pixel_values'"),
    ("exception", ["hold", "change"], "ValueError: expected sequence of length 512 at dim 1 (got 498)"),
    (
        "disk_full",
        ["hold", "change"],
        "OSError: [Errno 28] No space left on device: '/scratch/out/step_900.pt'",
    ),
    ("cuda_error", ["restart"], "RuntimeError: CUDA error: an illegal memory access was encountered"),
    ("cuda_error", ["hold", "change"], "RuntimeError: CUDA error: device-side assert triggered"),
    ("gpu_hardware", ["restart_elsewhere"], "RuntimeError: CUDA error: uncorrectable ECC error encountered"),
    (
        "gpu_hardware",
        ["restart_elsewhere"],
        "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution",
    ),
    ("host_oom", ["change", "hold"], "MemoryError"),
    ("data_error", ["hold", "change"], "OSError: image file is truncated (21 bytes not processed)"),
    ("io_error", ["restart", "wait"], "OSError: [Errno 116] Stale file handle"),
    ("import_error", ["change", "hold"], "ModuleNotFoundError: No module named 'apex'"),
    (
        "checkpoint_corrupt",
        ["resume_previous", "change", "hold"],
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
    ),
    (
        "numerical_instability",
        ["hold", "change", "resume_previous"],
        "AssertionError: found NaN in local grad norm in backward pass before data-parallel communication collective",
    ),
    ("permission", ["change", "hold"], "PermissionError: [Errno 13] Permission denied: '/data/shared/index'"),
    (
        "data_error",
        ["hold", "change"],
        "zlib.error: Error -3 while decompressing data: incorrect header check",
    ),
    (
        "auth",
        ["hold", "change"],
        "azure.core.exceptions.ClientAuthenticationError: Server failed to authenticate",
    ),
    (
        ["network", "hub_network"],
        ["wait", "restart"],
        "azure.core.exceptions.HttpResponseError: Operation returned an invalid status 'Server Busy'",
    ),
    (
        "checkpoint_mismatch",
        ["change", "hold"],
        "megatron.core.dist_checkpointing.core.CheckpointingException: Unexpected keys in checkpoint: ['a.bias']",
    ),
    ("gpu_oom", ["change", "hold"], "RuntimeError: cuFFT error: CUFFT_ALLOC_FAILED"),
    ("resource_limit", ["change", "hold"], "RuntimeError: received 0 items of ancdata"),
    ("numerical_instability", ["hold", "change"], "FloatingPointError: gradients are Nan/Inf"),
]
ECHOES = [
    "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970, remote process exited or there was a network error, NCCL version 2.21.5",
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:38032",
    "torch.distributed.DistNetworkError: failed to recv, got 0 bytes",
    "ConnectionResetError: [Errno 104] Connection reset by peer",
    "BrokenPipeError: [Errno 32] Broken pipe",
]
CLEAN = [
    "args: Namespace(on_error='raise', kill_on_nan=False, oom_retry=True, nccl_timeout_s=1800, max_failures=3)",
    "  check_for_nan_in_loss_and_grad ............... True",
    '{"error_policy": "retry", "abort_on": ["nan", "oom"], "killed_exit_code": 137}',
    '>>> sample 12: "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0)"',
    '>>> sample 13: "Segmentation fault (core dumped) is what the shell says"',
    "WARNING skipping sample 77: OSError: image file is truncated",
    "n3:41:88 [2] NCCL WARN Failed to open libibverbs.so[.1]",
    "wandb: WARNING retrying in 5 s (ConnectionError)",
    "ECC uncorrectable errors: 0, fatal: 0, killed: 0",
    "fairseq.trainer | attempting to recover from OOM in forward/backward pass",
    "reward_fn: 12 of 512 responses timed out (score 0), 3 crashed with SIGSEGV in sandbox (score 0)",
    "FileNotFoundError: no last.ckpt yet, starting from scratch (expected on first run)",
    "scontrol show job: JobState=RUNNING Requeue=1 ExitCode=0:0 TimeLimit=2-00:00:00",
    "[ERROR] s3 upload of step_300/model.pt failed (SlowDown), will retry in background",
    "torchft: replica 3 quorum change, 1 participant failed and was removed, healing from replica 0",
    "| tiny_eval | rouge | nan | error |",
    "E0912 11:54:57.366000 112 torch/_inductor/select_algorithm.py:2100] [7/0] No valid triton configs. OutOfMemoryError: out of resource: shared memory",
    "Exception ignored in: <function Loader.__del__ at 0x7f1b2c3d4e50>",
    "/opt/e/torch/utils.py:88: UserWarning: CUDA failure mode fallback is deprecated",
]


def steps(rng, first, last, prefix=""):
    return [
        f"{prefix}step {n} | loss {2 + 3 / n:.3f} | grad_norm {rng.uniform(0.3, 0.6):.2f}"
        for n in range(first, last, 10)
    ]


def traceback(prefix, line, where):
    return [
        f"{prefix}Traceback (most recent call last):",
        f'{prefix}  File "/srv/m/{where}.py", line {len(where) * 7}, in {where}',
        f"{prefix}    out = run(batch)",
        f"{prefix}{line}",
    ]


def interleaved(rng, blocks):
    """Lines of several ranks mixed, the order within each kept."""
    blocks = [list(block) for block in blocks]
    mixed = []
    while any(blocks):
        block = rng.choice([b for b in blocks if b])
        mixed.append(block.pop(0))
    return mixed


def table(failed, world, code):
    rows = [
        f"E0813 06:19:49.8 1612 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: {code}) local_rank: {failed % 8} (pid: {9000 + failed}) of binary: /opt/e/bin/python"
    ]
    rows += [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "train.py FAILED",
        "Failures:",
    ]
    for place, rank in enumerate([r for r in range(world) if r != failed][:3], 1):
        rows += [
            f"[{place}]:",
            f"  rank      : {rank} (local_rank: {rank % 8})",
            f"  exitcode  : -15 (pid: {9000 + rank})",
            f"  traceback : Signal 15 (SIGTERM) received by PID {9000 + rank}",
        ]
    return [
        *rows,
        "Root Cause (first observed failure):",
        "[0]:",
        f"  rank      : {failed} (local_rank: {failed % 8})",
        f"  exitcode  : {code} (pid: {9000 + failed})",
    ]


def case(name, log, ctx, cause, actions, **more):
    causes = cause if isinstance(cause, list) else [cause]
    return {
        "id": name,
        "source": "generated",
        "framework": "pytorch",
        "context": ctx,
        "log": "\n".join(log) + "\n",
        "cause": causes[0],
        "accept_causes": causes,
        "action": actions[0],
        "accept_actions": actions,
        "evidence": more.pop("evidence", ""),
        **more,
    }


def cascades(rng):
    for number, (cause, actions, line) in enumerate(FAULTS):
        for style, prefix in PREFIXES.items():
            world = rng.choice([8, 16, 64, 256])
            rank, seed = rng.randrange(1, world), rng.random()
            others = rng.sample([r for r in range(world) if r != rank], min(world - 1, 12))
            fault = traceback(prefix(rank, 3), line, "forward")
            echo = [traceback(prefix(r, 3), rng.choice(ECHOES), "reduce") for r in others]
            log = steps(rng, 10, 200, prefix(0, 1) if seed < 0.5 else "")
            shape = rng.choice(["fault_first", "mixed", "echo_first"])
            if shape == "echo_first":
                log += [row for block in echo[:4] for row in block] + fault + interleaved(rng, echo[4:])
            elif shape == "mixed":
                log += interleaved(rng, [fault, *echo])
            else:
                log += fault + interleaved(rng, echo)
            if style in ("torchrun", "default"):
                log += table(others[0], world, 1)
            if style == "srun":
                log += [
                    f"srun: error: gpu-{rank // 8:02d}: task {rank}: Exited with exit code 1",
                    "srun: Terminating StepId=77.0",
                ]
            yield case(
                f"cascade-{number}-{style}-{world}-{shape}",
                log,
                {"exit_code": 1},
                cause,
                actions,
                culprit_rank=rank,
                evidence=line[:60],
            )


def timeouts(rng):
    for world in (8, 32, 256):
        guilty = rng.randrange(world)
        log = steps(rng, 10, 120)
        blocks = []
        for rank in range(world):
            mark = f"[rank{rank}]:[E101 21:12:44.{rank:06d} ProcessGroupNCCL.cpp:"
            if rank != guilty:
                blocks.append(
                    [
                        f"{mark}632] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=812, OpType=ALLREDUCE, NumelIn=1678, NumelOut=1678, Timeout(ms)=600000) ran for 600{rank:03d} milliseconds before timing out.",
                        f"{mark}2303] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: 812 PG status: last enqueued work: 813, last completed work: 811",
                    ]
                )
            else:
                blocks.append(
                    [
                        f"{mark}1914] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a dump signal due to a collective timeout from  rank 0 and we will try our best to dump the debug info. Last enqueued NCCL work: 811, last completed NCCL work: 811."
                    ]
                )
        log += interleaved(rng, blocks) + steps(rng, 120, 121) + table((guilty + 1) % world, world, -6)
        yield case(
            f"timeout-counters-{world}",
            log,
            {"exit_code": 1},
            ["hang", "nccl_timeout"],
            ["restart"],
            culprit_rank=guilty,
        )
        silent = [b for r, b in enumerate(blocks) if r != guilty]
        log = steps(rng, 10, 120) + interleaved(rng, silent)
        yield case(
            f"timeout-silent-{world}",
            log,
            {"exit_code": 1, "world_size": world},
            ["nccl_timeout", "hang"],
            ["restart"],
            culprit_rank=guilty,
        )
    for number, (cause, actions, line) in enumerate(FAULTS[:6]):
        rank = 5
        log = steps(rng, 10, 120) + traceback(f"[rank{rank}]: ", line, "step")
        log += [
            f"[rank{r}]:[E101 22:00:00.1 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=99, OpType=ALLREDUCE, NumelIn=9, NumelOut=9, Timeout(ms)=600000) ran for 600001 milliseconds before timing out."
            for r in (0, 1, 2, 3, 4, 6, 7)
        ]
        yield case(f"timeout-after-fault-{number}", log, {"exit_code": 1}, cause, actions, culprit_rank=rank)


def pairs(rng):
    log = steps(rng, 10, 300)
    yield case("pair-137-alone", log, {"exit_code": 137}, "killed", ["restart"])
    yield case(
        "pair-137-slurm-oom",
        [
            *log,
            "slurmstepd: error: Detected 1 oom_kill event in StepId=9.0. Some of the step tasks have been OOM Killed.",
        ],
        {"exit_code": 137},
        "host_oom",
        ["change", "hold"],
    )
    yield case(
        "pair-137-preempted",
        [*log, "slurmstepd: error: *** JOB 9 ON n1 CANCELLED AT 2031-06-18T13:05:36 DUE TO PREEMPTION ***"],
        {"exit_code": 137, "scheduler": "slurm", "state": "PREEMPTED"},
        "preempted",
        ["restart"],
    )
    yield case(
        "pair-137-time",
        [*log, "slurmstepd: error: *** JOB 9 ON n1 CANCELLED AT 2031-06-18T13:05:36 DUE TO TIME LIMIT ***"],
        {"exit_code": 137, "state": "TIMEOUT"},
        "time_limit",
        ["restart"],
    )
    yield case(
        "pair-137-k8s-oom",
        log,
        {"exit_code": 137, "k8s": {"reason": "OOMKilled"}},
        "host_oom",
        ["change", "hold"],
    )
    yield case(
        "pair-137-k8s-error", log, {"exit_code": 137, "k8s": {"reason": "Error"}}, "killed", ["restart"]
    )
    yield case(
        "pair-oom-then-time-limit",
        [
            *log,
            *traceback("[rank3]: ", FAULTS[0][2], "forward"),
            "slurmstepd: error: *** JOB 9 ON n1 CANCELLED AT 2031-06-18T13:05:36 DUE TO TIME LIMIT ***",
        ],
        {"state": "TIMEOUT"},
        "gpu_oom",
        ["change", "hold"],
        culprit_rank=3,
    )
    yield case(
        "pair-time-limit-then-noise",
        [
            *log,
            "slurmstepd: error: *** JOB 9 ON n1 CANCELLED AT 2031-06-18T13:05:36 DUE TO TIME LIMIT ***",
            *traceback("[rank3]: ", ECHOES[0], "reduce"),
            "[rank1]: KeyboardInterrupt",
        ],
        {"state": "TIMEOUT"},
        "time_limit",
        ["restart"],
    )
    yield case(
        "pair-exit-0-done", [*log, "Training completed in 0:10:01"], {"exit_code": 0}, "none", ["none"]
    )
    yield case(
        "pair-exit-0-early", log, {"exit_code": 0, "total_steps": 1000}, "unknown", ["hold", "restart"]
    )
    old = [
        *log,
        *traceback("[rank1]: ", FAULTS[1][2], "collate"),
        "srun: error: n1: task 1: Exited with exit code 1",
        "[launcher] attempt 2",
    ]
    yield case(
        "pair-old-crash-new-disk",
        [*old, *steps(rng, 10, 200), FAULTS[3][2]],
        {"exit_code": 1},
        "disk_full",
        ["hold", "change"],
    )
    yield case(
        "pair-old-crash-now-running", [*old, *steps(rng, 10, 400)], {"process": "running"}, "none", ["none"]
    )
    yield case(
        "pair-xid-79",
        [*log, "[ 812.5] NVRM: Xid (PCI:0000:17:00): 79, pid=71, GPU has fallen off the bus.", FAULTS[4][2]],
        {"exit_code": 1},
        "gpu_hardware",
        ["restart_elsewhere"],
    )
    yield case(
        "pair-xid-31",
        [*log, "[ 812.5] NVRM: Xid (PCI:0000:17:00): 31, pid=71, MMU Fault", FAULTS[4][2]],
        {"exit_code": 1},
        "cuda_error",
        ["restart"],
    )
    yield case(
        "pair-xid-63",
        [*log, "[ 812.5] NVRM: Xid (PCI:0000:17:00): 63, pid=71, Row remapper: new row marked for remapping"],
        {"process": "running"},
        "none",
        ["none"],
    )
    yield case(
        "pair-sigterm-stranger",
        [*log, "Received SIGTERM, shutting down"],
        {"exit_code": 143},
        ["cancelled", "preempted"],
        ["hold"],
    )
    yield case(
        "pair-spike-stop",
        [*log, "step 310 | loss 9.12 | grad_norm 812.55", "Early stopping triggered"],
        {"exit_code": 1},
        "numerical_instability",
        ["hold"],
    )
    yield case("pair-nothing-said", log, {"exit_code": 1}, "unknown", ["restart", "hold"])


_EOF = "EOFError: Ran out of input"
_ADMISSION = ["Reason: UnexpectedAdmissionError", "Message: Pod was rejected: Allocate failed due to "]
NEAR = [
    ("eof-checkpoint", traceback("", _EOF, "load_checkpoint"), {"exit_code": 1}, "checkpoint_corrupt"),
    ("eof-data", traceback("", _EOF, "collate"), {"exit_code": 1}, "data_error"),
    (
        "admission-count",
        [
            _ADMISSION[0],
            _ADMISSION[1] + "requested number of devices unavailable for nvidia.com/gpu. Requested: 8",
        ],
        {"k8s": {"reason": "UnexpectedAdmissionError"}},
        "node_failure",
    ),
    (
        "admission-lost",
        [_ADMISSION[0], _ADMISSION[1] + "rpc error: error creating nvml.Device 5: nvml: GPU is lost"],
        {"k8s": {"reason": "UnexpectedAdmissionError"}},
        "gpu_hardware",
    ),
    ("143-alone", [], {"exit_code": 143}, "cancelled"),
    ("143-notice", ['{"EventType": "Preempt", "EventStatus": "Scheduled"}'], {"exit_code": 143}, "preempted"),
    (
        "143-wall",
        ["[OAR] Walltime reached for job 9: 8:0:0, sending SIGTERM"],
        {"exit_code": 143},
        "time_limit",
    ),
    ("quota-disk", ["OSError: [Errno 122] Disk quota exceeded"], {"exit_code": 1}, "disk_full"),
    (
        "quota-pods",
        [
            'Error from server (Forbidden): pods "t" is forbidden: exceeded quota: g, requested: requests.nvidia.com/gpu=8'
        ],
        {"exit_code": 1},
        "unschedulable",
    ),
    (
        "memlock",
        [
            "n1:4:5 [0] misc/ibvwrap.cc:284 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory"
        ],
        {"exit_code": 1},
        "resource_limit",
    ),
    (
        "ib-down",
        ["n1:4:5 [0] transport/net_ib.cc:94 NCCL WARN NET/IB : mlx5_0:1 Got async event : port error"],
        {"exit_code": 1},
        "nccl_error",
    ),
]
_HELP = {
    "checkpoint_corrupt": ["resume_previous"],
    "data_error": ["hold"],
    "node_failure": ["restart_elsewhere"],
    "gpu_hardware": ["restart_elsewhere"],
    "cancelled": ["hold"],
    "preempted": ["restart"],
    "time_limit": ["restart"],
    "disk_full": ["hold", "change"],
    "unschedulable": ["wait"],
    "resource_limit": ["change", "hold"],
    "nccl_error": ["restart", "restart_elsewhere"],
}


def near():
    """Pairs of almost the same words and not the same cause."""
    for name, lines, ctx, cause in NEAR:
        yield case(f"near-{name}", lines or ["step 10 | loss 2.300"], ctx, cause, _HELP[cause])


def skewed(rng):
    """Ranks of several nodes in one log; the clocks of the nodes differ by minutes, and the place tells the order."""
    for number, (cause, actions, line) in enumerate(FAULTS):
        nodes = [rng.randrange(0, 500) for _ in range(4)]
        rank = rng.randrange(32)

        def front(r, second, nodes=nodes):
            total = 36000 + second + nodes[r // 8]
            clock = f"{total // 3600:02d}:{total // 60 % 60:02d}:{total % 60:02d}"
            return f"2031-04-05 {clock},000 [rank{r}]: "

        log = [
            f"{front(r, s)}step {s}/500 | loss 2.{s % 90}" for s in range(10, 40, 10) for r in (0, 8, 16, 24)
        ]
        log += traceback(front(rank, 60), line, "forward")
        for r in rng.sample([r for r in range(32) if r != rank], 6):
            log += traceback(front(r, 61), rng.choice(ECHOES), "reduce")
        yield case(
            f"skewed-{number}", log, {"exit_code": 1}, cause, actions, culprit_rank=rank, evidence=line[:60]
        )


def skewed_files(rng):
    """A log a rank from nodes whose clocks differ by minutes: only the steps that all of them print tell how much."""
    for number, (cause, actions, line) in enumerate(FAULTS):
        ranks = rng.sample(range(32), 5)
        clocks = {node: rng.randrange(-200, 200) for node in range(4)}
        with_steps = number % 3 != 2 or cause == "exception"

        def front(r, second, clocks=clocks):
            total = 36000 + second + clocks[r // 8]
            return f"2031-04-05 {total // 3600:02d}:{total // 60 % 60:02d}:{total % 60:02d},000 "

        logs = {}
        for place, r in enumerate(ranks):
            said = traceback(front(r, 60), line, "forward") if place == 0 else []
            if 0 < place < 3:  # what follows from it minutes later, in an exception's words and in a peer's
                said = traceback(front(r, 100 + 7 * place), "RuntimeError: step 40 gave no result", "finish")
            if place >= 3:
                said = traceback(front(r, 61), rng.choice(ECHOES), "reduce")
            told = [f"{front(r, s)}step {s}/500 | loss 2.{s % 90}" for s in range(10, 50, 10) if with_steps]
            logs[f"logs/rank{r}.log"] = "\n".join([*told, *said]) + "\n"
        names = rng.sample(list(logs), len(logs))
        found = case(
            f"skewed-files-{number}",
            [],
            {"exit_code": 1},
            cause,
            actions,
            culprit_rank=ranks[0],
            evidence=line[:60],
        )
        yield {**found, "logs": {name: logs[name] for name in names}}


def recorded():
    """Real runs of the example trainer."""
    path = Path(__file__).with_name("trainer_runs.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def clean(rng):
    for number in range(40):
        rows = [rng.sample(CLEAN, rng.randrange(2, 9)), steps(rng, 10, rng.choice([100, 400]))]
        log = interleaved(rng, rows) + steps(rng, 400, 440)
        done = rng.random() < 0.5
        if done:
            log += [
                "Training completed",
                "resource_tracker: There appear to be 6 leaked semaphore objects to clean up at shutdown",
            ]
        yield case(
            f"clean-{number}", log, {"exit_code": 0} if done else {"process": "running"}, "none", ["none"]
        )


def corpus(seed=1):
    """All cases of a seed."""
    rng = random.Random(seed)
    return [
        *cascades(rng),
        *timeouts(rng),
        *pairs(rng),
        *near(),
        *skewed(rng),
        *skewed_files(rng),
        *clean(rng),
        *recorded(),
    ]


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        cases = corpus(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
        file.writelines(json.dumps(one) + "\n" for one in cases)
