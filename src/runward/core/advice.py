"""What to do about a cause: one clear action first, then alternatives. A rule's own advice comes before these."""

from collections.abc import Mapping

from runward.core import failures, redact, rules

_C = failures.Cause
_Pair = tuple[str, str]
_DEFAULTS: Mapping[failures.Cause, tuple[_Pair, ...]] = {
    _C.GPU_OOM: (
        (
            "lower the micro batch size (or sequence length) and keep the global batch by gradient accumulation",
            "the same step needs the same memory again: a restart alone repeats it",
        ),
        ("turn on activation checkpointing, or shard further (FSDP/ZeRO)", ""),
        (
            "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            "helps where much is reserved but unallocated",
        ),
        ("look for other processes on the GPU with nvidia-smi", "memory of a killed run may still be held"),
    ),
    _C.HOST_OOM: (
        (
            "lower num_workers and prefetch_factor, or raise the memory limit of the job",
            "each loader worker copies what the data set holds",
        ),
        ("record memory over steps", "a steady growth is a leak and will reach any limit"),
    ),
    _C.SHM: (
        (
            "give it more shared memory: --ipc=host or --shm-size=16g (Docker), an emptyDir with medium Memory (k8s)",
            "Docker's default of 64 MB is too small for loader workers and NCCL",
        ),
        ("set num_workers=0 to try", "without workers no shared memory is needed by the loader"),
    ),
    _C.RESOURCE_LIMIT: (
        ("raise the limit (ulimit -n, ulimit -u, pids limit of the container)", ""),
        ("lower the number of loader workers or threads (OMP_NUM_THREADS)", ""),
    ),
    _C.KILLED: (
        (
            "restart once and record host memory (runward record)",
            "if memory rises until it dies again, it is memory",
        ),
        (
            "dmesg -T | grep -i oom on that node, or sacct of the job, names who sent SIGKILL",
            "without a memory record an out-of-memory kill is a guess",
        ),
    ),
    _C.DISK_FULL: (
        ("free space (or inodes, or quota) on the file system named in the evidence, then restart", ""),
        ("keep fewer checkpoints", "only old and complete ones may go"),
    ),
    _C.IO_ERROR: (
        (
            "check the mount named in the evidence from this node and from another",
            "it may be the node's or the server's",
        ),
        ("restart when it answers again", ""),
    ),
    _C.PERMISSION: (("give the job's user the right to that path, or write elsewhere", ""),),
    _C.CHECKPOINT_CORRUPT: (
        ("resume from the newest older checkpoint that verifies (runward checkpoints verify DIR)", ""),
        ("move the damaged one aside", "a trainer that looks for the newest would load it again"),
    ),
    _C.CHECKPOINT_MISMATCH: (
        (
            "make model and configuration those that the checkpoint was written with",
            "no restart makes it fit",
        ),
    ),
    _C.CUDA_ERROR: (
        ("restart once; if the same rank and step fail again, run with CUDA_LAUNCH_BLOCKING=1", ""),
        ("if it follows one GPU over different jobs, take that node out", "then it is the device"),
    ),
    _C.GPU_HARDWARE: (
        ("restart without that node and have its GPU reset or its host rebooted", ""),
        ("run a long device test before it is given back", ""),
    ),
    _C.DRIVER: (
        ("reboot or repair the node's driver (library and kernel module must be one version)", ""),
        ("restart on another node", ""),
    ),
    _C.NCCL_ERROR: (
        ("restart; if it comes again between the same hosts, leave one of them out", ""),
        (
            "set NCCL_DEBUG=INFO and look at the rank that was lost first",
            "the rank that complains lost a peer",
        ),
    ),
    _C.NCCL_TIMEOUT: (
        ("restart, and have stacks dumped at the next time-out (TORCH_NCCL_TRACE_BUFFER_SIZE=20000)", ""),
        ("look at the rank that did not join, not at those that waited", ""),
    ),
    _C.DISTRIBUTED_TIMEOUT: (
        ("restart; name the rank that did not come and look at its node", ""),
        ("raise the timeout of init_process_group if a rank is slow to start", ""),
    ),
    _C.NETWORK: (("restart; if the same address fails again, leave that host out", ""),),
    _C.RENDEZVOUS: (
        ("check that every node starts, reaches the rendezvous address, and uses the same id and port", ""),
        ("restart with a free port", "a port of an earlier run may still be taken"),
    ),
    _C.HUB_NETWORK: (
        ("restart when the hub answers, or put the files into a local cache and set HF_HUB_OFFLINE=1", ""),
    ),
    _C.AUTH: (("renew the token or the access right, then restart", "no restart makes it valid"),),
    _C.HANG: (
        ("take stacks of all ranks (py-spy dump), then restart", "the rank that stands elsewhere is the one"),
    ),
    _C.DATALOADER: (
        ("run the loader alone with num_workers=0", "the worker's own error is then shown"),
        ("raise num_workers or move the data nearer", "where the GPUs wait for data"),
    ),
    _C.NUMERICAL_INSTABILITY: (
        ("go back to a checkpoint from before the first bad loss; later ones are poisoned", ""),
        ("lower the learning rate or skip the batch; check the data of that step", ""),
        ("if it cannot be repeated on another node, suspect the device", ""),
    ),
    _C.SEGFAULT: (
        ("restart once with PYTHONFAULTHANDLER=1", "a second crash then shows its stack"),
        ("if it comes at once each time, look at the last imported native package", ""),
    ),
    _C.ABORT: (
        ("restart once; keep the native check's message", "a repeat in the same place is the program's"),
    ),
    _C.IMPORT_ERROR: (("install the package (or its right version) in this environment", ""),),
    _C.CONFIG_ERROR: (("correct the option or file that the evidence names", "no restart changes it"),),
    _C.DATA_ERROR: (
        ("look at the sample or file that the evidence names", "it fails the same way each time"),
    ),
    _C.EXCEPTION: (("correct the code where it was raised, then restart", "the same input raises it again"),),
    _C.TIME_LIMIT: (
        ("submit it again: it goes on from its newest checkpoint", ""),
        ("save more often than the limit if this attempt made no checkpoint", ""),
    ),
    _C.PREEMPTED: (("restart from the newest checkpoint", "nothing is wrong with the run"),),
    _C.NODE_FAILURE: (("restart without that node", ""),),
    _C.UNSCHEDULABLE: (("wait, or ask for what the cluster has (partition, GPUs, limits)", ""),),
    _C.IMAGE_ERROR: (("correct the image's name or tag, or the registry's credentials", ""),),
    _C.CONTAINER_ERROR: (("correct the command or the container's devices and mounts", ""),),
    _C.CANCELLED: (
        (
            "runward restart RUN, if the end was not meant",
            "somebody ended it, and nobody's wish is overruled",
        ),
        ("start it detached (nohup, tmux, runward run)", "it then outlives its terminal"),
    ),
    _C.GPU_IDLE: (("find out why the GPUs are not used before it holds them longer", ""),),
    _C.UNKNOWN: (
        (
            "restart once with the evidence kept; compare with the second end",
            "the same end twice without progress is no accident",
        ),
    ),
}

