"""Transports and watches against a served emulation of the API: real HTTP, and the real kubectl."""

import pytest

from kubeapi import shapes
from runward import ports
from runward.backends.k8s import api, direct, feed, kubectl, targets
from runward.core import job
from runward.runners import local
from waiting import until

S = job.JobState
PODS = "/api/v1/namespaces/ml/pods"


def test_both_ways_ask_make_delete_and_are_refused_alike(transport, cluster):
    cluster.put(shapes.job("there"))
    assert api.read(transport, api.Ask("/apis/batch/v1/namespaces/ml/jobs/there"))["kind"] == "Job"
    made = {k: v for k, v in shapes.job("new").items() if k != "status"}
    path = "/apis/batch/v1/namespaces/ml/jobs"
    assert api.read(transport, api.Ask(path, method="POST", body=made))["metadata"]["uid"]
    with pytest.raises(api.Refused) as twice:
        transport.ask(api.Ask(path, method="POST", body=made))
    assert (twice.value.status, twice.value.reason) == (409, "AlreadyExists")
    wrong = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "another"}}
    with pytest.raises(api.Refused) as other:
        transport.ask(api.Ask(f"{path}/new", method="DELETE", body=wrong))
    assert other.value.status == 409
    transport.ask(api.Ask(f"{path}/new", method="DELETE", body={"kind": "DeleteOptions", "apiVersion": "v1"}))
    with pytest.raises(api.Refused) as gone:
        transport.ask(api.Ask(f"{path}/new"))
    assert gone.value.status == 404


@pytest.mark.parametrize("kind", ["html", "drop", "401", "500"])
def test_what_says_nothing_about_the_pod_is_contact_lost(transport, cluster, kind):
    cluster.put(shapes.pod())
    cluster.fault(PODS, kind, times=100)
    with pytest.raises(ports.ContactLost):
        api.read(transport, api.Ask(f"{PODS}/x", deadline_s=5.0))


def test_a_slow_server_and_one_that_is_busy_cost_no_more_than_the_deadline(lightkube_way, cluster):
    one = lightkube_way
    cluster.put(shapes.pod())
    cluster.fault(PODS, "429")
    with pytest.raises(ports.ContactLost, match="429"):
        one.ask(api.Ask(f"{PODS}/x"))
    cluster.fault(PODS, "slow", seconds=600)
    with pytest.raises(ports.ContactLost, match="time"):
        one.ask(api.Ask(f"{PODS}/x", deadline_s=0.2))


def test_a_missing_right_is_said_with_the_way_out(jobs, cluster):
    cluster.rules = []
    found = jobs.poll(["ml/x"])["ml/x"]
    assert isinstance(found, job.Unseen)
    assert "not allowed" in found.why
    assert "deploy/kubernetes" in found.why


def test_an_answer_above_its_bound_is_refused_and_a_log_is_cut(transport, cluster):
    cluster.put({**shapes.pod(), "big": "x" * 200_000})
    with pytest.raises(ports.ContactLost, match="above"):
        transport.ask(api.Ask(f"{PODS}/x", limit=100_000))
    cluster.logs["ml", "x", "train", False] = b"2026-01-31T08:00:00Z " + b"y" * 200_000
    assert len(transport.ask(api.Ask(f"{PODS}/x/log", limit=1000, cut=True))) == 1000


# -- watches -------------------------------------------------------------------------------------------------


def followed(transport, **more):
    one = feed.Feed(transport, feed.Kind(PODS, **more))
    one.start()
    until(lambda: one.lists, "the first list")
    return one


def test_a_watch_brings_what_came_changed_and_went(transport, cluster):
    cluster.put(shapes.pod("a"))
    one = followed(transport)
    cluster.put(shapes.pod("b"))
    until(lambda: one.get("b"))
    cluster.status("Pod", "b", {"phase": "Succeeded"})
    until(lambda: one.get("b")["status"]["phase"] == "Succeeded")
    cluster.remove("Pod", "a")
    until(lambda: one.get("a") is None)
    assert one.last("a")["metadata"]["name"] == "a"
    assert (one.problem, one.lists) == (None, 1)


def test_pods_are_found_by_a_label_whenever_they_came_and_after_they_went(lightkube_way, cluster):
    cluster.put(shapes.pod("first", labels={"job": "a"}))
    one = followed(lightkube_way)
    assert [found["metadata"]["name"] for found in one.labelled("job", "a")] == ["first"]
    cluster.put(shapes.pod("second", labels={"job": "a"}))
    cluster.put(shapes.pod("other", labels={"job": "b"}))
    until(lambda: one.get("other") is not None)
    cluster.remove("Pod", "first")
    until(lambda: one.get("first") is None)
    assert sorted(found["metadata"]["name"] for found in one.labelled("job", "a")) == ["first", "second"]


