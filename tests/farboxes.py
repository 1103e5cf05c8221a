"""Far boxes for tests: real sshds in network, mount and process namespaces, each with an address of its own."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import uuid

import pytest

from runward.runners import local, ssh
from waiting import wait_until

_NEEDED = ("sshd", "ssh", "ssh-keygen", "ip", "unshare", "mount")
_ENTER = """
set -e
mount --make-rprivate /
mount -t proc proc /proc
mount --bind "$1/home" /root
mount --bind "$1/passwd" /etc/passwd
mount --bind "$1/boot_id" /proc/sys/kernel/random/boot_id
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd
mount -t tmpfs tmpfs /tmp
ip link set lo up
[ ! -e "$1/at_start" ] || . "$1/at_start"
exec "$(command -v sshd)" -D -e -f "$1/sshd_config"
"""


def missing() -> str | None:
    if os.geteuid() != 0:
        return "not root"
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    absent = [tool for tool in _NEEDED if shutil.which(tool) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    name = f"rw{os.getpid()}x"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        return "network namespaces cannot be made here"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return None


def require() -> None:
    """Skip with the reason; in CI fail."""
    why = missing()
    if why and os.environ.get("CI") == "true":
        pytest.fail(f"real sshd wanted: {why}")
    if why:
        pytest.skip(f"real sshd: {why}")


def sh(*argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=check, timeout=60)


class Net:
    """Some boxes, and the ssh configuration that knows them as b0, b1, ..."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.boxes: list[Box] = []
        self.config = folder / "ssh_config"
        self.key = folder / "id"
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key))
        self.known = folder / "known_hosts"
        self._write()

    def add(self, **kinds: str) -> "Box":
        """A box that runs; `at_start` are shell lines that it runs at each boot before its sshd."""
        box = Box(self, len(self.boxes), **kinds)
        self.boxes.append(box)
        box.start()
        self._write()
        return box

    def _write(self) -> None:
        self.config.write_text("".join(box.words() for box in self.boxes))
        self.known.write_text("".join(f"{b.address} {b.public_key}\n" for b in self.boxes))

    def link(self, **more: object) -> ssh.Link:
        return ssh.Link(options=("-F", str(self.config)), **more)  # type: ignore[arg-type]

    def runner(self, alias: str, **more: object) -> ssh.Ssh:
        return ssh.Ssh(alias, local.Local(), self.link(**more))

    def program(self, folder: pathlib.Path) -> pathlib.Path:
        """A folder to put first on PATH: its ssh knows the boxes."""
        folder.mkdir(exist_ok=True)
        script = folder / "ssh"
        real = shutil.which("ssh")
        script.write_text(f'#!/bin/sh\nexec {real} -F {self.config} "$@"\n')
        script.chmod(0o755)
        return folder

    def tools(self, name: str, *more: str) -> pathlib.Path:
        """A folder with what every shell script may expect, and nothing else: no python, no GPU tools."""
        folder = self.folder / name
        folder.mkdir()
        usual = [
            "sh",
            "cat",
            "date",
            "uname",
            "tr",
            "cut",
            "sed",
            "awk",
            "sort",
            "head",
            "tail",
            "wc",
            "df",
            "ls",
        ]
        for tool in (*usual, *more):
            shutil.copy(str(shutil.which(tool)), folder / tool)
        return folder

    def close(self) -> None:
        for box in self.boxes:
            box.close()


