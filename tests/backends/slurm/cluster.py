"""Real Slurm clusters of a few nodes on this machine: munged, slurmctld and several slurmd, started by hand in a folder."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import waiting
from backends.slurm import memory

PROGRAMS = (
    *("munged", "slurmctld", "slurmd", "slurmdbd", "mariadbd", "mariadb-install-db"),
    *("sbatch", "squeue", "scancel", "scontrol", "sacct", "sacctmgr"),
)

_CONF = """\
ClusterName={name}
SlurmctldHost={host}
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={shared}/munge.socket,cred_expire=10
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool.%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd.%n.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
{memory}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=100000
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PreemptExemptTime=00:00:00
JobRequeue=1
JobFileAppend=1
# What ended before all other tests is asked for after them, on a slow machine too.
MinJobAge=3600
KillWait=2
OverTimeLimit=0
SlurmdTimeout=10
InactiveLimit=0
ReturnToService=2
MpiDefault=none
MailProg=/bin/true
SlurmdParameters=config_overrides
NodeName={prefix}[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=8 RealMemory=8000
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 OverSubscribe=NO
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 OverSubscribe=NO
"""
_BY_KERNEL = "JobAcctGatherParams=NoShared\nTaskPlugin=task/cgroup"
_BY_ACCOUNTING = "JobAcctGatherParams=OverMemoryKill,NoShared\nTaskPlugin=task/none"
_ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={accounting}
AccountingStoragePass={shared}/munge.socket
"""
_DBD = """\
AuthType=auth/munge
AuthInfo=socket={dir}/munge.socket
DbdHost=localhost
DbdPort={accounting}
SlurmUser=root
LogFile={dir}/slurmdbd.log
PidFile={dir}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm
"""
_DATABASE = """\
CREATE DATABASE IF NOT EXISTS slurm;
CREATE USER IF NOT EXISTS 'slurm'@'127.0.0.1' IDENTIFIED BY 'slurm';
CREATE USER IF NOT EXISTS 'slurm'@'localhost' IDENTIFIED BY 'slurm';
GRANT ALL ON slurm.* TO 'slurm'@'127.0.0.1';
GRANT ALL ON slurm.* TO 'slurm'@'localhost';
"""


def missing() -> list[str]:
    """Programs that a cluster needs and this machine lacks; `root` where the tests do not run as root."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    lacking = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    return lacking if os.geteuid() == 0 else [*lacking, "root"]


class Cluster:
    """Daemons of ours, by their own processes."""

    def __init__(self, folder: Path, nodes: int = 3, name: str = "runward", prefix: str = "n") -> None:
        self.folder, self.name, self._prefix = folder, name, prefix
        self.nodes = [f"{prefix}{i + 1}" for i in range(nodes)]
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self.env["PATH"] = self.env.get("PATH", "") + ":/usr/sbin:/sbin"

    def start(self) -> None:
        """Write the configuration, start everything, wait until all nodes are idle."""
        first = self._prepare(self.folder, more_ports=2)
        self._ports = {"accounting": first + len(self.nodes), "database": first + len(self.nodes) + 1}
        self.configure()
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        self.start_database()
        self.start_munge()
        self.start_accounting()
        self._start_slurm()
        self.ready()

    def start_beside(self, other: "Cluster") -> None:
        """As another cluster of the same accounting and munge; see `ready`."""
        self._prepare(other.folder)
        self._ports = other._ports
        self.configure()
        self._start_slurm()

    def _prepare(self, shared: Path, more_ports: int = 0) -> int:
        """Folders and the text of slurm.conf; returns the first port of the nodes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        (self.folder / "state").mkdir(exist_ok=True)
        for node in self.nodes:
            (self.folder / f"spool.{node}").mkdir(exist_ok=True)
        self.groups = memory.Groups(self.folder)
        if self.groups.missing is None:
            self.groups.write(self.folder / "cgroup.conf")
        port, first = _free_ports(len(self.nodes) + more_ports)
        self._shared = shared
        self._conf = _CONF.format(
            name=self.name,
            prefix=self._prefix,
            host=socket.gethostname().partition(".")[0],
            port=port,
            dir=self.folder,
            shared=shared,
            memory=_BY_ACCOUNTING if self.groups.missing else _BY_KERNEL,
            nodes=len(self.nodes),
            first=first,
            last=first + len(self.nodes) - 1,
        )
        return first

    def _start_slurm(self) -> None:
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)

    def ready(self) -> None:
        """Wait until all nodes are idle."""
        waiting.wait_until(lambda: self.node_states() == ["idle"] * len(self.nodes), "all nodes idle", 240)

    def configure(self) -> None:
        """Write slurm.conf; the controller reads it when it starts."""
        more = _ACCOUNTING.format(shared=self._shared, **self._ports)
        (self.folder / "slurm.conf").write_text(self._conf + more)

    def without_accounting(self) -> Path:
        """A configuration by which Slurm's commands know of no accounting; the daemons keep their own."""
        bare = self.folder / "bare.conf"
        bare.write_text(self._conf)
        return bare

    def _make_database(self, data: Path, tries: int = 2) -> None:
        """An empty one. Beside another worker's load it failed once, and never again."""
        argv = ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}"]
        argv += ["--auth-root-authentication-method=normal", "--skip-test-db"]
        for _ in range(tries):
            done = subprocess.run(argv, check=False, capture_output=True, timeout=300, env=self.env)
            if done.returncode == 0:
                return
            shutil.rmtree(data, ignore_errors=True)
        words = (done.stdout + done.stderr).decode(errors="replace")
        raise AssertionError(f"mariadb-install-db ended with {done.returncode}: {words[-3000:]}")

    def start_database(self) -> None:
        """An empty MariaDB of our own."""
        data, d = self.folder / "database", self.folder
        self._make_database(data)
        (d / "database.sql").write_text(_DATABASE)
        self._spawn(
            "mariadbd",
            [
                *(
                    "mariadbd",
                    "--no-defaults",
                    "--user=root",
                    f"--datadir={data}",
                    "--bind-address=127.0.0.1",
                ),
                *(f"--port={self._ports['database']}", f"--socket={d}/database.socket"),
                *(f"--pid-file={d}/database.pid", f"--init-file={d}/database.sql"),
                *(
                    "--innodb-buffer-pool-size=16M",
                    "--innodb-log-file-size=8M",
                    "--innodb-flush-log-at-trx-commit=0",
                ),
            ],
        )

    def start_accounting(self) -> None:
        """slurmdbd; returns when it takes connections."""
        conf = self.folder / "slurmdbd.conf"
        conf.write_text(_DBD.format(dir=self.folder, **self._ports))
        conf.chmod(0o600)
        waiting.wait_until(lambda: _taken(self._ports["database"], connect=True), "MariaDB", 120)
        self._spawn("slurmdbd", ["slurmdbd", "-D"])
        waiting.wait_until(lambda: _taken(self._ports["accounting"], connect=True), "slurmdbd", 120)

    def start_munge(self) -> None:
        """munged on a socket of its own."""
        d = self.folder
        self._spawn(
            "munged",
            [
                *("munged", "--force", "--foreground"),
                *(f"--socket={d}/munge.socket", f"--key-file={d}/munge.key", f"--seed-file={d}/munged.seed"),
                *(f"--log-file={d}/munged.log", f"--pid-file={d}/munged.pid"),
            ],
        )
        waiting.wait_until((d / "munge.socket").exists, "munge socket", 30)

    def start_controller(self) -> None:
        """slurmctld, in the foreground of its process."""
        self._spawn("slurmctld", ["slurmctld", "-D", "-i"])

    def start_node(self, node: str) -> None:
        """One slurmd."""
        self._spawn(node, ["slurmd", "-D", "-N", node])

    def _spawn(self, name: str, argv: list[str]) -> None:
        with open(self.folder / f"{name}.out", "ab") as out:
            self._running[name] = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self.env, start_new_session=True
            )

    def stop(self, name: str, signum: int = signal.SIGTERM) -> None:
        """End one daemon: `munged`, `slurmctld` or a node's name."""
        process = self._running.pop(name, None)
        if process is not None:
            process.send_signal(signum)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def close(self) -> None:
        """Cancel what runs, end all daemons."""
        if "slurmctld" in self._running and "munged" in self._running:
            self.run("scancel", "-u", "root", check=False)
            time.sleep(0.5)
        for name in (*self.nodes, "slurmctld", "slurmdbd", "munged", "mariadbd"):
            self.stop(name, signal.SIGKILL if name in (*self.nodes, "mariadbd") else signal.SIGTERM)
        self.groups.remove()

    def run(self, *argv: str, check: bool = True) -> str:
        """Output of a Slurm command."""
        done = subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=60, check=False)
        if check and done.returncode:
            raise AssertionError(f"{argv}: {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def live(self) -> list[str]:
        """Ids of the jobs that are not over, but those that run beside all tests."""
        rows = [line.split() for line in self.run("squeue", "-h", "-o", "%A %j").splitlines()]
        return [job for job, name in rows if name != "slow"]

    def down(self) -> list[str]:
        """Nodes that take no jobs now."""
        shown = self.run("sinfo", "-h", "-N", "-p", "main", "-t", "down,fail,no_respond,drain", "-o", "%N")
        return shown.split()

    def node_states(self) -> list[str]:
        """The state of every node."""
        out = self.run("sinfo", "-h", "-N", "-p", "main", "-o", "%t", check=False)
        return out.split()

    def wait_state(self, job: str, *states: str, within: float = 60) -> str:
        """Wait until squeue has a job in one of `states`."""

        def look() -> str:
            return self.run(
                "squeue", "--local", "-h", "-t", "all", "-j", job, "-o", "%T", check=False
            ).strip()

        waiting.wait_until(lambda: look() in states, f"{job} in {states}", within)
        return look()


def _free_ports(nodes: int) -> tuple[int, int]:
    """A port for the controller and the first of a row of ports for nodes."""
    base = 20000 + secrets.randbelow(20000)
    while any(_taken(base + i) for i in range(nodes + 1)):
        base = 20000 + secrets.randbelow(20000)
    return base, base + 1


def _taken(port: int, *, connect: bool = False) -> bool:
    with socket.socket() as probe:
        if connect:
            return probe.connect_ex(("127.0.0.1", port)) == 0
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
        return False
