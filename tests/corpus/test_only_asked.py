"""A command that looks for a cause, and a rank that is told of another one's time-out, are no causes themselves."""

import pytest

from corpus import judging

STEPS = "".join(f"step {n} loss {4 - n / 100:.3f}\n" for n in range(30))
ERROR = 'Traceback (most recent call last):\n  File "t.py", line 3, in f\nValueError: bad layout\n'
LOOKS = {
    "docker": '$ docker inspect -f "{{.State.ExitCode}} {{.State.OOMKilled}}" trainer\n1 false\n',
    "kubectl": "$ kubectl describe pod trainer-0 | grep -c OOMKilled\n0\n",
    "root": '# dmesg | grep -i "Out of memory: Killed process"\n',
    "prompt": 'me@box:~/run$ journalctl -k | grep "Out of memory: Killed process"\n',
    "trace": "+ grep -c OOMKilled state.json\n0\n",
}


@pytest.mark.parametrize("look", LOOKS)
def test_what_a_command_looks_for_is_not_what_happened(look):
    assert judging.verdict(STEPS + ERROR + LOOKS[look], exit_code=1).cause == "exception"


@pytest.mark.parametrize("look", LOOKS)
def test_its_answer_counts(look):
    killed = "kernel: Out of memory: Killed process 4242 (python) total-vm:99kB, anon-rss:98kB\n"
    assert judging.verdict(STEPS + LOOKS[look] + killed, exit_code=137).cause == "host_oom"


def _timed_out(rank):
    return (
        f"[rank{rank}]:[E511 09:48:31.4 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=88, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600025 "
        "milliseconds before timing out.\n"
    )


@pytest.mark.parametrize("missing", [0, 5, 7])
def test_who_is_asked_for_its_records_has_not_complained_itself(missing):
    front = f"[rank{missing}]:[E511 09:48:32.1 ProcessGroupNCCL.cpp:1682] [PG ID 0 PG GUID 0(default_pg) Rank {missing}]"
    asked = (
        f"{front} Observed flight recorder dump signal from another rank via TCPStore.\n"
        f"{front} Received a dump signal due to a collective timeout from  rank {(missing + 1) % 8} and we will try our "
        "best to dump the debug info. Last enqueued NCCL work: 87, last completed NCCL work: 87.\n"
    )
    log = STEPS + "".join(_timed_out(rank) for rank in range(8) if rank != missing) + asked
    assert judging.verdict(log, exit_code=1).rank == missing


def test_a_device_number_is_no_rank_where_ranks_are_beyond_one_machine():
    log = (
        "[rank31]: iteration 3/ 50 | lm loss: 10.8\n"
        "m3-2:1881:2044 [1] include/alloc.h:228 NCCL WARN Cuda failure 2 'out of memory'\n"
        "[rank17]: ncclUnhandledCudaError: Call to CUDA function failed.\n"
        "[rank17]: Last error:\n"
        "[rank17]: Failed to CUDA calloc async 6291456 bytes\n"
    )
    assert judging.verdict(log, exit_code=1).rank == 17


def test_who_differs_from_all_others_in_its_model_is_the_one():
    said = "DDP expects same model across all ranks, but Rank {} has {} params, while rank {} has inconsistent {} params."
    log = "".join(
        f"[rank{rank}]: RuntimeError: {said.format(rank, own, other, theirs)}\n"
        for rank, own, other, theirs in (
            (2, 291, 6, 293),
            (0, 291, 6, 293),
            (6, 293, 0, 291),
            (1, 291, 6, 293),
        )
    )
    assert judging.verdict(STEPS + log, exit_code=1).rank == 6


def test_of_a_run_that_a_person_interrupts_no_rank_is_named():
    log = (
        "W0101 12:00:00.000000 50 torch/distributed/elastic/agent/server/api.py:719] Received Signals.SIGINT death "
        "signal, shutting down workers\n[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "t.py", line 70, in <module>\n[rank1]: KeyboardInterrupt\n'
    )
    found = judging.verdict(STEPS + log, exit_code=1)
    assert (found.cause, found.rank) == ("cancelled", None)


def test_a_pod_whose_last_word_is_killed_is_the_one_that_the_node_killed_for_its_memory():
    pods = ("ft-master-0", "ft-worker-0", "ft-worker-1", "ft-worker-2")
    log = "".join(
        f"{pod} pytorch RANK={rank} WORLD_SIZE=4 MASTER_ADDR=ft-master-0\n" for rank, pod in enumerate(pods)
    ) + (
        "".join(f'ft-master-0 pytorch {{"step": {step}, "loss": 5.{step}}}\n' for step in range(500, 520))
        + "ft-worker-2 pytorch Killed\n"
        "ft-worker-0 pytorch RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.2.7.31]:40112\n"
        "ml  12s  Warning  OOMKilling  node/gk-44  Memory cgroup out of memory: Killed process 2210917 (python)\n"
    )
    found = judging.verdict(log, exit_code=137)
    assert (found.cause, found.rank) == ("host_oom", 3)


def test_a_line_that_only_ends_with_the_word_killed_is_no_end():
    assert judging.verdict(STEPS + "the last state of the job is Killed\n", exit_code=0).cause == "none"
