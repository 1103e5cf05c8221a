"""What the lines around a failure tell of why it came."""

import pytest

from corpus import judging

_STEPS = "step 100 | loss 2.31\nstep 200 | loss 2.20\nstep 300 | loss 2.11\n"
_KILLED = "[launch.py:325:sigkill_handler] ['/usr/bin/python', 'fit.py', '--local_rank=0'] exits with return code = -9\n"


@pytest.mark.parametrize(
    "told",
    [
        "[INFO] [utils.py:799:see_memory_usage] CPU Virtual Memory:  used = 1007.31 GB, percent = 99.5%",
        "host memory: 501.2 of 503.0 GiB in use",
        "monitor: RAM usage 99.1 %",
        "system memory 251.0/252.0 GB",
    ],
)
def test_a_sigkill_while_the_hosts_memory_was_nearly_full_is_for_memory(told):
    assert judging.answer(f"{_STEPS}{told}\n{_KILLED}", 137) == ("host_oom", "change")


@pytest.mark.parametrize(
    "log",
    [
        f"{_STEPS}host memory: 201.2 of 503.0 GiB in use\n{_KILLED}",
        f"{_STEPS}GPU 0: memory usage 99 %\n{_KILLED}",
        f"host memory: 501.2 of 503.0 GiB in use\nhost memory: 90.0 of 503.0 GiB in use\n{_STEPS}{_KILLED}",
        f"RAM usage 99.1 %\n{_STEPS}{_KILLED}",
    ],
    ids=["room", "gpu", "freed", "long-before"],
)
def test_a_sigkill_with_room_in_memory_stays_one_of_which_nobody_knows(log):
    assert judging.answer(log, 137)[0] == "killed"


_SKIPS = "| WARNING: ran out of memory with exception: CUDA out of memory. Tried to allocate 900.00 MiB (GPU 1; 15.8 GiB total capacity; 14 GiB already allocated);\n Skipping batch\n"  # fmt: skip


def _raised(exc: str, code: str = "check(grads)") -> str:
    return f'Traceback (most recent call last):\n  File "/w/trainer.py", line 8, in train_step\n    {code}\n{exc}\n'


@pytest.mark.parametrize(
    "exc",
    [
        "RuntimeError: gradients differ between ranks",
        "AssertionError: parameters are not the same across all workers",
    ],
)
def test_a_batch_that_one_rank_left_out_for_its_memory_makes_the_ranks_unequal(exc):
    assert judging.blame(_STEPS + _SKIPS + _raised(exc)) == ("gpu_oom", "change", 1)
    assert judging.answer(_STEPS + _raised(exc))[0] != "gpu_oom"
    assert judging.answer(_SKIPS + _STEPS + _raised(exc))[0] != "gpu_oom", "it went on for long after that"
    assert judging.answer(_STEPS + _SKIPS + _raised("ValueError: no such split"))[0] != "gpu_oom"


_LOADING = "sd = load_checkpoint(path)['args']"


def test_a_checkpoint_that_lacks_its_metadata_is_why_its_loader_misses_a_key():
    lacks = "WARNING: model_config.json is missing in /ck/run7/iter_0000900, trying the old layout\n"
    assert judging.answer(lacks + _raised("KeyError: 'args'", _LOADING)) == (
        "checkpoint_corrupt",
        "resume_previous",
    )
    assert judging.answer(lacks + _raised("KeyError: 'label'", "row['label']"))[0] != "checkpoint_corrupt"
    assert judging.answer(lacks + _STEPS + _raised("KeyError: 'args'", _LOADING))[0] != "checkpoint_corrupt"
    other = "WARNING: config.yaml not found in /home/u, using defaults\n"
    assert judging.answer(other + _raised("KeyError: 'args'", _LOADING))[0] != "checkpoint_corrupt"


def _misses(ranks, path):
    return "".join(
        f"[rank{rank}]: FileNotFoundError: [Errno 2] No such file or directory: '{path}'\n" for rank in ranks
    )


