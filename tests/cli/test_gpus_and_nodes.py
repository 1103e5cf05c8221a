"""`runward gpus` over a fake nvidia-smi, and `runward nodes` over a real memory."""

import json
import subprocess
import sys
import time

import pytest

from runward.core import failures, nodes
from runward.store import nodes as store

A = "GPU-11111111-1111-1111-1111-111111111111"
FAKE = f"""#!/bin/sh
case "$*" in
  *compute-apps*) echo "{A}, 4711, 5000, python";;
  *utilization.gpu*) echo "0, {A}, NVIDIA H200, 00000000:00:06.0, 94, [N/A], 5541, 143771, 600.1, 700.0, 1980, 1980, 3201, 42, 0x0";;
  *) echo "0, {A}, NVIDIA H200, 00000000:00:06.0, ECC, 0, 0, 0, No, No, 5, 5, 16, 16, Enabled";;
esac
"""


@pytest.fixture
def runward(tmp_path, monkeypatch):
    bin_ = tmp_path / "bin"
    bin_.mkdir()

    def fake(ecc="0"):
        (bin_ / "nvidia-smi").write_text(FAKE.replace("ECC", ecc))
        (bin_ / "nvidia-smi").chmod(0o755)

    monkeypatch.setenv("PATH", f"{bin_}:/usr/bin:/bin")
    monkeypatch.setenv("RUNWARD_STATE_DIR", str(tmp_path / "state"))

    def call(*argv):
        # NVML is made unfindable, so that a box with GPUs gives the same answers.
        code = (
            "import sys; from runward.probes.gpu import nvml; nvml.CHILD = '/nowhere.py';"
            "from runward.cli import entry; sys.exit(entry.run(sys.argv[1:]))"
        )
        return subprocess.run(
            [sys.executable, "-c", code, *argv], capture_output=True, text=True, timeout=120, check=False
        )

    call.fake = fake
    return call


def test_the_table_shows_n_a_with_its_reason(runward):
    runward.fake()
    done = runward("gpus")
    assert done.returncode == 0, done.stderr
    row = done.stdout.splitlines()[1].split()
    assert row[:5] == ["0", "NVIDIA", "H200", "94%", "n/a"]
    assert "4711" in row
    assert "n/a: mem_util_pct: [N/A]" in done.stdout


def test_the_json_has_null_and_the_reason(runward):
    runward.fake()
    body = json.loads(runward("gpus", "--json").stdout)
    (gpu,) = body["gpus"]
    assert (body["schema_version"], body["seen"], body["source"]) == (1, True, "nvidia-smi")
    assert (gpu["util_pct"], gpu["mem_util_pct"], gpu["absent"]["mem_util_pct"]) == (94, None, "[N/A]")
    assert gpu["processes"] == [{"pid": 4711, "used_mib": 5000.0, "name": "python"}]


@pytest.mark.parametrize(("ecc", "code", "result"), [("0", 0, ("PASS", "WARN")), ("2", 2, ("FAIL",))])
def test_check_ends_with_its_result(runward, ecc, code, result):
    runward.fake(ecc)
    done = runward("gpus", "--check")
    assert done.returncode == code
    assert done.stdout.splitlines()[-1] in [f"RESULT: {word}" for word in result]
    assert json.loads(runward("gpus", "--check", "--json").stdout)["result"] in result


def test_without_gpus_it_says_so_and_exits_75(runward):
    done = runward("gpus", "--json")
    assert done.returncode == 75
    assert json.loads(done.stdout)["seen"] is False


def test_reap_needs_zombies(runward):
    done = runward("gpus", "--reap")
    assert (done.returncode, "Use --zombies --reap" in done.stderr) == (2, True)


def test_zombies_ends_nothing_unasked(runward):
    runward.fake()
    done = runward("gpus", "--zombies", "--json")
    body = json.loads(done.stdout)
    assert (done.returncode, body["zombies"]) == (0, [])


def test_nodes_are_listed_and_forgiven(runward, tmp_path):
    memory = store.NodeMemory(str(tmp_path / "state"))
    memory.add(nodes.Mark("node-7", time.time(), failures.Cause.GPU_HARDWARE, "demo", gpu=A, text="Xid 79"))
    memory.add(nodes.Mark("node-8", time.time(), failures.Cause.NCCL_TIMEOUT, "demo"))
    listed = json.loads(runward("nodes", "ls", "--json").stdout)["nodes"]
    assert [(n["node"], n["proposed"]) for n in listed] == [("node-7", True), ("node-8", False)]
    assert "node-7  leave out  weight 1.00  gpu_hardware" in runward("nodes", "ls").stdout
    missed = runward("nodes", "forgive", "node-9")
    assert (missed.returncode, "did you mean" in missed.stderr) == (3, True)
    assert runward("nodes", "forgive", "node-7", "--gpu", "GPU-other").returncode == 3
    assert runward("nodes", "forgive", "node-7").returncode == 0
    assert [n["node"] for n in json.loads(runward("nodes", "ls", "--json").stdout)["nodes"]] == ["node-8"]


def test_a_damaged_line_costs_only_itself(tmp_path):
    memory = store.NodeMemory(str(tmp_path))
    memory.add(nodes.Mark("a", 1.0, failures.Cause.HANG, "r"))
    with (tmp_path / "nodes.jsonl").open("a") as file:
        file.write('{"node": "b", "at": \n[]\n{"node": "c", "at": 1, "cause": "no such", "run": "r"}\n')
    assert [mark.node for mark in memory.marks()] == ["a"]
    memory.add(nodes.Mark("d", 2.0, failures.Cause.HANG, "r", proven=True))
    assert [mark.node for mark in memory.marks()] == ["a", "d"]
