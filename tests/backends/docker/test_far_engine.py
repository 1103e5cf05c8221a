"""An engine on another machine: through a real sshd in a network of its own, and over TLS with certificates."""

import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import farboxes
from backends.docker import engine as engines
from runward.backends.docker import backend
from runward.core import errors, job
from runward.wiring import box_page, container_reports, docker

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300), pytest.mark.xdist_group("far_engine")]


class Far:
    """An engine that listens at three doors."""

    def __init__(self) -> None:
        self.engine = engines.RealEngine()
        # Not below /tmp: the far box has one of its own.
        self.folder = Path(tempfile.mkdtemp(prefix="rwd-", dir="/var/tmp"))
        self.sock = self.folder / "docker.sock"
        self.certificates = self.engine.folder / "tls"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def start(self) -> None:
        _certificates(self.certificates)
        self.engine.start(
            *("--host", f"unix://{self.sock}", "--host", f"tcp://127.0.0.1:{self.port}", "--tlsverify"),
            *("--tlscacert", f"{self.certificates}/ca.pem", "--tlscert", f"{self.certificates}/cert.pem"),
            *("--tlskey", f"{self.certificates}/key.pem"),
        )
        self.engine.import_image()

    def close(self) -> None:
        self.engine.destroy()
        self.sock.unlink(missing_ok=True)
        self.folder.rmdir()


def _certificates(folder: Path) -> None:
    """An authority that is its own server and client."""
    folder.mkdir()
    (folder / "conf").write_text(
        "[req]\nprompt=no\ndistinguished_name=n\nx509_extensions=e\n[n]\nCN=localhost\n[e]\n"
        "basicConstraints=critical,CA:TRUE\nkeyUsage=digitalSignature,keyCertSign\n"
        "extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName=IP:127.0.0.1,DNS:localhost\n"
        "subjectKeyIdentifier=hash\n"
    )
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    files = ["-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem", "-config", f"{folder}/conf"]
    subprocess.run([*argv, *files, "-days", "30"], check=True, capture_output=True)
    (folder / "ca.pem").write_bytes((folder / "cert.pem").read_bytes())


@pytest.fixture(scope="module")
def far() -> Iterator[Far]:
    reason = engines.why_not()
    if reason:
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)
    made = Far()
    try:
        made.start()
        yield made
    finally:
        made.close()


def diagnose(target: str) -> dict:
    return json.loads(container_reports.answer(container_reports.Asked(target, form="json")).out)


def _on_the_page(container: str) -> Callable[[], bool]:
    """Whether the page of the box knows its CPU and memory; closes its connections once it does."""
    pages = box_page.Pages()

    def known() -> bool:
        rows = [row for table in pages.one().tables for row in table.rows if row[0] == container[:12]]
        if found := bool(rows) and "N/A" not in (rows[0][-2], rows[0][-1].partition(" ")[0]):
            pages.close()
        return found

    return known


def test_through_a_real_sshd_the_verdict_is_there_and_what_only_that_machine_knows_is_said(
    far, tmp_path, monkeypatch
) -> None:
    net = farboxes.make()
    try:
        box = net.add(settings=f"SetEnv DOCKER_HOST=unix://{far.sock}")
        monkeypatch.setenv("PATH", f"{net.program(tmp_path / 'bin')}:{os.environ['PATH']}")
        monkeypatch.setenv("DOCKER_HOST", f"ssh://{box.alias}")
        container = far.engine.run(command=("sleep", "1000"), wait=False)
        there = docker.Docker()
        assert there.backend.poll([container])[container].state is job.JobState.RUNNING
        engines.until(_on_the_page(container))
        far.engine.docker("stop", "-t", "0", container)
        report = diagnose(container)
        assert (report["verdict"]["cause"], report["verdict"]["certainty"]) == ("cancelled", "proven")
        assert "another machine" in " ".join(report["not_observable"])
        box.stop()
        there.close()
        assert isinstance(there.backend.poll([container])[container], job.Unseen)
        with pytest.raises(errors.Unreachable, match=box.alias):
            diagnose(container)
        there.close()
    finally:
        net.close()


def test_over_tls_both_sides_show_their_certificates(far, monkeypatch) -> None:
    container = far.engine.run(command=("sh", "-c", "echo far; exit 3"))
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{far.port}")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(far.certificates))
    report = diagnose(container)
    assert report["container"]["exit_code"] == 3
    assert report["log_tail"] == ["far"]
    monkeypatch.delenv("DOCKER_TLS_VERIFY")
    with pytest.raises(errors.Unreachable):
        diagnose(container)


def test_an_engine_that_cannot_be_asked_leaves_a_job_unseen(far) -> None:
    nowhere = docker.Docker({"DOCKER_HOST": "tcp://127.0.0.1:1"})
    assert isinstance(nowhere.backend, backend.DockerBackend)
    assert isinstance(nowhere.backend.poll(["x"])["x"], job.Unseen)
