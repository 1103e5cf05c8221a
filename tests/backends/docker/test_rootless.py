"""Rootless Docker and Podman: a real engine of an ordinary user in namespaces, found by its runtime folder."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator

import pytest

from backends.docker import engine as engines
from backends.docker.engine import PODMAN_CONF as CONF
from runward.backends.docker import endpoints
from runward.wiring import box_page, container_reports, docker

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300), pytest.mark.xdist_group("rootless")]
_UID = 23517
# A user of these tests alone: the system's own lists of users are covered, not changed.
_ENTER = """
set -e
mount --make-rprivate /
for name in passwd group subuid subgid; do mount --bind "$1/$name" "/etc/$name"; done
exec setpriv --reuid {uid} --regid {uid} --clear-groups --inh-caps=-all sh -c '
  export XDG_RUNTIME_DIR="$1/run" HOME="$1/home" PATH=/usr/sbin:/usr/bin:/sbin:/bin
  {work}' sh "$1"
"""
_DOCKER = """exec rootlesskit --net=host --copy-up=/etc --copy-up=/run --propagation=rprivate --state-dir="$1/kit" sh -c "
    rm -rf /run/docker /run/containerd /run/xtables.lock
    exec dockerd --rootless --storage-driver vfs --iptables=false --ip6tables=false --bridge=none \\
      --host unix://$1/run/docker.sock --exec-root=$1/run/docker --data-root=$1/data --pidfile=$1/run/pid\""""
_PODMAN = """mkdir -p "$1/run/podman" && export CONTAINERS_CONF="$1/conf"
  exec podman --storage-driver vfs system service --time 0 "unix://$1/run/podman/podman.sock\""""


class Rootless(engines.RealEngine):
    needed: tuple[str, ...] = ("rootlesskit",)
    work, socket = _DOCKER, "run/docker.sock"

    @property
    def address(self) -> str:
        return f"unix://{self.folder}/{self.socket}"

    def start(self, *more: str, live_restore: bool = False) -> None:
        del more, live_restore
        user = f"someone:x:{_UID}:{_UID}::{self.folder}/home:/bin/sh\n"
        files = {
            "passwd": f"root:x:0:0:root:/root:/bin/sh\n{user}",
            "group": f"root:x:0:\nsomeone:x:{_UID}:\n",
            "subuid": "someone:700000:65536\n",
            "subgid": "someone:700000:65536\n",
            "conf": CONF,
        }
        for name, text in files.items():
            (self.folder / name).write_text(text)
        self.folder.chmod(0o755)
        for name in ("run", "home", "data", "kit"):
            (self.folder / name).mkdir()
            os.chown(self.folder / name, _UID, _UID)
        argv = [
            "unshare",
            "--mount",
            "sh",
            "-c",
            _ENTER.format(uid=_UID, work=self.work),
            "sh",
            str(self.folder),
        ]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                argv, stdout=log, stderr=log, env=engines._ENV, cwd=self.folder, start_new_session=True
            )
        engines.until(self._answers, 60, lambda: (self.folder / "log").read_text()[-2000:])


class RootlessPodman(Rootless):
    needed = ("podman", "runc")
    work, socket = _PODMAN, "run/podman/podman.sock"

    def _end_what_is_left(self) -> None:
        """What holds the user's namespace open stays when the service ends."""
        for path in (self.folder / "run").rglob("pause.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(path.read_text()), signal.SIGKILL)
        super()._end_what_is_left()


@pytest.fixture(scope="module", params=[Rootless, RootlessPodman], ids=["docker", "podman"])
def rootless(request) -> Iterator[Rootless]:
    needed = (*request.param.needed, "newuidmap", "setpriv", "unshare")
    missing = [name for name in needed if shutil.which(name, path=engines._ENV["PATH"]) is None]
    reason = engines.why_not() or (f"not installed: {missing} (tools/install-services)" if missing else None)
    if reason:
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)
    if subprocess.run(["setpriv", "--reuid", "65534", "unshare", "-Ur", "true"], check=False).returncode:
        pytest.skip("ordinary users cannot make user namespaces here")
    made = request.param()
    try:
        made.start()
        made.import_image()
        yield made
    finally:
        made.destroy()


def test_the_engine_of_a_user_is_found_and_its_containers_are_diagnosed(rootless, monkeypatch) -> None:
    folder = f"{rootless.folder}/run"
    monkeypatch.setattr(
        endpoints.os, "access", lambda path, _mode: path.startswith(folder) and os.path.exists(path)
    )
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
    monkeypatch.setenv("HOME", str(rootless.folder))
    assert str(endpoints.locate(os.environ)) == rootless.address
    failed = rootless.run(command=("sh", "-c", "echo working; exit 3"))
    stopped = rootless.run(command=("sleep", "1000"), wait=False)
    rootless.docker("stop", "-t", "0", stopped)
    report = json.loads(container_reports.answer(container_reports.Asked(failed, form="json")).out)
    assert report["container"]["exit_code"] == 3
    assert report["log_tail"] == ["working"]
    report = json.loads(container_reports.answer(container_reports.Asked(stopped, form="json")).out)
    known = ("killed", "possible") if isinstance(rootless, RootlessPodman) else ("cancelled", "proven")
    assert (report["verdict"]["cause"], report["verdict"]["certainty"]) == known


def test_without_cgroups_memory_is_unknown_and_never_zero(rootless, monkeypatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", rootless.address)
    container = rootless.run(command=("sleep", "1000"), wait=False)
    here = docker.Docker()
    info = here.engine.json(docker.client.Request("GET", "/info"))
    counted = here.groups.counted(container)
    here.close()
    delegated = info["CgroupDriver"] != "none" and str(info.get("CgroupVersion")) == "2"
    assert delegated or (counted.memory, counted.cpu_ns) == (None, None)
    pages = box_page.Pages()
    try:
        rows = [row for table in pages.one().tables for row in table.rows if row[0] == container[:12]]
    finally:
        pages.close()
    assert delegated or rows[0][-2:] == ("N/A", "N/A")
