"""Pods as API objects, and over a stand-in kubectl that answers with them; no real cluster was met."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import commands
from runward import ports
from runward.backends.k8s import asked, kubectl, targets
from runward.core import errors, job, kubernetes
from runward.runners import local, pod

S = job.JobState


def a_pod(state=None, phase="Running", last=None, **status):
    container = {
        "name": "train",
        "state": state or {"running": {}},
        "restartCount": 0,
        **({"lastState": last} if last else {}),
    }
    return {
        "metadata": {"name": "x", "uid": "u1"},
        "spec": {
            "restartPolicy": "Never",
            "nodeName": "gpu-7",
            "containers": [{"name": "train"}, {"name": "sidecar"}],
        },
        "status": {"phase": phase, "containerStatuses": [container], **status},
    }


def ended(code, reason="Error"):
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": "2026-01-31T08:00:00Z"}}


DISRUPTED = [
    {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "by p"}
]


@pytest.mark.parametrize(
    ("seen", "state", "word"),
    [
        (a_pod(), S.RUNNING, "Running"),
        (a_pod({"waiting": {"reason": "ImagePullBackOff"}}, "Pending"), S.PENDING, "ImagePullBackOff"),
        (a_pod({"waiting": {"reason": "CrashLoopBackOff"}}, last=ended(1)), S.PENDING, "CrashLoopBackOff"),
        (a_pod(ended(0, "Completed"), "Succeeded"), S.SUCCEEDED, "Completed"),
        (a_pod(ended(1), "Failed"), S.FAILED, "Error"),
        (a_pod(ended(137, "OOMKilled"), "Failed"), S.OUT_OF_MEMORY, "OOMKilled"),
        (a_pod(ended(143), "Failed", conditions=DISRUPTED), S.PREEMPTED, "PreemptionByScheduler"),
        (
            a_pod(ended(137), "Failed", reason="Evicted", message="low on resource: memory"),
            S.PREEMPTED,
            "Evicted",
        ),
        (a_pod(ended(137, "ContainerStatusUnknown"), "Failed"), S.NODE_FAILED, "ContainerStatusUnknown"),
        (a_pod(ended(143), "Failed", reason="DeadlineExceeded"), S.TIME_LIMIT, "DeadlineExceeded"),
        ({"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Running"}}, S.ENDING, "Terminating"),
        ({}, S.PENDING, "Unknown"),
    ],
)
def test_every_way_for_a_pod_to_stand_has_its_state(seen, state, word):
    found = kubernetes.status(seen)
    assert (found.state, found.word) == (state, word)


def test_a_kill_for_memory_has_its_witness_and_an_unknown_end_no_code():
    found = kubernetes.status(a_pod(ended(137, "OOMKilled"), "Failed"))
    assert [(w.source, w.fact) for w in found.witnesses] == [("cgroup", "oom_kill")]
    assert (found.exit, found.node, found.ended_at) == (job.ExitStatus(137), "gpu-7", 1769846400.0)
    assert (
        kubernetes.status(a_pod(ended(137, "ContainerStatusUnknown"), "Failed")).exit
        == job.ExitStatus.unseen()
    )


STAND_IN = """
import json, os, sys, time
folder = os.environ["STAND_IN_FOLDER"]
argv = sys.argv[1:]
def show(name):
    try:
        sys.stdout.write(open(os.path.join(folder, name)).read())
    except FileNotFoundError:
        sys.stderr.write('Error from server (NotFound): pods "x" not found\\n')
        sys.exit(1)
if os.path.exists(os.path.join(folder, "down")):
    sys.stderr.write("Unable to connect to the server: net/http: TLS handshake timeout\\n")
    sys.exit(1)
if argv[:2] == ["get", "--raw"]:
    path, _, query = argv[2].partition("?")
    name = path.rpartition("/")[2]
    if name == "log": show("previous.log" if "previous" in query else "now.log")
    elif name == "events": show("events.json")
    elif "watch=true" in query: time.sleep(600)
    elif name == "pods":
        every = [f for f in os.listdir(folder) if f.endswith(".json") and f != "events.json"]
        sys.stdout.write('{"metadata": {"resourceVersion": "1"}, "items": [')
        sys.stdout.write(",".join(open(os.path.join(folder, f)).read() for f in every) + "]}")
    else: show(name + ".json")
elif argv[0] == "exec":
    inner = argv[argv.index("--") + 1:]
    try: os.execvp(inner[0], inner)
    except FileNotFoundError:
        sys.stderr.write('exec: "%s": executable file not found in $PATH' % inner[0]); sys.exit(1)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "kubectl.py").write_text(STAND_IN)
    monkeypatch.setenv("KUBECTL", f"{sys.executable} {tmp_path / 'kubectl.py'}")
    monkeypatch.setenv("STAND_IN_FOLDER", str(tmp_path))
    (tmp_path / "events.json").write_text('{"items": []}')
    return tmp_path


