"""Exceptions of libraries that no rule knows: the words of their class and message, and what is no such exception."""

import pytest

from corpus import judging

_RAISED = (
    "step 10 loss 2.1\nstep 20 loss 2.0\nTraceback (most recent call last):\n"
    '  File "/srv/train/fit.py", line 88, in <module>\n    main()\n'
    '  File "/opt/lib/acme/core.py", line 210, in step\n    raise err\n{}\n'
)


@pytest.mark.parametrize(
    ("raised", "cause", "action"),
    [
        ("acme.VramOutOfMemory: wanted 2.1 GiB", "gpu_oom", "change"),
        ("acme.errors.ContainerMemoryExceeded: 64 GiB of 64 GiB", "host_oom", "change"),
        ("acme.MemoryPressureError: 97 % of RAM is used", "host_oom", "change"),
        ("acme.OutOfSpaceError: volume 3", "disk_full", "hold"),
        ("acme.WriteError: not enough space on /ckpt", "disk_full", "hold"),
        ("acme.QuotaReached: 20 of 20 TB of disk", "disk_full", "hold"),
        ("acme.WalltimeReached: 24 h", "time_limit", "restart"),
        ("acme.RunCanceledException: at the request of the user", "cancelled", "hold"),
        ("acme.HostLookupError: node-0", "network", "wait"),
        ("acme.NoRouteToHost: 10.1.2.3", "network", "restart"),
        ("acme.FormationError: 14 out of 16 workers have registered", "rendezvous", "restart"),
        ("acme.PortTakenError: 23456 is held", "rendezvous", "change"),
        ("acme.GpuDriverOutdated: found 450.80", "driver", "change"),
        ("acme.GpuFellOffBus: slot 3", "gpu_hardware", "restart_elsewhere"),
        ("acme.MachineDied: host c4", "node_failure", "restart_elsewhere"),
        ("acme.SpotTerminationNotice: in 30 s", "preempted", "restart"),
        ("acme.LossExplosionError: 1e9", "numerical_instability", "hold"),
        ("acme.StateDictMismatchError: wq has (4, 5)", "checkpoint_mismatch", "change"),
        ("acme.StaleFileHandleError: /data", "io_error", "restart"),
        ("acme.PluginLoadError: collectives", "import_error", "change"),
        ("acme.PoolError: worker 3 was terminated by SIGKILL", "killed", "restart"),
        ("acme.PoolError: worker 3 died with signal 11", "segfault", "restart"),
        ("acme.PoolError: process 3 exited unexpectedly with exitcode 139", "segfault", "restart"),
    ],
)
def test_the_words_of_a_class_tell_the_cause(raised, cause, action):
    assert judging.answer(_RAISED.format(raised)) == (cause, action)


@pytest.mark.parametrize(
    "raised",
    [
        "acme.BillingQuotaError: the monthly tokens are used up",
        "acme.BrowserDriverMissing: chrome",
        "acme.DeadlockDetected: process 12 waits for ShareLock on transaction 4",
        "asyncio.exceptions.CancelledError: the scope ended",
        "acme.MemoryLimitError: a batch holds at most 12 tokens",
        "acme.PlanError: no space in the name of a column",
        "acme.TableError: the worker is lost due to SIGSEGV or other unexpected errors",
    ],
)
def test_other_things_of_such_names_stay_exceptions(raised):
    assert judging.answer(_RAISED.format(raised)) == ("exception", "hold")


@pytest.mark.parametrize(
    "line",
    [
        "DiskFull: False",
        "NodeFailed: 0",
        "Divergence: 0.021",
        "Preempted: none",
        "DeviceHealth: 1",
        "LinkDown: 0",
    ],
)
def test_figures_and_switches_of_such_names_are_no_exceptions(line):
    log = "".join(f"step {step}/30 loss 2.{step}\n{line}\n" for step in (10, 20, 30))
    assert judging.answer(log, 0) == ("none", "none")


@pytest.mark.parametrize(
    ("raised", "rank"),
    [
        ("acme.HangDetectedError: no progress for 1800 s on rank 4", 4),
        ("acme.StuckError: rank 6 made no step for 900 s", 6),
        ("acme.DeadlockDetected: collective not entered by ranks [3]", 3),
        ("acme.DeadlockDetected: collective not entered by ranks [3, 5]", None),
        ("acme.StalledError: no step for 900 s", None),
    ],
)
def test_who_stood_still_is_who_is_named(raised, rank):
    assert judging.guess(_RAISED.format(raised)) == ("hang", rank)


def test_a_class_is_told_by_its_whole_name():
    assert (
        "StateDictMismatchError"
        in judging.verdict(_RAISED.format("acme.StateDictMismatchError: wq"), exit_code=1).summary
    )
