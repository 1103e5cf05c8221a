"""Runs on a served emulation of the API, from the command line: attached, handed over, submitted, with least rights."""

import json
import time

import pytest
import yaml

from kubeapi import shapes
from kubeapi.deployed import ACT, DEPLOY, READ, rules, spec
from kubeapi.shapes import condition, ended
from runward import ports
from runward.backends.k8s import manifests, targets
from runward.core import job, kubernetes_owners
from waiting import follow, until

S = job.JobState
LOST = [
    condition("DisruptionTarget", "True", "PreemptionByScheduler", "preempted by a pod of higher priority")
]


def end_job(cluster, name, *, state, phase, conditions, reason="BackoffLimitExceeded", **more):
    """The pod of a Job ends, and the Job by it."""
    state["terminated"]["finishedAt"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    pod = next(one for one in cluster.every("Pod") if one["metadata"]["labels"].get("job-name") == name)
    status = {
        "phase": phase,
        "conditions": conditions,
        **more,
        "containerStatuses": [{"name": "train", "restartCount": 0, "state": state}],
    }
    cluster.status("Pod", pod["metadata"]["name"], status)
    good = phase == "Succeeded"
    said = condition("Complete" if good else "Failed", "True", "CompletionsReached" if good else reason)
    cluster.status("Job", name, {"conditions": [said], "failed": 0 if good else 1})


def jobs_of(cluster):
    return sorted(one["metadata"]["name"] for one in cluster.every("Job"))


def test_a_preempted_job_is_made_anew_and_followed_to_its_end(cluster, served, cli, tmp_path):
    cluster.rules, cluster.runs_jobs = rules(*ACT), True
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in shapes.job("train").items() if k != "status"}))
    (tmp_path / "ckpt").mkdir()

    def script():
        [first] = until(lambda: jobs_of(cluster), "the first job")
        end_job(cluster, first, state=ended(143), phase="Failed", conditions=LOST)
        second = until(lambda: [n for n in jobs_of(cluster) if n != first], "the second job")[0]
        end_job(cluster, second, state=ended(0, "Completed"), phase="Succeeded", conditions=[])

    act = follow(script)
    done = cli("submit", "--on", "k8s", "--name", "t", "--place-arg=namespace=ml", "--env", "A=b", str(path))
    act.join(60)
    assert done.returncode == 0, done.stderr
    first, second = sorted(cluster.every("Job"), key=lambda one: int(one["metadata"]["name"].split("-")[1]))
    for number, one in enumerate((first, second), 1):
        [container] = one["spec"]["template"]["spec"]["containers"]
        assert {"name": "A", "value": "b"} in container["env"]
        assert one["metadata"]["annotations"][manifests.TOKEN].startswith(f"t-{number}-")
    status = json.loads(cli("status", "t", "--json").stdout)
    assert [one["verdict"]["cause"] for one in status["attempts"]] == ["preempted", "none"]


def test_a_submission_whose_answer_was_lost_is_found_and_not_repeated(cluster, served, cli, tmp_path):
    cluster.runs_jobs = True
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in shapes.job("train").items() if k != "status"}))
    cluster.fault("POST .*/jobs", "lost")

    def script():
        [first] = until(lambda: jobs_of(cluster), "the job")
        end_job(cluster, first, state=ended(0, "Completed"), phase="Succeeded", conditions=[])

    act = follow(script)
    done = cli("submit", "--on", "k8s", "--name", "t", "--place-arg=namespace=ml", str(path))
    act.join(60)
    assert done.returncode == 0, done.stderr
    assert len(cluster.every("Job")) == 1