_OWN = "$ ls out/step_90\n__4_0.distcp  __5_0.distcp  __6_0.distcp  __7_0.distcp\n"


def test_shards_that_each_machine_keeps_for_itself_are_no_damaged_checkpoint():
    assert judging.answer(_misses((4, 5), "./out/step_90/__0_0.distcp") + _OWN) == ("config_error", "change")
    assert judging.answer(_misses((5,), "/tmp/ck/step_90/__1_0.distcp") + _OWN) == ("config_error", "change")


@pytest.mark.parametrize(
    "log",
    [
        _misses((4, 5), "/lustre/out/step_90/__0_0.distcp") + _OWN,
        _misses((0, 4, 5), "./out/step_90/__0_0.distcp") + _OWN,
        _misses((4, 5), "./out/step_90/__0_0.distcp"),
        _misses((4, 5), "./out/step_90/__0_0.distcp") + "__1_0.distcp  __4_0.distcp  __5_0.distcp\n",
    ],
    ids=["shared", "owner-misses-it", "nothing-listed", "others-are-there"],
)
def test_a_shard_that_is_missing_for_all_is_one_of_a_damaged_checkpoint(log):
    assert judging.answer(log)[0] == "checkpoint_corrupt"


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (
            "$ docker stop fit-2",
            "Error response from daemon: cannot stop container: fit-2: did not receive an exit event",
        ),
        ("$ kill -9 4711", "bash: kill: (4711) - Operation not permitted"),
        ("[me@n1 ~]$ scancel 88", "scancel: error: Kill job error on job id 88: Access/permission denied"),
        ("$ kill 4711", "-bash: kill: (4711) - No such process"),
    ],
)
def test_a_command_that_did_not_work_ended_nothing(command, answer):
    assert judging.answer(f"{_STEPS}{command}\n{answer}\n", process="running", silent_s=9000)[0] == "hang"
    assert judging.answer(f"{_STEPS}{command}\n", 137) == ("cancelled", "hold")


@pytest.mark.parametrize(
    "path",
    [
        "/tmp/torchinductor_me/fx/a.py",
        "/home/u/.triton/cache/9f/k.cubin.tmp.pid_7",
        "/w/model/__pycache__/net.pyc",
    ],
)
def test_a_file_that_is_gone_from_a_compilers_cache_is_no_missing_data(path):
    gone = "FileNotFoundError: [Errno 2] No such file or directory: '{}'"
    assert judging.answer(_STEPS + _raised(gone.format(path)))[0] == "exception"
    assert judging.answer(_STEPS + _raised(gone.format("/data/triton/shard_7.bin")))[0] == "data_error"


@pytest.mark.parametrize(
    "words",
    ["NVJPEG_STATUS_ALLOCATOR_FAILURE", "CUTENSOR_STATUS_ALLOC_FAILED", "NPP_MEMORY_ALLOCATION_ERR", "CUDSS_STATUS_ALLOC_FAILED"],
)  # fmt: skip
def test_a_library_whose_allocator_failed_had_no_gpu_memory(words):
    assert judging.answer(_STEPS + _raised(f"RuntimeError: pipeline failed: {words} b.jpg")) == (
        "gpu_oom",
        "change",
    )
    bad = _raised("RuntimeError: pipeline failed: NVJPEG_STATUS_BAD_JPEG b.jpg")
    assert judging.answer(_STEPS + bad)[0] == "data_error"


@pytest.mark.parametrize(
    "warning",
    ["Corrupt JPEG data: premature end of data segment", "Premature end of JPEG file", "Corrupt JPEG data: bad Huffman code"],
)  # fmt: skip
def test_what_a_decoder_warns_of_is_no_failure_of_what_lives_or_raised(warning):
    assert judging.answer(f"{warning}\n{_STEPS}{warning}\n", process="running") == ("none", "none")
    assert (
        judging.answer(f"{_STEPS}{warning}\n{_raised('IndexError: list index out of range')}")[0]
        == "exception"
    )
    assert judging.answer(f"{_STEPS}{_raised('OSError: broken data stream: ' + warning)}")[0] == "data_error"