def test_lists_come_in_pages(lightkube_way, cluster):
    for i in range(feed.PAGE + 3):
        cluster.put(shapes.pod(f"p{i}", labels={"set": "one"}))
    one = followed(lightkube_way)
    assert len(one.labelled("set", "one")) == feed.PAGE + 3


@pytest.mark.parametrize("kind", ["gone", "silent", "drop", "500"])
def test_what_a_broken_watch_missed_is_listed_anew(lightkube_way, cluster, kind):
    cluster.put(shapes.pod("a"))
    cluster.fault("watch=true", kind)
    one = followed(lightkube_way, silence_s=1.5)
    cluster.remove("Pod", "a")
    until(lambda: one.get("a") is None and one.problem is None)
    until(lambda: one.lists >= 2)


def test_versions_that_the_server_has_forgotten_are_not_asked_for_again(lightkube_way, cluster):
    cluster.put(shapes.pod("a"))
    cluster.fault("watch=true", "cut")
    one = followed(lightkube_way)
    cluster.put(shapes.pod("b"))
    cluster.compact()
    until(lambda: one.get("b"))


def test_a_watch_goes_on_from_its_last_bookmark(lightkube_way, cluster):
    cluster.put(shapes.pod("a"))
    one = followed(lightkube_way)
    elsewhere = cluster.put({**shapes.pod("b"), "metadata": {"name": "b", "namespace": "other"}})
    version = int(elsewhere["metadata"]["resourceVersion"])
    until(lambda: cluster.bookmarked >= version)
    watches = cluster.calls.count(("watch", "", "pods"))
    cluster.compact()
    cluster.cut()
    until(lambda: cluster.calls.count(("watch", "", "pods")) > watches)
    cluster.put(shapes.pod("c"))
    until(lambda: one.get("c"))
    assert (one.lists, one.problem) == (1, None)  # no 410: the bookmark's version was not forgotten


# -- the backend ---------------------------------------------------------------------------------------------


def test_contact_lost_is_no_end_and_comes_back(jobs, served, cluster):
    uid = cluster.put(shapes.pod())["metadata"]["uid"]
    handle = f"ml/x@{uid}"
    assert jobs.poll([handle])[handle].state is S.RUNNING
    cluster.fault("watch=true", "500", times=2)
    cluster.fault("limit=", "500", times=3)
    cluster.put(shapes.pod())
    until(lambda: not isinstance(jobs.poll([handle])[handle], job.Unseen))
    assert jobs.poll([handle])[handle].state is S.RUNNING


def test_a_pod_that_is_deleted_keeps_the_end_that_it_was_seen_with(jobs, cluster):
    uid = cluster.put(shapes.pod())["metadata"]["uid"]
    handle = f"ml/x@{uid}"
    jobs.poll([handle])
    with cluster.lock:  # ended and removed between two looks
        cluster.put(
            {
                **shapes.pod(state=shapes.ended(137, "OOMKilled"), phase="Failed"),
                "metadata": {"name": "x", "uid": uid},
            }
        )
        cluster.remove("Pod", "x")
    found = until(lambda: (s := jobs.poll([handle])[handle]).state.final and s)
    assert (found.state, found.exit) == (S.OUT_OF_MEMORY, job.ExitStatus(137))


def test_a_pod_that_is_deleted_alive_has_no_exit_code_and_one_of_its_name_is_another(jobs, cluster):
    uid = cluster.put(shapes.pod())["metadata"]["uid"]
    handle = f"ml/x@{uid}"
    jobs.poll([handle])
    cluster.remove("Pod", "x")
    cluster.put(shapes.pod())
    found = until(lambda: (s := jobs.poll([handle])[handle]).state.final and s)
    assert (found.state, found.word, found.exit) == (S.CANCELLED, "Deleted", job.ExitStatus.unseen())


def test_a_pod_that_was_never_there_says_nothing(jobs):
    assert "there is no pod" in jobs.poll(["ml/nobody"])["ml/nobody"].why


def test_an_absent_crd_is_said_as_such(jobs, cluster):
    cluster.absent.add("ray.io")
    with pytest.raises(ports.ContactLost, match=r"CRD ray\.io is not installed"):
        jobs.fetch(targets.parse("ml/rayjob/x"))
    assert isinstance(jobs.poll(["ml/rayjob/x"])["ml/rayjob/x"], job.Unseen)