def test_an_attached_job_is_watched_with_the_right_to_read_only(cluster, served, cli):
    cluster.rules, cluster.runs_jobs = rules(*READ), True
    cluster.put(
        shapes.node(
            "gpu-1", condition("SysLogsGPUFallenOff", "True", "IsNotHealthy", "GPU 3", "2027-01-01T00:00:00Z")
        )
    )
    cluster.put(shapes.job("train"))
    cluster._pod_for(cluster.named("Job", "train"))
    pod = cluster.every("Pod")[0]["metadata"]["name"]
    cluster.logs["ml", pod, "train", False] = b"2026-01-31T08:00:00Z step 3/9 loss 1.0\n"
    end_job(cluster, "train", state=ended(1), phase="Failed", conditions=[])
    done = cli("attach", "k8s:ml/job/train", "--name", "w")
    status = json.loads(cli("status", "w", "--json").stdout)
    [attempt] = status["attempts"]
    assert (attempt["verdict"]["cause"], attempt["verdict"]["node"], attempt["last_step"]) == (
        "gpu_hardware",
        "gpu-1",
        3,
    ), done.stderr
    assert jobs_of(cluster) == ["train"]


@pytest.mark.parametrize("way", ["lightkube", "kubectl"])
def test_what_something_else_starts_again_is_not_taken_over(cluster, served, cli, monkeypatch, request, way):
    if way == "kubectl":
        monkeypatch.setenv("KUBECTL", *request.getfixturevalue("real_kubectl"))
    owner = cluster.put(shapes.job("train"))
    cluster.put(shapes.pod("train-abc", owner=owner))
    done = cli("attach", "k8s:ml/train-abc", "--act")
    assert done.returncode == 2
    assert "Job train, which starts it again by itself" in done.stderr
    assert cli("attach", "k8s:ml/job/nobody").returncode == 3


# -- the backend's hands -------------------------------------------------------------------------------------


EVERY = [
    shapes.job(),
    shapes.jobset(),
    shapes.rayjob(),
    shapes.pytorchjob(),
    shapes.trainjob(),
    shapes.pod(phase="Failed"),
]


@pytest.mark.parametrize("manifest", EVERY, ids=lambda one: one["kind"])
def test_every_kind_is_made_found_by_its_token_and_deleted_within_its_rights(jobs, cluster, manifest):
    cluster.rules, cluster.runs_jobs = rules(*ACT), True
    served = cluster.put(manifest)
    handle = jobs.submit(spec(served, **{manifests.EXCLUDE: "gpu-1,gpu-2"}), "run-2-ab12")
    assert jobs.submit(spec(served), "run-2-ab12") == handle  # the name is taken by this very token
    assert jobs.find_in("ml", manifest, "run-2-ab12") == handle
    assert jobs.find_in("ml", manifest, "run-3-ab12") is None
    made = cluster.named(manifest["kind"], "run-2-ab12")
    for template in manifests.templates(made):
        [term] = template["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        assert [one["values"] for one in term["matchFields"]] == [["gpu-1"], ["gpu-2"]]
        assert "nodeName" not in template
    until(lambda: jobs.poll([handle])[handle].state is not S.PENDING or manifest["kind"] == "TrainJob")
    jobs.cancel(handle, ports.EndPlan())
    found = until(lambda: (s := jobs.poll([handle])[handle]).state.final and s)
    assert found.word == "Deleted"
    assert cluster.named(manifest["kind"], manifest["metadata"]["name"])  # the first one is not touched


def test_a_name_that_is_taken_by_another_is_refused(jobs, cluster):
    cluster.put(shapes.job("run-2-ab12"))
    with pytest.raises(Exception, match="refused"):
        jobs.submit(spec(shapes.job()), "run-2-ab12")


def test_only_the_object_that_was_seen_is_deleted(jobs, cluster):
    uid = cluster.put(shapes.job("j"))["metadata"]["uid"]
    cluster.remove("Job", "j")
    cluster.put(shapes.job("j"))
    jobs.cancel(f"ml/job/j@{uid}", ports.EndPlan())
    assert jobs_of(cluster) == ["j"]


def test_a_deleted_pod_is_over_when_it_is_gone_and_not_before(jobs, cluster):
    cluster.lingers = True
    handle = f"ml/x@{cluster.put(shapes.pod())['metadata']['uid']}"
    jobs.poll([handle])
    jobs.cancel(handle, ports.EndPlan(grace_s=30))
    until(lambda: jobs.poll([handle])[handle].state is S.ENDING)
    cluster.remove("Pod", "x")
    until(lambda: jobs.poll([handle])[handle].state is S.CANCELLED)


def test_words_to_resume_from_go_to_the_command_that_trains():
    made = manifests.from_spec(spec(shapes.job(), "--load", "/c/7"), "t-2-a")[1]
    assert manifests.command_of(made) == ("python", "train.py", "--load", "/c/7")
    ray = manifests.from_spec(spec(shapes.rayjob(), "a=b c"), "t-2-a")[1]
    assert ray["spec"]["entrypoint"] == "python -m verl.trainer.main_ppo 'a=b c'"
    bare = shapes.job()
    del bare["spec"]["template"]["spec"]["containers"][0]["command"]
    with pytest.raises(Exception, match="no command of its own"):
        manifests.from_spec(spec(bare, "--load", "x"), "t-2-a")


def test_what_the_server_and_controllers_set_is_not_made_anew():
    owner = shapes.job()
    owner["metadata"] |= {
        "uid": "u",
        "resourceVersion": "5",
        "managedFields": [{}],
        "labels": {"kueue.x-k8s.io/queue-name": "q", "batch.kubernetes.io/controller-uid": "u"},
    }
    owner["spec"] |= {"selector": {"matchLabels": {"controller-uid": "u"}}, "suspend": False}
    owner["spec"]["template"]["metadata"]["labels"] |= {"controller-uid": "u", "job-name": "j"}
    made = manifests.anew(owner)
    assert made["metadata"] == {
        "name": "j",
        "namespace": "ml",
        "labels": {"kueue.x-k8s.io/queue-name": "q"},
        "annotations": {},
    }
    assert "selector" not in made["spec"]
    assert "suspend" not in made["spec"]
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "train"}