def pods(folder: Path) -> asked.Pods:
    return asked.Pods(kubectl.Kubectl(local.Local(), (sys.executable, str(folder / "kubectl.py"))))


def test_an_api_server_that_does_not_answer_says_nothing_about_the_pod(folder):
    one = pods(folder)
    assert isinstance(one.poll(["ml/x"])["ml/x"], job.Unseen)  # never seen: nothing is known to be gone
    (folder / "x.json").write_text(json.dumps(a_pod()))
    assert one.poll(["ml/x"])["ml/x"].state is S.RUNNING
    (folder / "down").touch()
    assert isinstance(one.poll(["ml/x"])["ml/x"], job.Unseen)
    (folder / "down").unlink()
    (folder / "x.json").write_text("<html>")
    assert isinstance(one.poll(["ml/x"])["ml/x"], job.Unseen)


@pytest.mark.parametrize("name", ["", "a/-o", "../x", "a b", "ml/--all"])
def test_a_name_cannot_become_an_option(name):
    with pytest.raises(errors.UsageError):
        targets.parse(name)
    with pytest.raises(errors.UsageError):
        pod.Pod(local.Local(), name)


def test_a_pod_runs_commands_reads_files_and_tells_what_is_missing(folder, tmp_path):
    one = pod.Pod(local.Local(), "x", "ml", kubectl=(sys.executable, str(folder / "kubectl.py")))
    assert one.run(ports.Call(("sh", "-c", "cat; exit 3"), stdin=b"a;b")).stdout == b"a;b"
    assert one.run(ports.Call(("no-such-program",))).code == 127
    (tmp_path / "f").write_bytes(b"\0abc\xff")
    assert one.read(str(tmp_path / "f"), 1, 10) == b"abc\xff"
    with pytest.raises(FileNotFoundError):
        one.read(str(tmp_path / "nothing"), 0, 10)
    (folder / "down").touch()
    with pytest.raises(ports.ContactLost):
        one.run(ports.Call(("true",)))


def runward(state: Path, *argv: str) -> "subprocess.CompletedProcess[str]":
    return commands.runward({**os.environ, "RUNWARD_STATE_DIR": str(state)}, *argv)


def test_health_names_idle_gpus_and_the_network_that_is_used(folder, tmp_path):
    (folder / "x.json").write_text(json.dumps(a_pod()))
    (folder / "now.log").write_text("step: 4 loss: 2.0\nNCCL INFO Using network Socket\n")
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(f"#!{sys.executable}\n" + SMI)
    smi.chmod(0o755)
    os.environ["PATH"] = f"{smi.parent}:{os.environ['PATH']}"
    try:
        done = runward(tmp_path, "health", "k8s:ml/x", "--json")
    finally:
        os.environ["PATH"] = os.environ["PATH"].partition(":")[2]
    report = json.loads(done.stdout)
    assert (done.returncode, report["state"], report["progress"]["step"]) == (1, "running", 4)
    assert report["network"]["transport"] == "socket"
    assert [one["util_pct"] for one in report["gpus"]] == [0.0]
    assert report["issues"][0] == "it is running, and no GPU is used: none is above 5 %"
    assert "NCCL_NET=ofi" in report["issues"][1]


def test_health_says_what_it_could_not_ask(folder, tmp_path):
    (folder / "x.json").write_text(json.dumps(a_pod()))
    (folder / "now.log").write_text("starting\n")
    done = runward(tmp_path, "health", "k8s:ml/x")
    assert done.returncode == 0
    assert "unknown: network: NCCL has printed no line about it" in done.stdout
    assert "unknown: GPUs of ml/x:" in done.stdout
    assert runward(tmp_path, "health", "k8s:ml/nobody").returncode == 3


SMI = """import sys
fields = sys.argv[1].partition("=")[2].split(",")
known = {"index": "0", "uuid": "GPU-1", "name": "A100", "utilization.gpu": "0", "memory.used": "1", "memory.total": "2"}
print(", ".join(known.get(field, "[N/A]") for field in fields))
"""


def test_attach_and_diagnose_name_a_kill_for_memory(folder, tmp_path):
    (folder / "x.json").write_text(json.dumps(a_pod(ended(137, "OOMKilled"), "Failed")))
    (folder / "now.log").write_text("step: 1 loss: 2.0\nstep: 2 loss: 1.9\n")
    done = runward(tmp_path / "state", "attach", "k8s:ml/x", "--name", "p")
    status = json.loads(runward(tmp_path / "state", "status", "p", "--json").stdout)
    [attempt] = status["attempts"]
    assert (attempt["verdict"]["cause"], attempt["last_step"]) == ("host_oom", 2), done.stderr
    told = json.loads(runward(tmp_path / "state", "diagnose", "k8s:ml/x", "--json").stdout)
    assert told["verdict"]["cause"] == "host_oom"
    assert runward(tmp_path / "state", "diagnose", "k8s:ml/nobody").returncode == 3
