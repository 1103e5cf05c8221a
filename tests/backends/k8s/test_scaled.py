"""Owners that make their pods anew: a StatefulSet or Deployment is ended and begun by its `replicas`, never two writers."""

import json

import pytest

from kubeapi import shapes
from kubeapi.deployed import ACT, rules, spec
from runward import ports
from runward.backends.k8s import asked, backend, manifests, targets
from runward.core import errors, job
from runward.wiring import k8s_owners
from waiting import follow, until

S = job.JobState
KINDS = ["StatefulSet", "Deployment", "ReplicaSet"]


def at_work(cluster, kind, replicas=1):
    """An owner with its pods, as its controller made them."""
    cluster.runs_jobs = True
    owner = cluster.put(shapes.scaled(kind, replicas=replicas))
    cluster.reconcile(owner)
    return owner


def names(cluster):
    return [one["metadata"]["name"] for one in cluster.every("Pod")]


def replicas(cluster, kind):
    return cluster.named(kind, "s")["spec"]["replicas"]


def container(cluster, kind):
    return cluster.named(kind, "s")["spec"]["template"]["spec"]["containers"][0]


@pytest.mark.parametrize(("way", "kind"), [("lightkube", "Deployment"), ("kubectl", "StatefulSet")])
def test_a_pod_of_one_replica_is_restarted_by_its_owner_and_never_beside_the_one_before(
    cluster, served, cli, monkeypatch, request, way, kind, tmp_path
):
    if way == "kubectl":
        monkeypatch.setenv("KUBECTL", *request.getfixturevalue("real_kubectl"))
    cluster.rules = rules(*ACT)
    at_work(cluster, kind)
    [first] = names(cluster)
    cluster.logs["ml", first, "train", False] = b"2026-01-31T08:00:00Z step 3/9 loss 1.0\n"
    cluster.lingers = True
    (tmp_path / "step_7").mkdir()
    argv = ["attach", f"k8s:ml/{first}", "--act", "--name", "w", "--resume-arg", "--load {path}"]
    watcher = follow(cli, *argv, "--checkpoints", str(tmp_path))
    until(lambda: ("get", "", "pods/log") in cluster.calls, "the first attempt is watched")
    restart = follow(cli, "restart", "w")
    until(lambda: replicas(cluster, kind) == 0, "the first attempt is ended")
    until(lambda: "deletionTimestamp" in cluster.named("Pod", first)["metadata"])
    assert json.loads(cli("status", "w", "--json").stdout)["attempts"][-1]["n"] == 1
    assert names(cluster) == [first], "nothing is begun while the old pod is ending"
    cluster.remove("Pod", first)
    until(lambda: replicas(cluster, kind) == 1, "the second attempt is begun")
    assert manifests.token_of(cluster.named(kind, "s")).startswith("w-2-")
    assert len(names(cluster)) == 1
    restart.join(60)
    cluster.lingers = False
    cli("stop", "w")
    watcher.join(60)
    assert (replicas(cluster, kind), names(cluster)) == (0, []), "what was stopped stays so"
    status = json.loads(cli("status", "w", "--json").stdout)
    assert (status["state"], len(status["attempts"])) == ("stopped", 2)


@pytest.mark.parametrize("kind", KINDS)
def test_an_owner_begins_again_with_what_the_attempt_adds_and_with_nothing_twice(jobs, cluster, kind):
    owner = at_work(cluster, kind, replicas=2)
    handle = f"ml/{kind.lower()}/s@{owner['metadata']['uid']}"
    until(lambda: jobs.poll([handle])[handle].state is S.RUNNING)
    with pytest.raises(Exception, match="still has 2 pods"):
        jobs.submit(spec(owner, "--load", "/c/7"), "w-2-ab12")
    jobs.cancel(handle, ports.EndPlan())
    ended = until(lambda: (one := jobs.poll([handle])[handle]).state.final and one)
    assert (ended.state, ended.word) == (S.CANCELLED, "Scaled to 0")
    for token, step in (("w-2-ab12", "7"), ("w-3-ab12", "9")):
        assert (
            jobs.submit(spec(owner, "--load", f"/c/{step}", **{manifests.EXCLUDE: "gpu-1"}), token) == handle
        )
        assert jobs.submit(spec(owner, "--load", f"/c/{step}"), token) == handle  # it is begun already
        assert jobs.find_in("ml", manifests.anew(owner), token) == handle
        assert (replicas(cluster, kind), container(cluster, kind)["args"]) == (2, ["--load", f"/c/{step}"])
        assert [one["value"] for one in container(cluster, kind)["env"]] == ["7"]
        until(lambda: jobs.poll([handle])[handle].state is S.RUNNING)
        jobs.cancel(handle, ports.EndPlan())
        until(lambda: jobs.poll([handle])[handle].state.final)


