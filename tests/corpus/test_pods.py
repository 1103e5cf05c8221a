"""Pods and nodes that hold one rank each: who is named by a cluster's reports, and when a pod's number is no rank."""

import pytest

from corpus import judging

_TRACE = "Traceback (most recent call last):\n  File \"fit.py\", line 7, in step\nKeyError: 'mask'\n"
_WORKERS = [f"job-worker-{number}" for number in range(4)]


def _steps(*fronts: str) -> str:
    return "".join(f"{front}step {step}/900 | loss 2.{step}\n" for step in range(1, 4) for front in fronts)


_SPEAK = _steps(*(f"[{pod}] " for pod in _WORKERS))


@pytest.mark.parametrize(
    ("report", "cause"),
    [
        ("Name:         job-worker-2\nNamespace:    ml\nContainers:\n  pytorch:\n    State:          Terminated\n      Reason:       OOMKilled\n      Exit Code:    137\n", "host_oom"),
        ("Name:         job-worker-2\nContainers:\n    Last State:     Terminated\n      Reason:       Error\n      Exit Code:    139\n", "segfault"),
        ("Warning  OOMKilling  node/n3  Memory cgroup out of memory: Killed process 77 (python3)\npod/job-worker-2 OOMKilled exit code 137\n", "host_oom"),
        ("NAME           READY   STATUS      RESTARTS   AGE\njob-worker-1   0/1     Error       0          3h\njob-worker-2   0/1     OOMKilled   0          3h\n", "host_oom"),
        ("Warning  Evicted  pod/job-worker-2  The node was low on resource: memory. Container pytorch was using 500Gi, request is 10Gi\n", "host_oom"),
        ("Warning  NodeNotReady  pod/job-worker-2  Node is not ready\n", "node_failure"),
        ('Warning  Failed  pod/job-worker-2  Failed to pull image "x:v1": rpc error: code = NotFound\n', "image_error"),
    ],
    ids=["described", "crashed", "event", "listed", "evicted", "node", "image"],
)  # fmt: skip
def test_the_pod_of_a_clusters_report_is_its_rank(report: str, cause: str) -> None:
    assert judging.guess(_SPEAK + report) == (cause, 2)
    assert judging.guess("step 1/2 | loss 2.1\n" + report) == (cause, None)


@pytest.mark.parametrize(
    "said",
    [
        "[job-worker-0] world_size: 32\n",
        "[job-worker-0] nproc_per_node=8\n",
        "[job-worker-1] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n",
    ],
    ids=["world", "a-node", "torchrun"],
)
def test_the_number_of_a_pod_that_holds_several_ranks_is_no_rank(said: str) -> None:
    assert judging.guess(_SPEAK + judging.said("[job-worker-2] ", _TRACE)) == ("exception", 2)
    assert judging.guess(_SPEAK + said + judging.said("[job-worker-2] ", _TRACE)) == ("exception", None)


@pytest.mark.parametrize("role", ["workers", "node", "worker"])
@pytest.mark.parametrize("front", ["[{}] ", "[pod/{}/train] "])
def test_pods_of_one_job_of_a_set_count_through_and_those_of_several_do_not(role: str, front: str) -> None:
    pods = [front.format(f"js-{role}-0-{number}-abcd{number}") for number in range(4)]
    assert judging.guess(_steps(*pods) + judging.said(pods[2], _TRACE)) == ("exception", 2)
    two = [front.format(f"js-{role}-{job}-{number}-abcd{number}") for job in range(2) for number in range(2)]
    assert judging.guess(_steps(*two) + judging.said(two[3], _TRACE)) == ("exception", None)


def test_nodes_of_one_rank_each_speak_for_it() -> None:
    one = _steps(*(f"n{number}: [rank{number}]: " for number in range(4)))
    assert judging.guess(one + judging.said("n2: ", _TRACE)) == ("exception", 2)
    assert judging.guess(one + "srun: error: Node failure on n2\n") == ("node_failure", 2)
    leaders = _steps(*(f"n{number}: [rank{8 * number}]: " for number in range(4)))
    assert judging.guess(leaders + judging.said("n2: ", _TRACE)) == ("exception", None)
    several = _steps(*(f"n{number // 2}: [rank{number}]: " for number in range(8)))
    assert judging.guess(several + "srun: error: Node failure on n2\n") == ("node_failure", None)


def test_a_worker_beside_a_chief_has_another_number_in_each_framework() -> None:
    log = _steps("[tf-chief-0] ", "[tf-worker-0] ", "[tf-worker-1] ")
    assert judging.guess(log + judging.said("[tf-worker-1] ", _TRACE)) == ("exception", None)
