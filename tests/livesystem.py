"""A real systemd as process 1, in namespaces of its own: it sees this machine's files, and units of the test alone."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import farboxes

_BOOT = """
set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -o bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /etc/systemd/system
mkdir -p /run/systemd/system
cp "$1"/units/* /run/systemd/system
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p "/sys/fs/cgroup/$2"
echo $$ >"/sys/fs/cgroup/$2/cgroup.procs"
exec unshare --cgroup sh -c '
umount /sys/fs/cgroup; mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin SYSTEMD_UNIT_PATH=/etc/systemd/system:/run/systemd/system \
  /lib/systemd/systemd --unit=basic.target --log-target=console --show-status=no'
"""
_TARGETS = ("basic", "sysinit", "shutdown", "multi-user", "network-online", "local-fs")
_JOURNAL = ("systemd-journald.service", "systemd-journald.socket")


class System:
    """One booted systemd; `pid` is that of its process 1 as seen from here."""

    def __init__(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rws", dir="/var/tmp"))
        self.group = self.folder.name
        units = self.folder / "units"
        units.mkdir()
        for name in _TARGETS:
            (units / f"{name}.target").write_text("[Unit]\nDefaultDependencies=no\n")
        (units / "basic.target").write_text(f"[Unit]\nDefaultDependencies=no\nWants={' '.join(_JOURNAL)}\n")
        for name in _JOURNAL:
            shutil.copy(f"/lib/systemd/system/{name}", units)
        flags = ("--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child")
        with open(self.folder / "log", "wb") as log:
            self._process = subprocess.Popen(
                ["unshare", *flags, "sh", "-c", _BOOT, "sh", str(self.folder), self.group],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.pid = 0

    def up(self) -> str:
        """Wait until it answers; what it said where it never does."""
        end = time.monotonic() + 60
        children = f"/proc/{self._process.pid}/task/{self._process.pid}/children"
        while time.monotonic() < end and self._process.poll() is None:
            with contextlib.suppress(OSError, ValueError, IndexError):
                self.pid = int(pathlib.Path(children).read_text().split()[0])
                if self.sh("systemctl is-system-running").stdout.strip() in ("running", "degraded"):
                    self.sh(f"systemctl set-environment PYTHONPATH={os.environ.get('PYTHONPATH', '')}")
                    return ""
            time.sleep(0.05)
        return f"systemd does not boot here: {(self.folder / 'log').read_text()[-300:]}"

    def sh(self, script: str, **env: str) -> subprocess.CompletedProcess[str]:
        """A shell in it, as root without a login; `runward` is ours."""
        python = os.path.dirname(sys.executable)
        known = {
            "PATH": f"{python}:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        }
        enter = ("nsenter", "-t", str(self.pid), "-m", "-n", "-p", "-i", "-u", "-C", "-r", "-w")
        return subprocess.run([*enter, "sh", "-c", script], env={**known, **env}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=200, check=False)  # fmt: skip

    def close(self) -> None:
        """It ends, with all that runs in it."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)  # then its parent takes note of it, and ends too
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(30)
        self._process.kill()
        self._process.wait()
        for line in pathlib.Path("/proc/mounts").read_text().splitlines():
            if line.split()[2] == "cgroup2":
                farboxes.leave_cgroup(f"{line.split()[1]}/{self.group}")
        shutil.rmtree(self.folder, ignore_errors=True)


def why_not() -> str:
    """Why it cannot be tried at all; empty where it can."""
    missing = [name for name in ("unshare", "nsenter", "systemctl") if shutil.which(name) is None]
    if not os.path.exists("/lib/systemd/systemd"):
        missing.append("systemd")
    return f"not installed: {', '.join(missing)}" if missing else "" if os.geteuid() == 0 else "needs root"