def test_only_the_run_of_the_pod_that_changed_is_woken(jobs, cluster):
    handles = [f"ml/{name}@{cluster.put(shapes.pod(name))['metadata']['uid']}" for name in ("a", "b")]
    jobs.poll(handles)
    assert all(jobs.wake_fds(one) for one in handles)
    cluster.status("Pod", "a", {"phase": "Failed"})
    until(lambda: not jobs.wake_fds(handles[0]))
    assert jobs.wake_fds(handles[1])
    assert [jobs.stirred(one) for one in handles] == [True, False]  # also for a sleep that had not begun yet
    jobs.poll(handles)
    assert not jobs.stirred(handles[0])
    assert jobs.wake_fds(handles[0])


def test_without_the_right_to_list_a_pod_is_asked_for_by_name(jobs, cluster):
    cluster.put(shapes.pod())
    cluster.rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]
    assert jobs.poll(["ml/x"])["ml/x"].state is S.RUNNING


# -- logs ----------------------------------------------------------------------------------------------------


def stamped(*lines, start=0):
    return b"".join(
        b"2026-01-31T08:00:%02d.%09dZ %s\n" % (i // 10, i % 10, line) for i, line in enumerate(lines, start)
    )


def log_of(jobs, cluster, monkeypatch):
    monkeypatch.setattr("runward.backends.k8s.logs.EVERY_S", 0.0)
    monkeypatch.setattr("runward.backends.k8s.logs._SOON_S", 60.0)
    uid = cluster.put(shapes.pod())["metadata"]["uid"]
    jobs.poll([f"ml/x@{uid}"])
    return jobs.logs(f"ml/x@{uid}")[0]


def data(log):
    return b"".join(chunk.data for chunk in log.read_new(1 << 20))


def test_each_line_of_a_log_is_read_once(jobs, cluster, monkeypatch):
    log = log_of(jobs, cluster, monkeypatch)
    key = ("ml", "x", "train", False)
    cluster.logs[key] = stamped(b"a", b"b")
    assert data(log) == b"a\nb\n"
    assert data(log) == b""
    cluster.logs[key] += stamped(b"c", start=1) + stamped(b"d", start=30)  # c has the stamp of b
    assert data(log) == b"c\nd\n"
    assert data(log) == b""


def test_the_rest_of_a_container_that_was_started_anew_is_read_too(jobs, cluster, monkeypatch):
    log = log_of(jobs, cluster, monkeypatch)
    cluster.logs["ml", "x", "train", False] = stamped(b"a")
    assert data(log) == b"a\n"
    cluster.logs["ml", "x", "train", True] = stamped(b"a", b"why it died")
    cluster.logs["ml", "x", "train", False] = stamped(b"new", start=40)
    uid = cluster.named("Pod", "x")["metadata"]["uid"]
    cluster.put({**shapes.pod(last=shapes.ended(1), policy="Always"), "metadata": {"name": "x", "uid": uid}})
    got = []
    until(lambda: got.append(data(log)) or len(b"".join(got)) >= len(b"why it died\nnew\n"))
    assert sorted(b"".join(got).splitlines()) == [b"new", b"why it died"]


def test_a_line_of_megabytes_is_read_and_does_not_stop_the_log(jobs, cluster, monkeypatch):
    monkeypatch.setattr("runward.backends.k8s.logs._FIRST_LIMIT", 1 << 20)
    log = log_of(jobs, cluster, monkeypatch)
    cluster.logs["ml", "x", "train", False] = stamped(b"a", b"z" * (5 << 20), b"step 3")
    got = b""
    for _ in range(20):
        got += data(log)
    assert got.startswith(b"a\nzzz")
    assert got.endswith(b"z\nstep 3\n")


# -- the way there -------------------------------------------------------------------------------------------


def test_a_kubeconfig_that_is_missing_or_logs_in_by_a_command_is_left_to_kubectl(
    served, tmp_path, monkeypatch
):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))
    with pytest.raises(direct.NotForUs, match="no usable kubeconfig"):
        direct.open_client()
    plugin = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "aws",
            "interactiveMode": "Never",
        }
    }
    monkeypatch.setenv("KUBECONFIG", served.kubeconfig(tmp_path / "plugin", **plugin))
    with pytest.raises(direct.NotForUs, match="logs in by a command"):
        direct.open_client()
    monkeypatch.setenv("KUBECONFIG", "/a:/b")
    with pytest.raises(direct.NotForUs, match="several files"):
        direct.open_client()


def test_expired_credentials_are_named(transport, cluster):
    cluster.token = "another"
    with pytest.raises(ports.ContactLost, match="not accepted"):
        transport.ask(api.Ask(f"{PODS}/x"))


def test_a_kubectl_that_is_not_installed_is_contact_lost():
    one = kubectl.Kubectl(local.Local(), ("no-such-kubectl",))
    with pytest.raises(ports.ContactLost, match="not installed"):
        one.ask(api.Ask(f"{PODS}/x"))
    with pytest.raises(ports.ContactLost), one.lines(api.Ask(PODS)) as lines:
        list(lines)