class Box:
    def __init__(
        self,
        net: Net,
        number: int,
        shell: str = "/bin/bash",
        settings: str = "",
        jump: str = "",
        at_start: str = "",
    ) -> None:
        self.net, self.number, self.shell, self.settings, self.jump = net, number, shell, settings, jump
        self.alias = f"b{number}"
        third = os.getpid() % 200
        self.here, self.address = f"10.{third}.{number}.1", f"10.{third}.{number}.2"
        self.ns = f"rw{os.getpid()}n{number}"
        self.veth = f"rw{os.getpid()}v{number}"[:15]
        self.folder = net.folder / self.alias
        self.home = self.folder / "home"
        self.home.mkdir(parents=True)
        self.process: subprocess.Popen[bytes] | None = None
        self._prepare()
        if at_start:
            (self.folder / "at_start").write_text(at_start)

    def _prepare(self) -> None:
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / "host_key"))
        (self.home / ".ssh").mkdir()
        keys = self.folder / "authorized_keys"
        shutil.copy(f"{self.net.key}.pub", keys)
        (self.folder / "passwd").write_text(
            f"root:x:0:0:root:/root:{self.shell}\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n"
        )
        self.new_boot()
        (self.folder / "sshd_config").write_text(
            f"HostKey {self.folder}/host_key\nAuthorizedKeysFile {keys}\nStrictModes no\nUsePAM no\n"
            f"PidFile none\nPermitRootLogin yes\nPrintMotd no\n{self.settings}\n"
        )
        sh("ip", "netns", "add", self.ns)
        sh("ip", "link", "add", self.veth, "type", "veth", "peer", "name", "eth0", "netns", self.ns)
        near: tuple[str, ...] = ("ip",)
        if self.jump:  # only its jump host sees it
            jump = next(box.ns for box in self.net.boxes if box.alias == self.jump)
            sh("ip", "link", "set", self.veth, "netns", jump)
            near = ("ip", "-n", jump)
        sh(*near, "addr", "add", f"{self.here}/30", "dev", self.veth)
        sh(*near, "link", "set", self.veth, "up")
        self.inside("ip", "addr", "add", f"{self.address}/30", "dev", "eth0")
        self.inside("ip", "link", "set", "eth0", "up")

    def words(self) -> str:
        net = self.net
        return (
            f"Host {self.alias}\n  HostName {self.address}\n  User root\n  IdentityFile {net.key}\n"
            f"  IdentitiesOnly yes\n  UserKnownHostsFile {net.known}\n  GlobalKnownHostsFile /dev/null\n"
            + (f"  ProxyJump {self.jump}\n" if self.jump else "")
        )

    @property
    def public_key(self) -> str:
        return (self.folder / "host_key.pub").read_text().strip()

    def inside(self, *argv: str) -> None:
        sh("ip", "netns", "exec", self.ns, *argv)

    def start(self) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("RUNWARD", "PYTHON", "TMUX"))}
        with (self.folder / "sshd.log").open("ab") as log:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", self.ns, "unshare", "--pid", "--fork", "--kill-child", "--mount",
                 "sh", "-c", _ENTER, "sh", str(self.folder), self.ns],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
                env=env, start_new_session=True,
            )  # fmt: skip
        wait_until(self._listens, f"sshd of {self.alias} listens")

    def _listens(self) -> bool:
        import socket

        assert self.process is not None
        log = (self.folder / "sshd.log").read_text()
        assert self.process.poll() is None, log
        if "Server listening" not in log:
            return False
        if self.jump:
            return True
        try:
            socket.create_connection((self.address, 22), 1).close()
        except OSError:
            return False
        return True

    def new_boot(self) -> None:
        # A bind mount shows the inode: write in place while the box runs.
        (self.folder / "boot_id").write_text(f"{uuid.uuid4()}\n")

    def stop(self) -> None:
        """Everything there dies, as by a power cut."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
            (self.folder / "sshd.log").write_text("")

    def reboot(self) -> None:
        self.stop()
        self.new_boot()
        self.start()

    def cut(self) -> None:
        """The link is down."""
        self.inside("ip", "link", "set", "eth0", "down")

    def mend(self) -> None:
        self.inside("ip", "link", "set", "eth0", "up")

    def swallow(self) -> None:
        """Packets arrive and nothing ever comes back."""
        self.inside("ip", "route", "add", "blackhole", f"{self.here}/32")

    def close(self) -> None:
        self.stop()
        self._leave_cgroup()
        with contextlib.suppress(subprocess.CalledProcessError):
            sh("ip", "link", "del", self.veth)
        with contextlib.suppress(subprocess.CalledProcessError):
            sh("ip", "netns", "del", self.ns)

    def _leave_cgroup(self) -> None:
        """Of a box with a systemd."""
        for line in pathlib.Path("/proc/mounts").read_text().splitlines():
            _, where, kind, *_ = line.split()
            if kind == "cgroup2":
                leave_cgroup(f"{where}/{self.ns}")


CRON = """
mkdir -p "$1/cron/crontabs"
chgrp crontab "$1/cron/crontabs"
mount --bind "$1/cron" /var/spool/cron
printf '%s required pam_permit.so\n' auth account session >"$1/pam"
mount --bind "$1/pam" /etc/pam.d/cron
$(command -v cron || echo /usr/sbin/cron)
"""
"""`at_start`: the box's own cron, whose tables survive its reboots."""
SYSTEMD = """
mkdir -p /run/systemd/system /run/user/0
if { mount -t cgroup2 cgroup2 /sys/fs/cgroup && mkdir -p "/sys/fs/cgroup/$2" && echo $$ >"/sys/fs/cgroup/$2/cgroup.procs"
} 2>"$1/systemd.log"; then
  unshare --cgroup sh -c '
    umount /sys/fs/cgroup; mount -t cgroup2 cgroup2 /sys/fs/cgroup
    exec env XDG_RUNTIME_DIR=/run/user/0 HOME=/root /lib/systemd/systemd --user' >"$1/systemd.log" 2>&1 &
  n=0
  until XDG_RUNTIME_DIR=/run/user/0 systemctl --user show-environment >/dev/null 2>&1 || [ $n -gt 300 ]; do
    kill -0 $! 2>/dev/null || break
    sleep 0.1; n=$((n + 1))
  done
fi
"""
"""`at_start`: a real systemd of the user, started by hand, as pam_systemd would."""


def leave_cgroup(path: str) -> None:
    """Remove a group and those in it, innermost first, once what was killed there is gone."""
    for _ in range(100):
        for root, _, _ in os.walk(path, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(root)
        if not os.path.isdir(path):
            return
        time.sleep(0.05)


def make() -> Net:
    require()
    # Short: control sockets have a limit of 104 bytes. Not under /tmp, over which boxes mount one of their own.
    return Net(pathlib.Path(tempfile.mkdtemp(prefix="rw", dir="/var/tmp")))