def test_a_pod_that_its_owner_replaces_by_itself_is_the_same_attempt(jobs, cluster):
    owner = at_work(cluster, "StatefulSet")
    handle = f"ml/statefulset/s@{owner['metadata']['uid']}"
    cluster.put(shapes.pod("other", labels={"app": "s"}))  # another's pod that shares a label
    until(lambda: jobs.poll([handle])[handle].state is S.RUNNING)
    before = cluster.named("Pod", "s-0")["metadata"]["uid"]
    cluster.remove("Pod", "s-0")
    assert cluster.named("Pod", "s-0")["metadata"]["uid"] != before
    states = set()

    def replaced():
        states.add(jobs.poll([handle])[handle].state)
        return [pod["metadata"]["uid"] for pod in jobs._last[handle].pods] not in ([], [before])

    until(replaced)
    assert states <= {S.RUNNING, S.PENDING}
    assert jobs.running(handle) == "ml/s-0"


def test_a_change_in_between_is_not_written_over(lightkube_way, cluster):
    owner = at_work(cluster, "StatefulSet")

    class Between:
        name, tries = "k8s", 0

        def ask(self, what):
            if what.method == "PUT" and not self.tries:
                self.tries += 1
                cluster.put({**cluster.named("StatefulSet", "s"), "status": {"replicas": 7}})
            return lightkube_way.ask(what)

    backend.Cluster(Between()).cancel(f"ml/statefulset/s@{owner['metadata']['uid']}", ports.EndPlan())
    found = cluster.named("StatefulSet", "s")
    assert (found["spec"]["replicas"], found["status"]) == (0, {"replicas": 7})


def test_only_the_owner_that_was_seen_is_ended(jobs, cluster):
    at_work(cluster, "Deployment")
    jobs.cancel("ml/deployment/s@another", ports.EndPlan())
    assert replicas(cluster, "Deployment") == 1


@pytest.mark.parametrize(
    ("count", "said"), [(2, "its 2 pods end and begin together"), (0, "StatefulSet s is scaled to 0")]
)
def test_a_pod_of_several_is_not_taken_for_all_of_them(lightkube_way, cluster, count, said):
    at_work(cluster, "StatefulSet", replicas=2)
    pod = cluster.named("Pod", "s-0")
    cluster.put(shapes.scaled("StatefulSet", replicas=count))
    with pytest.raises(errors.UsageError) as refused:
        k8s_owners.handed_over(asked.Pods(lightkube_way), targets.parse("ml/s-0"), pod)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("api", "kind"),
    [("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"), ("batch.volcano.sh/v1alpha1", "Job")],
)
def test_a_pod_of_an_owner_that_is_not_known_is_only_watched(lightkube_way, cluster, api, kind):
    cluster.put(shapes.job("lws"))  # of the same name, and none of its business
    owner = {"apiVersion": api, "kind": kind, "metadata": {"name": "lws", "uid": "u"}}
    pod = cluster.put(shapes.pod("lws-0", owner=owner))
    with pytest.raises(
        errors.UsageError, match=rf"{kind} lws, which starts it again by itself. Attach without --act\.$"
    ):
        k8s_owners.handed_over(asked.Pods(lightkube_way), targets.parse("ml/lws-0"), pod)
