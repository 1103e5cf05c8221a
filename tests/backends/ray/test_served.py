"""A served Ray that misbehaves as proxies and large clusters do: what is not Ray's own word says nothing about a job."""

import time
from collections.abc import Iterator

import pytest

import waiting
from fakes import ray_api
from runward import ports
from runward.backends.ray import backend, client, states
from runward.core import errors, job
from runward.wiring import ray as wiring_ray


@pytest.fixture
def api() -> Iterator[ray_api.Api]:
    one = ray_api.Api()
    yield one
    one.close()


def ray(api: ray_api.Api, **settings: float) -> backend.Ray:
    return backend.Ray(client.open_dashboard(api.url, {}), backend.Settings(**settings))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((200, "<html>log in</html>"), "the answer is no JSON, but b'<html>log in"),
        ((200, '"hello"'), "no job in the answer"),
        ((302, ""), "HTTP 302, sent on to elsewhere"),
        ((404, "404 page not found"), "404 page not found (HTTP 404)"),
        ((429, "slow down"), "HTTP 429 slow down"),
        ((502, "<html>bad gateway</html>"), "HTTP 502"),
        ((401, "who are you"), "set RAY_AUTH_TOKEN"),
        ((500, "trouble"), "trouble (HTTP 500)"),
    ],
)
def test_an_answer_that_is_not_rays_is_unseen_with_its_words(api, answer, words):
    api.job("j")
    api.proxy = answer
    one = ray(api)
    seen = one.poll(["j"])["j"]
    assert isinstance(seen, job.Unseen)
    assert words in seen.why
    with pytest.raises(ports.ContactLost):
        one.find("j")
    with pytest.raises(ports.ContactLost):
        one.cancel("j", ports.EndPlan())
    both = one.poll(["j", "k"])
    assert all(isinstance(status, job.Unseen) for status in both.values())


def test_a_dashboard_that_is_slow_is_given_up_and_says_so(api):
    api.job("j")
    api.delay_s = 30.0
    one = client.open_dashboard(api.url, {})
    with pytest.raises(ports.ContactLost, match="did not answer in time"):
        one.json(client.Request("GET", "/api/jobs/j", deadline_s=0.3))


def test_a_submission_through_a_proxy_that_swallows_it_is_unsure_and_looked_up(api):
    api.proxy = (502, "bad gateway")
    spec = job.JobSpec(("true",), "/")
    with pytest.raises(ports.ContactLost):
        ray(api).submit(spec, "t-1")
    api.proxy = None
    assert ray(api).find("t-1") is None
    assert ray(api).submit(spec, "t-1") == "t-1"
    assert [body["submission_id"] for body in api.submitted] == ["t-1"]


def test_a_line_of_five_megabytes_is_followed_whole(api):
    text = "step: 1\n" + "x" * 5_000_000 + "\nstep: 2\n"
    api.job("j", "SUCCEEDED", job_id="")
    api.logs["j"] = text
    [stream] = ray(api).logs("j")
    found = bytearray()

    def read() -> bool:
        for chunk in stream.read_new(1 << 20):
            found.extend(chunk.data)
        return stream.complete

    waiting.wait_until(read, "the log is complete")
    assert found.decode() == text


def test_many_jobs_are_asked_for_by_one_list_that_serves_for_a_while(api):
    names = [f"j{number}" for number in range(500)]
    for name in names:
        api.job(name)
    one = ray(api, every_s=30.0)
    for _ in range(3):
        for name in names:
            assert one.poll([name])[name].word == "RUNNING"
    assert api.asked.count("GET /api/jobs/") == 1
    assert len(api.asked) == 2  # the very first was alone
    api.job("late")
    before = len(api.asked)
    assert isinstance(one.poll(["late"])["late"], job.Unseen)
    one.cancel("late", ports.EndPlan())
    assert one.poll(["late"])["late"].word == "STOPPED"
    assert len(api.asked) - before <= 4


def node(state: str, since: float, *, head: bool = False, **more: object) -> dict:
    return {
        "state": state,
        "start_time_ms": since * 1000,
        "is_head_node": head,
        "node_id": f"n{since}",
        **more,
    }


@pytest.mark.parametrize(
    ("nodes", "proven"),
    [
        ([node("ALIVE", 50, head=True)], False),  # the head that began the job: it merely does not say it
        ([node("ALIVE", 200, head=True)], True),
        ([node("ALIVE", 200, head=True), node("ALIVE", 203)], True),
        ([node("ALIVE", 200, head=True), node("DEAD", 90)], True),
        ([node("ALIVE", 200, head=True), node("ALIVE", 90)], False),  # an older node lives on
        ([node("ALIVE", 200)], False),
        ([], False),
    ],
)
def test_a_forgotten_job_is_over_only_under_a_head_that_is_younger_than_it_and_without_older_nodes(
    api, nodes, proven
):
    one = ray(api, anew_s=0.0)
    api.job("j", start_time=100_000)
    assert one.poll(["j"])["j"].word == "RUNNING"
    del api.jobs["j"]
    api.nodes = nodes
    seen = one.poll(["j"])["j"]
    assert isinstance(seen, job.JobStatus) is proven
    if proven:
        assert (seen.state, seen.word) == (job.JobState.NODE_FAILED, "FORGOTTEN")
    patient = ray(api, anew_s=3600.0)
    api.job("j", start_time=100_000)
    patient.poll(["j"])
    del api.jobs["j"]
    assert isinstance(patient.poll(["j"])["j"], job.Unseen)