_KNOWING: Mapping[failures.Cause, _Pair] = {
    _C.EXCEPTION: ("correct {where}, where {exc} was raised, then restart", "the same input raises it again"),
    _C.GPU_HARDWARE: ("restart without node {node} and have its GPU reset or the host rebooted", ""),
    _C.NODE_FAILURE: ("restart without node {node}", ""),
    _C.DRIVER: ("restart on another node, and have the driver of {node} repaired", ""),
    _C.NCCL_TIMEOUT: (
        "look at {guilty} first: it did not join (its stack, its node); then restart",
        "those that report the time-out only waited",
    ),
    _C.DISTRIBUTED_TIMEOUT: (
        "look at {guilty} first: it did not come (its stack, its node); then restart",
        "those that report the time-out only waited",
    ),
    _C.HANG: (
        "take the stack of {guilty} (py-spy dump), then restart",
        "it stands elsewhere than those that wait for it",
    ),
}
"""In the place of the first one above, where all that it names is known."""
_OUTWAITED: _Pair = (
    "let all ranks share that work, or raise the timeout of the process group above what one rank takes for it alone",
    "it takes longer than the others wait: a restart meets the same time-out",
)
_INSTEAD: Mapping[tuple[failures.Cause, failures.Action], _Pair] = {
    (_C.PREEMPTED, failures.Action.NONE): ("nothing: the scheduler starts it again by itself", ""),
    (_C.UNKNOWN, failures.Action.HOLD): (
        "ask the program's authors what this exit status means before it is started again",
        "it ended by its own decision",
    ),
    **{(cause, failures.Action.CHANGE): _OUTWAITED for cause in failures.TIMEOUTS},
}


def give(
    cause: failures.Cause,
    rule: rules.Rule | None,
    fields: Mapping[str, str],
    action: failures.Action | None = None,
) -> tuple[failures.Advice, ...]:
    """Advice for a cause, the rule's first. One that names what is not known is left out."""
    own = [(a.do, a.why) for a in rule.advice] if rule else []
    own = [pair for pair in own if rules.fillable(pair[0], fields)]
    common = list(_DEFAULTS.get(cause, ()))
    knowing = _KNOWING.get(cause)
    if own:
        common = common[1:]
    elif action is not None and (cause, action) in _INSTEAD:
        common = [_INSTEAD[cause, action]]
    elif knowing and rules.fillable(knowing[0], fields):
        common[:1] = [knowing]
    return tuple(failures.Advice(_filled(do, fields), _filled(why, fields)) for do, why in (own + common)[:4])


def _filled(template: str, fields: Mapping[str, str]) -> str:
    return redact.text(rules.fill(template, fields))
