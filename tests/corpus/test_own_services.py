"""A server of the run's own that does not answer is no hub; workers that Ray Train names by its own numbers are ranks."""

import pytest

from corpus import judging

_TRACE = 'Traceback (most recent call last):\n  File "/w/fit.py", line 7, in step\n    loss = net(x)\n'
_FRAMES = (
    '  File "/v/lib/python3.11/site-packages/trl/extras/vllm_client.py", line 220, in generate\n'
    "    response = self.session.post(url, json=data)\n"
)
_STEPS = "".join(f"[rank{r}]: step {s}/900 | loss 2.{s}\n" for s in range(1, 4) for r in range(4))


def _judged(log: str) -> tuple[str, str, int | None]:
    return judging.blame(_STEPS + log)


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("ConnectionError: The vLLM server can't be reached at http://0.0.0.0:8000 after 240.0 seconds.", "network"),
        ("aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host 10.0.0.7:30000 ssl:default [x]", "network"),
        ("requests.exceptions.ConnectionError: HTTPConnectionPool(host='127.0.0.1', port=8000): Max retries exceeded", "network"),
        (_FRAMES + "requests.exceptions.ConnectionError: ('Connection aborted.', RemoteDisconnected('closed'))", "network"),
        ("requests.exceptions.ConnectionError: ('Connection aborted.', RemoteDisconnected('closed'))", "hub_network"),
        ("aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host hub.example:443 ssl:default [x]", "hub_network"),
    ],
    ids=["trl", "aiohttp", "loopback", "by-frames", "nobody-named", "public"],
)  # fmt: skip
def test_a_service_of_the_runs_own_is_no_hub(words: str, cause: str) -> None:
    assert _judged(_TRACE + words + "\n")[:2] == (cause, "wait")


_DIED = "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        ("(TorchTrainer pid=9) Worker 2 has failed.\n" + _DIED, 2),
        (
            f"ray.train.WorkerGroupError: Training failed due to worker errors:\n[Rank 2 Error Snippet]:\n{_DIED}",
            2,
        ),
        ("Worker 1 has failed.\n", 1),
    ],
    ids=["own-number", "snippet", "nothing-else"],
)
def test_a_worker_that_ray_train_lost_is_the_rank_of_its_number(log: str, rank: int | None) -> None:
    assert _judged(log) == ("unknown", "restart", rank)


@pytest.mark.parametrize(
    "words", ["still waiting ...", "heartbeat ok", "[heartbeat] alive", "INFO keepalive"]
)
def test_heartbeats_are_no_steps(words: str) -> None:
    beats = "".join(f"2031-03-04 12:{minute:02d}:00 {words}\n" for minute in range(60))
    found = judging.verdict(_STEPS + beats, process="running", silent_s=3600)
    assert (found.cause, found.action) == ("hang", "restart")
    assert judging.judge(_STEPS + beats, process="running", silent_s=5).progress.last_step == 3


@pytest.mark.parametrize(
    ("introduced", "cause"),
    [
        ("Failed to stop MetricsPusher gracefully.", "unknown"),
        ("Failed to fetch the next shard.", "distributed_timeout"),
    ],
    ids=["while-it-ends", "at-work"],
)
def test_what_fails_while_a_helper_is_stopped_is_not_why_the_run_ended(introduced: str, cause: str) -> None:
    died = "(raylet) A worker died or was killed while executing a task by an unexpected system error.\n"
    late = "ray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready.\n"
    trace = 'Traceback (most recent call last):\n  File "fit.py", line 7, in step\n'
    assert judging.guess(f"step 1/9 loss 2\n{died}{introduced}\n{trace}{late}")[0] == cause