def test_a_job_that_lost_a_worker_waits_for_word_of_its_node(api):
    failed = {"job_id": "01", "driver_node_id": "a", "driver_exit_code": 1, "start_time": 1000}
    message = "ray.exceptions.ActorUnavailableError: Socket closed"
    api.actors = [{"node_id": "b", "state": "DEAD"}]
    api.job("j", "FAILED", **failed, message=message, end_time=time.time() * 1000)
    one = ray(api)
    assert one.poll(["j"])["j"].state is job.JobState.ENDING
    api.nodes = [
        {"node_id": "b", "node_ip": "10.0.0.2", "state": "DEAD", "state_message": "health check failed"}
    ]
    seen = one.poll(["j"])["j"]
    assert (seen.state, seen.witnesses[0].detail) == (
        job.JobState.NODE_FAILED,
        "node 10.0.0.2: health check failed",
    )
    api.nodes = []
    api.job("j", "FAILED", **failed, message=message, end_time=(time.time() - 60) * 1000)
    assert one.poll(["j"])["j"].state is job.JobState.FAILED
    api.job("j", "FAILED", **failed, message="exit code 1", end_time=time.time() * 1000)
    assert one.poll(["j"])["j"].state is job.JobState.FAILED


def test_a_node_that_died_before_the_job_began_is_none_of_its_own():
    details = {"status": "FAILED", "driver_node_id": "a", "start_time": 5000}
    old = [{"node_id": "a", "state": "DEAD", "end_time_ms": 4000}]
    assert states.status(details, old).state is job.JobState.FAILED
    assert states.status(details, [{**old[0], "end_time_ms": 6000}]).state is job.JobState.NODE_FAILED


def test_an_address_that_is_none_is_refused_with_the_forms_there_are():
    from runward.wiring import ray as wiring

    for target in ("@http://h:1", ""):
        with pytest.raises(errors.UsageError, match="pod:NAMESPACE/HEADPOD"):
            wiring.split(target)
    with pytest.raises(errors.UsageError):
        wiring.cluster("pod:ml/head:http")
    with pytest.raises(errors.UsageError):
        wiring.cluster("ftp://h")


def test_a_connection_that_failed_while_the_job_lived_does_not_cost_its_last_words(api):
    api.job("j")
    api.logs["j"] = "ValueError: the last word\n"
    api.proxy = (502, "no agent yet")
    [stream] = ray(api).logs("j")
    assert stream.read_new(100) == []
    waiting.wait_until(lambda: not stream._thread.is_alive(), "the first connection has failed")
    api.proxy = None
    api.jobs["j"]["status"] = "FAILED"
    stream.over = True
    [chunk] = stream.read_new(100)
    assert chunk.data == b"ValueError: the last word\n"


@pytest.mark.parametrize(
    ("held", "detached", "left"),
    [({}, True, 0), ({"CPU": 0.0}, True, 0), ({"GPU": 1.0}, True, 1), ({}, False, 1), (None, True, 1)],
)
def test_an_actor_that_outlives_its_job_by_design_and_holds_nothing_is_not_left_over(held, detached, left):
    one = {"state": "ALIVE", "is_detached": detached, "required_resources": held}
    assert len(states.alive([one])) == left


def test_a_slow_list_is_not_waited_for_while_the_one_before_will_do(api):
    for name in ("a", "b"):
        api.job(name)
    one = ray(api, every_s=0.0)
    one.settings = backend.Settings(every_s=60.0)
    one.poll(["a", "b"])
    one._listed = (one._listed[0] - 61.0, one._listed[1])
    api.delay_s, api.jobs["a"]["status"] = 3.0, "FAILED"
    assert one.poll(["a"])["a"].state is job.JobState.RUNNING  # from the list before
    waiting.wait_until(lambda: one._asking.ready(0.0), "the list came")
    api.delay_s = 0.0
    assert one.poll(["a"])["a"].state is not job.JobState.RUNNING


def test_the_end_of_the_log_that_ray_repeats_is_no_second_witness(api):
    tail = "gracefully.\nray.exceptions.GetTimeoutError: Get timed out: some object(s) not ready."
    api.logs["j"] = f"step 1/9 loss 2\nFailed to stop Cleaner {tail}\n"
    said = "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):"
    api.job("j", "FAILED", driver_exit_code=1, message=f"{said}\n{tail}", end_time=time.time() * 1000)
    found = wiring_ray.diagnosable(f"j@{api.url}")
    assert [text.text for text in found.context.texts] == [said]