@pytest.mark.parametrize("token", ["run-1-ab", "Big_Run.v2-12-ff00", "x" * 64 + "-3-ab", "-_-1-a"])
def test_a_token_becomes_a_name_that_the_cluster_takes(token):
    name = manifests.name_of(token)
    assert len(name) <= 50
    assert targets.parse(f"ml/{name}").name == name


# -- manifests -----------------------------------------------------------------------------------------------


def test_every_kustomization_names_files_that_are_there_and_binds_roles_that_exist():
    roles, bound = set(), set()
    for path in DEPLOY.glob("*/kustomization.yaml"):
        for name in yaml.safe_load(path.read_text())["resources"]:
            assert (path.parent / name).exists()
        for other in path.parent.glob("*.yaml"):
            for one in yaml.safe_load_all(other.read_text()):
                roles |= {one["metadata"]["name"]} if one["kind"] == "ClusterRole" else set()
                bound |= {one["roleRef"]["name"]} if "roleRef" in one else set()
    assert bound <= roles


def flat(given):
    return {
        (v, g, r)
        for rule in given
        for v in rule["verbs"]
        for g in rule["apiGroups"]
        for r in rule["resources"]
    }


def test_the_rights_are_those_that_the_kinds_need_and_no_more():
    needed = {
        (verb, kind.group, kind.plural)
        for kind in kubernetes_owners.KINDS.values()
        for verb in ("get", "list", "watch")
    }
    needed |= {("get", "", "pods/log"), ("list", "", "events"), ("get", "", "nodes")}
    assert flat(rules(*READ)) == needed
    acting = {
        (v, k.group, k.plural)
        for k in kubernetes_owners.KINDS.values()
        if k.word != "raycluster"
        for v in (("update",) if k.scaled else ("create", "delete"))
    }
    assert flat(rules("runward-act")) == acting
