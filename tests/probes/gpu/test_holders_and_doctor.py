"""Device files held by processes of a made-up /proc, ending a real process, and the doctor's GPU section."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fakes.runner import FakeRunner
from runward.core import gpus, zombies
from runward.probes.gpu import claims, doctor, holders


def process(proc, pid, *links, ticks=0, start=100, command="python\0train.py", environ=""):
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    for number, link in enumerate(links):
        os.symlink(link, folder / "fd" / str(number))
    rest = ["S", "1", *["0"] * 9, str(ticks), "0", "0", "0", "20", "0", "1", "0", str(start)]
    (folder / "stat").write_text(f"{pid} (a b) c) {' '.join(rest)}")
    (folder / "cmdline").write_text(command)
    (folder / "environ").write_text(environ)


@pytest.fixture
def proc(tmp_path):
    (tmp_path / "uptime").write_text("1000.0 0.0")
    return tmp_path


def test_holders_of_a_gpu_are_found_with_age_and_command(proc):
    process(proc, 10, "/dev/nvidia0", "/dev/nvidia3", "/dev/nvidiactl", "/tmp/x")
    process(proc, 11, "/dev/nvidiactl", "/dev/nvidia-uvm")
    found, closed = holders.holders(str(proc), cpu_over_s=0.01)
    assert [(h.pid, h.devices, h.command) for h in found] == [(10, (0, 3), "python train.py")]
    assert found[0].age_s == pytest.approx(1000 - 100 / os.sysconf("SC_CLK_TCK"))
    assert closed == 0


def a_process(*argv):
    return subprocess.Popen(argv, stdout=subprocess.PIPE)


def holder_of(pid, shift=0):
    start = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return zombies.Holder(pid, start + shift, 1000.0, 0.0, (0,), "x")


def test_a_zombie_is_ended_by_term_or_else_by_kill():
    meek = a_process("sleep", "300")
    deaf = a_process(
        sys.executable,
        "-c",
        "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(300)",
    )
    deaf.stdout.readline()
    assert holders.end(holder_of(meek.pid), 60) == "ended by SIGTERM"
    assert holders.end(holder_of(deaf.pid), 0.2) == "ended by SIGKILL"
    assert (meek.wait(60), deaf.wait(60)) == (-signal.SIGTERM, -signal.SIGKILL)
    for child in (meek, deaf):
        child.stdout.close()


def test_a_pid_that_was_used_again_is_not_touched():
    other = a_process("sleep", "300")
    assert "belongs to another process now" in holders.end(holder_of(other.pid, shift=-1), 0.1)
    assert other.poll() is None
    other.kill()
    other.wait(60)
    assert holders.end(zombies.Holder(other.pid, 1, 1.0, 0.0, (0,), ""), 0.1) == "was gone already"
    other.stdout.close()


def test_claims_come_from_the_environment_and_nothing_else_leaves_it(proc):
    process(proc, 10, environ="SECRET=x\0CUDA_VISIBLE_DEVICES=0\0SLURM_JOB_GPUS=4,5\0")
    process(proc, 11, environ="CUDA_VISIBLE_DEVICES=1\0")
    found = claims.of_tree([10, 11, 999], str(proc))
    assert (found.visible, found.granted, found.granted_by) == ("0,1", ("4", "5"), "SLURM_JOB_GPUS")
    assert set(claims.read_environment(10, str(proc))) == {"CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS"}
    assert claims.read_environment(999, str(proc)) is None


TOPO = (
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tCPU Affinity\x1b[0m\n"
    "GPU0\t X \tNV18\tSYS\t0-31\nGPU1\tNV18\t X \tNV18\t0-31\nGPU2\tSYS\tNV18\t X \t0-31\n\nLegend:\n"
)


def test_the_topology_is_read():
    links = doctor.parse_topology(TOPO)
    assert links == {("GPU0", "GPU1"): "NV18", ("GPU0", "GPU2"): "SYS", ("GPU1", "GPU2"): "NV18"}


def box(**values):
    samples = tuple(gpus.GpuSample(i, f"GPU-{i}", values={"persistence": 1.0, **values}) for i in range(2))
    return gpus.GpuReading(samples, "nvml", 0.0, driver="580.159.04")


def levels(found):
    return {f.check: f.level.name for f in found}


def test_a_good_box_passes(tmp_path):
    for path, text in {
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n",
        "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    runner = FakeRunner(
        {
            ("nvidia-smi", "topo"): TOPO.replace("SYS", "NV18"),
            ("nvidia-smi",): "0, Completed, Success\n1, Completed, Success\n",
        }
    )
    found = doctor.findings(runner, box(), str(tmp_path))
    assert set(levels(found).values()) == {"PASS"}, found
    (tmp_path / "proc/driver/nvidia/version").write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.1.2  x\n"
    )
    assert levels(doctor.findings(runner, box(), str(tmp_path)))["driver"] == "FAIL"


def test_a_poor_box_is_told_what_is_missing(tmp_path):
    runner = FakeRunner(
        {("nvidia-smi", "topo"): TOPO, ("nvidia-smi",): "0, In Progress, N/A\n1, Completed, Success\n"}
    )
    found = levels(doctor.findings(runner, box(persistence=0.0), str(tmp_path)))
    assert found == {
        "gpu": "PASS",
        "driver": "WARN",
        "persistence": "WARN",
        "fabric": "FAIL",
        "network": "PASS",
        "topology": "WARN",
    }


def test_a_mismatched_driver_says_what_to_do(tmp_path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    unseen = gpus.GpusUnseen("NVML: Driver/library version mismatch", 0.0)
    found = doctor.findings(FakeRunner(), unseen, str(tmp_path))
    assert found[0].level.name == "FAIL"
    assert "reboot or reload" in found[0].text


def test_a_box_without_gpus_is_a_warning(tmp_path):
    unseen = gpus.GpusUnseen("NVML: NVML Shared Library Not Found", 0.0)
    assert levels(doctor.findings(FakeRunner(), unseen, str(tmp_path))) == {"gpu": "WARN"}
