"""Checkpoints that only pods see: found there by the shipped probe, and what the next attempt is told of them."""

import json
import os
import sys
import time
import zipfile

import pytest

from fakes import kubectl
from kubeapi import shapes
from kubeapi.deployed import ACT, documents, rules
from waiting import follow, until

HERE = "/no-such-volume/ckpt"
"""As the pods see it."""


@pytest.fixture
def volume(tmp_path, monkeypatch):
    """The newest complete checkpoint is step_4: step_6 is cut short, step_8 not yet renamed."""
    folder = tmp_path / "volume"
    monkeypatch.setenv("STAND_IN_VOLUME", f"{HERE}={folder}")
    monkeypatch.setenv("STAND_IN_SAID", str(tmp_path / "said"))
    for step in (2, 4, 6):
        made = folder / f"step_{step}" / "model.pt"
        made.parent.mkdir(parents=True)
        with zipfile.ZipFile(made, "w") as file:
            file.writestr("model/data.pkl", b"x" * 64)
    os.truncate(folder / "step_6" / "model.pt", 40)
    (folder / "step_8.tmp").mkdir()
    for path in (*folder.glob("*/*"), *folder.iterdir()):
        os.utime(path, (0, 1.7e9))  # long settled
    return folder


@pytest.fixture(params=["lightkube", "kubectl"])
def way(request, served, tmp_path, monkeypatch):
    """The API by lightkube and the pods by a stand-in `kubectl exec`; or both by the real kubectl."""
    monkeypatch.setenv("STAND_IN_CALLS", str(tmp_path / "calls"))
    if request.param == "kubectl":
        monkeypatch.setenv("KUBECTL", *request.getfixturevalue("real_kubectl"))
        return request.param
    script = tmp_path / "bin" / "kubectl"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {kubectl.__file__} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    return request.param


MADE = {
    "lightkube": (shapes.job("train"), "--resume_from_checkpoint {path}"),
    "kubectl": (
        shapes.rayjob("train"),
        "trainer.resume_mode=resume_path trainer.resume_from_path={path}",
    ),
}


def test_an_attempt_resumes_from_the_newest_complete_checkpoint_that_only_pods_see(
    cluster, cli, monkeypatch, volume, way
):
    manifest, option = MADE[way]
    said = volume.parent / "said"
    kind, word = manifest["kind"], manifest["kind"].lower()
    [exec_right] = [
        one["rules"] for one in documents("act/act.yaml") if one["metadata"]["name"] == "runward-exec"
    ]
    cluster.rules, cluster.runs_jobs = [*rules(*ACT), *exec_right], True
    cluster.put(manifest)
    cluster._pod_for(cluster.named(kind, "train"))
    [pod] = cluster.every("Pod")
    monkeypatch.setenv("STAND_IN_PODS", json.dumps({"ml": [pod["metadata"]["name"]]}))
    argv = ("attach", f"k8s:ml/{word}/train", "--act", "--name", "w", "--checkpoints", HERE)
    watcher = follow(cli, *argv, "--resume-arg", option)
    until(lambda: said.exists() and b"step_4" in said.read_bytes(), "the pod was looked into")
    end(cluster, kind, pod["metadata"]["name"], 143)
    [second] = until(lambda: [one for one in cluster.every(kind) if one["metadata"]["name"] != "train"])
    name = second["metadata"]["name"]
    found = [one for one in cluster.every("Pod") if one["metadata"]["name"] != pod["metadata"]["name"]]
    words = option.format(path=f"{HERE}/step_4").split()
    if kind == "RayJob":
        assert second["spec"]["entrypoint"].split()[-2:] == words
    else:
        assert found[0]["spec"]["containers"][0]["args"] == words
    env = {one["name"]: one["value"] for one in found[0]["spec"]["containers"][0]["env"]}
    assert (env["RUNWARD_RESUME_PATH"], env["RUNWARD_RESUME_STEP"]) == (f"{HERE}/step_4", "4")
    end(cluster, kind, found[0]["metadata"]["name"], 0, of=name)
    watcher.join(60)
    status = json.loads(cli("status", "w", "--json").stdout)
    assert [one["verdict"]["cause"] for one in status["attempts"]] == ["preempted", "none"]
    assert status["attempts"][1]["resumed_from"]["path"] == f"{HERE}/step_4"


def end(cluster, kind, pod, code, of="train"):
    """The pod ends, preempted or well, and its owner by it."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    done = shapes.ended(code, "Error" if code else "Completed", at=now)
    lost = shapes.condition("DisruptionTarget", "True", "PreemptionByScheduler", "preempted")
    container = {"name": "train", "restartCount": 0, "state": done}
    phase = "Failed" if code else "Succeeded"
    status = {"phase": phase, "conditions": [lost] if code else [], "containerStatuses": [container]}
    cluster.status("Pod", pod, status)
    if kind == "RayJob":
        seen = cluster.named(kind, of)["status"]
        word, state = ("Failed", "FAILED") if code else ("Complete", "SUCCEEDED")
        cluster.status(kind, of, {**seen, "jobDeploymentStatus": word, "jobStatus": state, "endTime": now})
    else:
        said = shapes.condition("Failed" if code else "Complete", "True", "BackoffLimitExceeded")
        cluster.status(kind, of, {"conditions": [said], "failed": 1 if code else 0})
