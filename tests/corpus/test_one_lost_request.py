"""A server that lives and goes on to answer others has lost one request; nothing else is explained by that."""

import pytest

from corpus import judging

_LIVES = {"process": "running"}
_ANSWERS = {
    "stats": "INFO 08-30 11:00:2{n} [loggers.py:123] Engine 000: Avg generation throughput: 2330.{n} tokens/s\n",
    "decode": "[2031-05-01 10:00:0{n} TP0] Decode batch. #running-req: 41, gen throughput (token/s): 18{n}0.2\n",
    "access": 'INFO:     10.0.0.{n}:5011 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n',
    "nginx": '10.0.0.{n} - - [01/May/2031:10:00:0{n} +0000] "POST /generate HTTP/1.1" 200 841\n',
}
_IDLE = {
    "nothing-made": "INFO 08-30 11:00:2{n} [loggers.py:123] Engine 000: Avg generation throughput: 0.0 tokens/s\n",
    "health": 'INFO:     10.0.0.{n}:5011 - "GET /health HTTP/1.1" 200 OK\n',
    "metrics": 'INFO:     10.0.0.{n}:5011 - "GET /metrics HTTP/1.1" 200 OK\n',
    "refused": 'INFO:     10.0.0.{n}:5011 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error\n',
}
_LOST = (
    "ERROR 08-30 11:00:14 [serving.py:24] ValueError: The prompt (length 41022) is too long.\n",
    "ERROR:app:RuntimeError: no image in the request\n",
    "Traceback (most recent call last):\n  File \"app.py\", line 7, in <module>\n    go()\nKeyError: 'prompt'\n",
)


def _log(lost: str, answer: str, front: str = "") -> str:
    rows = [answer.format(n=n) for n in range(4)]
    return rows[0] + judging.said(front, lost) + "".join(rows[1:])


@pytest.mark.parametrize("lost", _LOST)
@pytest.mark.parametrize("kind", _ANSWERS)
def test_a_server_that_answers_others_lost_a_request(lost: str, kind: str) -> None:
    assert judging.verdict(_log(lost, _ANSWERS[kind]), **_LIVES).cause == "none"
    assert judging.verdict(_log(lost, _ANSWERS[kind]), exit_code=1).cause != "none"


@pytest.mark.parametrize("kind", _IDLE)
def test_one_that_only_says_that_it_is_there_does_not_answer(kind: str) -> None:
    assert judging.verdict(_log(_LOST[2], _IDLE[kind]), **_LIVES).cause == "exception"


def test_a_worker_is_not_explained_by_the_answers_of_its_server() -> None:
    log = _log(_LOST[2], _ANSWERS["access"], "(Worker_TP2 pid=212) ")
    assert judging.verdict(log, **_LIVES).cause == "exception"
    fatal = "ERROR 08-30 11:00:14 [core.py:9] torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
    assert judging.verdict(_log(fatal, _ANSWERS["access"]), **_LIVES).cause == "cuda_error"


_SRUN = "srun: error: k{node}: task {task}: Exited with exit code 1\nsrun: Terminating StepId=7.0\n"
_MOUNTS = (
    "slurmstepd: error: pyxis:     [ERROR] Failed to mount overlay: /run/enroot/overlay: Invalid argument",
    "slurmstepd: error: pyxis: failed to import docker image",
    "FATAL:   container creation failed: mount x error: while mounting image /proc/self/fd/3: no loop devices",
    "Error: creating overlay mount to /var/lib/containers/storage/overlay/ab/merged: invalid argument",
)


@pytest.mark.parametrize("line", _MOUNTS)
def test_one_node_of_many_that_cannot_make_the_container_is_left_out(line: str) -> None:
    one = f" 0: importing\n 9: importing\n 9: {line}\n" + _SRUN.format(node=9, task=9)
    found = judging.verdict(one, exit_code=1, scheduler="slurm", state="FAILED")
    assert (found.action, found.rank) == ("restart_elsewhere", 9)
    every = "".join(f"{task}: {line}\n" for task in range(6)) + _SRUN.format(node=0, task=0)
    assert (
        judging.verdict(every, exit_code=1, scheduler="slurm", state="FAILED").action != "restart_elsewhere"
    )


@pytest.mark.parametrize("front", ["[0]<stderr>:", "[1,0]<stderr>:", ""])
@pytest.mark.parametrize("missing", [(2,), (1, 3)])
def test_ranks_that_a_report_lists_one_a_line_are_missed(front: str, missing: tuple[int, ...]) -> None:
    report = (
        "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are "
        "waiting for remainder of ranks for more than 60 seconds.\nMissing ranks:\n"
    ) + "".join(f"{rank}: [allreduce.conv3.weight, allreduce.fc.bias ...]\n" for rank in missing)
    found = judging.verdict(judging.said(front, report * 2), process="running", silent_s=2400)
    assert (found.cause, found.rank) == ("hang", missing[0] if len(missing) == 1 else None)
