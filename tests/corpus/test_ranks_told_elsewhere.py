"""Ranks that a log tells only beside something else: a process of MPI's table, the machine of a rank, a peer's address."""

import pytest

from corpus import judging

_STEPS = "".join(f"step {step}/900 | loss 2.{step}\n" for step in range(1, 4))
_TABLE = """[0] MPI startup(): Rank    Pid      Node name  Pin cpu
[0] MPI startup(): 0       3010     a1         {0-15}
[0] MPI startup(): 1       3011     a1         {16-31}
[0] MPI startup(): 2       7790     b2         {0-15}
[0] MPI startup(): 3       7791     b2         {16-31}
"""
_ENDED = "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK {} PID {} RUNNING AT {}\n=   KILLED BY SIGNAL: 9 (Killed)\n"
_TWO = _ENDED.format(0, 3010, "a1") + _ENDED.format(2, 7790, "b2")
_OOM = "[812.1] Memory cgroup out of memory: Killed process 7791 (train) total-vm:8kB, anon-rss:4kB\n"


def test_the_killed_process_is_the_one_in_mpis_table() -> None:
    assert judging.guess(_TABLE + _STEPS + _TWO + _OOM) == ("host_oom", 3)


def test_a_launcher_that_lists_several_ends_names_no_first() -> None:
    assert judging.guess(_STEPS + _TWO + _OOM) == ("host_oom", None)
    assert judging.guess(_STEPS + _ENDED.format(2, 7790, "b2")) == ("killed", 2)


_HOSTS = "".join(f"rank {rank} on node-{rank + 11}\n" for rank in range(4))
_ENDS_STEP = "slurmstepd: error: *** STEP 71.0 ON node-11 CANCELLED AT 2031-08-18T03:11:20 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n"


@pytest.mark.parametrize("name", ["node-{}", "gpu-{}", "cn{:04d}"])
@pytest.mark.parametrize(
    "line", ["rank {} on {}", "[main] rank {} -> {}", "Global rank {} is running on host {}"]
)
def test_the_rank_of_a_lost_node_is_the_one_that_was_there(name: str, line: str) -> None:
    where = "".join(line.format(rank, name.format(rank + 11)) + "\n" for rank in range(4))
    lost = f"srun: error: Node failure on {name.format(13)}\n"
    first = _ENDS_STEP.replace("node-11", name.format(11))
    for end in (first + lost, lost + first):
        assert judging.guess(where + _STEPS + end) == ("node_failure", 2)


def test_where_a_step_is_ended_says_nothing_of_the_lost_node() -> None:
    assert judging.guess(_HOSTS + _STEPS + _ENDS_STEP) == ("node_failure", None)


def test_several_ranks_on_the_lost_node_are_no_one() -> None:
    two = "".join(f"rank {rank} on node-{rank // 2 + 11}\n" for rank in range(8))
    assert judging.guess(two + _STEPS + "srun: error: Node failure on node-12\n") == ("node_failure", None)


def test_a_rank_at_a_step_or_a_device_is_on_no_node() -> None:
    at = "".join(f"rank {rank} at step{rank}\nrank {rank} on gpu{rank}\n" for rank in range(4))
    assert judging.guess(at + _STEPS + "srun: error: Node failure on gpu2\n") == ("node_failure", None)


_PEER = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [{}]:52114\n"
_PLACES = "".join(f"rank {rank} -> 10.4.0.{rank + 20}\n" for rank in range(4))


def test_the_lost_peer_is_the_rank_of_its_address() -> None:
    lost = "[rank0]: " + _PEER.format("10.4.0.22") + "[rank3]: " + _PEER.format("10.4.0.20")
    assert judging.guess(_PLACES + _STEPS + lost)[1] == 2
    assert judging.guess(_PLACES + _STEPS + lost.replace("10.4.0.2", "127.0.0."))[1] is None


def test_logs_by_address_are_those_of_their_machines() -> None:
    logs = {"launch": _PLACES + "10.4.0.22: remote status 137\n"}
    logs |= {f"10.4.0.{rank + 20}.log": f"{_STEPS}" for rank in range(4)}
    logs["10.4.0.22.log"] += (
        "May 30 17:20:11 w19 kernel: Out of memory: Killed process 3311 (python3) total-vm:2kB\n"
    )
    found = judging.verdict(logs, exit_code=1)
    assert (found.cause, found.rank) == ("host_oom", 2)


@pytest.mark.parametrize("place", ["ring.c:2:", "queue.cpp:11:", "train.pyx:1:"])
def test_a_line_of_source_is_no_rank(place: str) -> None:
    said = f"python3: {place} push: Assertion `head < cap' failed.\n"
    found = judging.guess(f"[rank0]: ready\n[rank1]: ready\n{_STEPS}{said}")
    assert found == ("abort", None)
