"""Podman's socket in Docker's place: a real `podman system service`, the same questions, its own gaps."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from backends.docker import engine as engines
from runward import ports
from runward.backends.docker import endpoints
from runward.core import job
from runward.wiring import box_page, container_reports

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("podman")]
until = engines.until


class Podman(engines.RealEngine):
    """Root's Podman with folders of its own."""

    def start(self, *more: str, live_restore: bool = False) -> None:
        del more, live_restore
        (self.folder / "conf").write_text(engines.PODMAN_CONF)
        env = {**os.environ, "CONTAINERS_CONF": f"{self.folder}/conf", "XDG_RUNTIME_DIR": str(self.folder)}
        env["PATH"] = f"/usr/sbin:/usr/bin:/sbin:/bin:{env['PATH']}"
        argv = [
            *("podman", "--root", f"{self.folder}/data", "--runroot", f"{self.folder}/run"),
            *("--tmpdir", f"{self.folder}/tmp", "--storage-driver", "vfs"),
            *("system", "service", "--time", "0", self.address),
        ]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                argv, stdout=log, stderr=log, env=env, cwd=self.folder, start_new_session=True
            )
        until(self._answers, 60, lambda: (self.folder / "log").read_text()[-2000:])


@pytest.fixture(scope="module")
def podmans() -> Iterator[Podman]:
    missing = [
        name for name in ("podman", "runc", "docker") if shutil.which(name, path=engines._ENV["PATH"]) is None
    ]
    reason = engines.why_not() or (f"not installed: {missing} (tools/install-services)" if missing else None)
    if reason:
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)
    made = Podman()
    try:
        made.start()
        made.import_image()
        yield made
    finally:
        made.destroy()


@pytest.fixture
def podman(podmans: Podman, monkeypatch) -> Iterator[Podman]:
    monkeypatch.setenv("DOCKER_HOST", podmans.address)
    yield podmans
    podmans.clean()


def diagnose(target: str) -> dict:
    return json.loads(container_reports.answer(container_reports.Asked(target, form="json")).out)


def test_a_program_that_failed_has_its_code_its_log_and_its_life(podman) -> None:
    container = podman.run(command=("sh", "-c", "echo ModuleNotFoundError: No module named \\'x\\'; exit 1"))
    report = diagnose(container)
    assert report["container"]["exit_code"] == 1
    assert report["log_tail"][-1].startswith("ModuleNotFoundError")
    assert [item["event"] for item in report["events"] if item["event"].startswith(("start", "die"))] == [
        "start",
        "die (exit code 1)",
    ]


def test_a_kill_for_memory_is_proven_by_the_kernels_line(podman) -> None:
    container = podman.run("--memory", "30m", command=("sh", "-c", "exec tail /dev/zero"))
    verdict = diagnose(container)["verdict"]
    assert (verdict["cause"], verdict["certainty"]) == ("host_oom", "proven")


def test_a_stop_that_podman_does_not_record_is_not_guessed(podman) -> None:
    container = podman.run(command=("sleep", "1000"), wait=False)
    podman.docker("stop", "-t", "0", container)
    report = diagnose(container)
    assert (report["verdict"]["cause"], report["verdict"]["certainty"]) == ("killed", "possible")
    assert "podman stop" in report["verdict"]["summary"]
    assert "docker" not in {item["source"] for item in report["counter_evidence"]}


def test_containers_are_jobs_there_as_well(podman) -> None:
    docker = podman.backend()
    options = {"docker.image": engines.IMAGE, "docker.network": "none", "docker.init": "false"}
    script = "echo ready; exec sleep 1000"
    spec = job.JobSpec(("sh", "-c", script), "/", {"RUNWARD_RUN": "demo"}, options=options)
    container = docker.submit(spec, "demo-1-podman")
    podman.made.append(container)
    assert docker.find("demo-1-podman") == container
    assert docker.submit(spec, "demo-1-podman") == container
    until(lambda: docker.poll([container])[container].state is job.JobState.RUNNING)
    (stream,) = docker.logs(container)
    seen = bytearray()
    until(lambda: seen.extend(b"".join(c.data for c in stream.read_new(100))) or b"ready" in seen)
    stream.close()
    docker.cancel(container, ports.EndPlan(grace_s=1.0))
    until(lambda: docker.poll([container])[container].state.final)


def test_its_containers_are_on_the_page_with_their_memory(podman) -> None:
    podman.run("--name", "rw-podman", "--memory", "40m", command=("sleep", "1000"), wait=False)
    pages = box_page.Pages()
    try:
        (row,) = [row for table in pages.one().tables for row in table.rows if "rw-podman" in row]
    finally:
        pages.close()
    assert row[-1].endswith("/ 40.0 MiB")
    assert not row[-1].startswith("N/A")


def test_its_socket_is_found_where_docker_has_none(podman, tmp_path, monkeypatch) -> None:
    (tmp_path / "podman").mkdir()
    os.symlink(podman.folder / "docker.sock", tmp_path / "podman" / "podman.sock")
    monkeypatch.setattr(
        endpoints.os, "access", lambda path, _mode: path.startswith(str(tmp_path)) and os.path.exists(path)
    )
    found = endpoints.locate({"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)})
    assert (found.scheme, found.address) == ("unix", f"{tmp_path}/podman/podman.sock")
