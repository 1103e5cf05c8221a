"""Counters of cgroups of both versions, from trees made as the kernel makes them."""

import pytest

from runward.probes import cgroups

ID = "c" * 64
V1 = (f"memory/docker/{ID}", "memory.oom_control", f"4:memory:/docker/{ID}\n0::/docker/{ID}\n")
V2 = (f"system.slice/docker-{ID}.scope", "memory.events", f"0::/system.slice/docker-{ID}.scope\n")
PODMAN = (f"machine.slice/libpod-{ID}.scope", "memory.events", f"0::/machine.slice/libpod-{ID}.scope\n")
TEXT = {
    "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
    "memory.events": "low 0\nhigh 0\nmax 12\noom 4\noom_kill 3\noom_group_kill 0\n",
}


@pytest.fixture(params=[V1, V2, PODMAN], ids=["v1", "v2 systemd", "podman"])
def tree(request, tmp_path):
    folder, name, proc = request.param
    there = tmp_path / "cgroup" / folder
    there.mkdir(parents=True)
    (there / name).write_text(TEXT[name])
    (there / "cgroup.procs").write_text("10\n11\n")
    (tmp_path / "proc" / "10").mkdir(parents=True)
    (tmp_path / "proc" / "10" / "cgroup").write_text(proc)
    (tmp_path / "proc" / "vmstat").write_text("nr_free_pages 1\noom_kill 9\n")
    return cgroups.Cgroups(str(tmp_path / "cgroup"), str(tmp_path / "proc"))


def test_kills_are_counted_by_pid_and_by_name(tree) -> None:
    assert tree.oom_kills(ID, 10) == 3
    assert tree.oom_kills(ID, 0) == 3
    assert tree.processes(ID) == 2
    assert tree.whole_host_kills() == 9


def test_a_cgroup_that_is_gone_is_not_zero(tree) -> None:
    assert tree.oom_kills("d" * 64, 10) is None
    assert tree.processes("d" * 64) is None


def test_bytes_of_block_devices_are_read_in_both_versions_and_are_unknown_without_the_file(tmp_path) -> None:
    first, second, bare = (tmp_path / name for name in ("v1", "v2", "bare"))
    rows = "8:0 Read 100\n8:0 Write 20\n8:16 Read 5\n8:16 Write 0\nTotal 125\n"
    for folder, name, text in (
        (first / f"blkio/docker/{ID}", "blkio.throttle.io_service_bytes", rows),
        (first / f"memory/docker/{ID}", "memory.limit_in_bytes", "1000\n"),
        (second / f"system.slice/docker-{ID}.scope", "io.stat", "8:0 rbytes=105 wbytes=20 rios=1 wios=1\n"),
        (second / f"system.slice/docker-{ID}.scope", "memory.max", "1000\n"),
        (bare / f"system.slice/docker-{ID}.scope", "memory.max", "max\n"),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for root in (first, second):
        seen = cgroups.Cgroups(str(root), str(tmp_path)).counted(ID)
        assert (seen.disk_read, seen.disk_written, seen.memory_limit) == (105, 20, 1000)
    unknown = cgroups.Cgroups(str(bare), str(tmp_path)).counted(ID)
    assert (unknown.disk_read, unknown.disk_written, unknown.memory_limit) == (None, None, None)


@pytest.mark.parametrize(
    "folder", [f"system.slice/docker-{ID}.scope", f"docker/{ID}", f"libpod_parent/libpod-{ID}"]
)
def test_cpu_and_memory_of_version_2_leave_out_the_cache_that_can_go(tmp_path, folder) -> None:
    there = tmp_path / folder
    there.mkdir(parents=True)
    (there / "memory.current").write_text("1000\n")
    (there / "memory.stat").write_text("anon 500\nfile 400\ninactive_file 300\n")
    (there / "cpu.stat").write_text("usage_usec 7\nuser_usec 5\nsystem_usec 2\n")
    assert cgroups.Cgroups(str(tmp_path), str(tmp_path)).use(ID) == (7000, 700)


@pytest.mark.parametrize("cpu", ["cpuacct", "cpu,cpuacct"])
def test_cpu_and_memory_of_version_1_leave_out_the_cache_that_can_go(tmp_path, cpu) -> None:
    memory, spent = tmp_path / f"memory/docker/{ID}", tmp_path / f"{cpu}/docker/{ID}"
    for there in (memory, spent):
        there.mkdir(parents=True)
    (memory / "memory.usage_in_bytes").write_text("1000\n")
    (memory / "memory.stat").write_text("inactive_file 1\ntotal_inactive_file 300\n")
    (spent / "cpuacct.usage").write_text("7000\n")
    assert cgroups.Cgroups(str(tmp_path), str(tmp_path)).use(ID) == (7000, 700)
