"""Who did not come where the others waited for its word, and what ended a run whose new attempts did not begin."""

import pytest

from corpus import judging

_WAIT = "[rank{n}]: torch.distributed.DistStoreError: wait timeout after 18000ms, keys: /default_pg/0//ckpt/30/done/0\n"
_POLL = "[rank{n}]:[W1129 09:27:37.950201015 socket.cpp:469] [c10d] waitForInput: poll for socket SocketImpl(fd=3) returned 0, likely a timeout\n"
_WORK = "iteration 70 done\niteration 80 done\nmerging part {n}\n"


def _parts(late: dict[int, str]) -> str:
    """Logs of four ranks, joined under titles; `late`: those that did not come so far, and what they say last."""
    log = ""
    for n in range(4):
        own = late.get(n, "part {n} merged\n" + _POLL + _WAIT)
        log += f"==> out/attempt_0/{n}/stderr.log <==\n" + (_WORK + own).format(n=n) + "\n"
    return log


@pytest.mark.parametrize(
    ("late", "rank"),
    [({3: ""}, 3), ({1: ""}, 1), ({1: "", 3: ""}, None), ({3: "part {n} merged\n"}, None)],
    ids=["one", "another", "two", "came-too"],
)
def test_who_did_not_say_what_all_others_said_last_is_whom_they_wait_for(
    late: dict[int, str], rank: int | None
) -> None:
    assert judging.guess(_parts(late), exit_code=1) == ("rendezvous", rank)


_UNHEALTHY = (
    "E1129 08:36:54.631845   15617 coordination_service.cc:1549] UNAVAILABLE: The following tasks are unhealthy"
    " (stopped sending heartbeats):\n{tasks}\nThe tasks have crashed. Check the task logs for an earlier error\n"
)


@pytest.mark.parametrize(("tasks", "rank"), [("3", 3), ("1\n3", None), ("none", None)])
def test_the_task_that_sends_no_heartbeats_is_the_one_that_is_missed(tasks: str, rank: int | None) -> None:
    log = "step: 30, loss: 0.0333\n" + _UNHEALTHY.format(tasks=tasks)
    assert judging.guess(log, exit_code=134) == ("distributed_timeout", rank)


_DIED = (
    "[rank2]: Traceback (most recent call last):\n"
    '[rank2]:   File "/job/fit.py", line 31, in <module>\n'
    "[rank2]:     width = widths[layer]\n"
    "[rank2]: IndexError: list index out of range\n"
)
_SEEN = "E1129 09:21:54.769000 749 torch/distributed/elastic/multiprocessing/api.py:986] failed (exitcode: 1) local_rank: {n} (pid: {pid}) of binary: /usr/bin/python\n"
_NO_MEETING = "RuntimeError: Gloo connectFullMesh failed with [gloo/transport/tcp/pair.cc:152] timed out connecting: SO_ERROR: Connection refused, remote=[127.0.0.1]:7588\n"
_STEP = "iter 11 loss 2.51\n"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (_DIED + _SEEN.format(n=2, pid=71), True),
        (_DIED + _SEEN.format(n=1, pid=70), False),
        (_DIED, False),
        (_DIED + _SEEN.format(n=2, pid=71) + _STEP, False),
    ],
    ids=["seen-to-end", "another-ended", "nobody-ended", "it-went-on"],
)
def test_what_ended_the_attempt_before_those_that_did_not_begin_is_the_cause(
    log: str, expected: bool
) -> None:
    steps = "iter 9 loss 2.53\niter 10 loss 2.52\n"
    again = "attempt {n}\n" + _NO_MEETING + _SEEN
    found = judging.guess(steps + log + again.format(n=2, pid=90) + again.format(n=3, pid=95), exit_code=1)
    assert (found == ("exception", 2)) is expected
