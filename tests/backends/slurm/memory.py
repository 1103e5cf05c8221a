"""A memory control group of the cluster's own, so that the kernel itself ends jobs that take more than they asked for."""

import contextlib
import os
import signal
import tempfile
import time
from pathlib import Path

_PARENT = Path("/sys/fs/cgroup/memory")
CONF = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint={mount}
CgroupAutomount=no
ConstrainRAMSpace=yes
ConstrainSwapSpace=no
"""


class Groups:
    """Control groups for one cluster; `missing` says why there are none."""

    def __init__(self, folder: Path) -> None:
        self.mount = folder / "cgroup"
        self.missing: str | None = None
        self._own: Path | None = None
        try:
            self._own = Path(tempfile.mkdtemp(prefix="runward-slurm-", dir=_PARENT))
            (self._own / "memory.limit_in_bytes").read_text()
            (self._own / "memory.use_hierarchy").read_text()
        except OSError as error:
            self.missing = f"no memory control group can be made here: {error}"
            self.remove()
            return
        self.mount.mkdir()
        (self.mount / "memory").symlink_to(self._own)

    def write(self, conf: Path) -> None:
        """Slurm's cgroup.conf, beside slurm.conf."""
        conf.write_text(CONF.format(mount=self.mount))

    def remove(self) -> None:
        """Take them away, and end what is left of the cluster's jobs in them."""
        if self._own is None:
            return
        deadline = time.monotonic() + 10
        while self._own.is_dir() and time.monotonic() < deadline:
            for folder, _, _ in os.walk(self._own, topdown=False):
                with contextlib.suppress(OSError):
                    for pid in Path(folder, "cgroup.procs").read_text().split():
                        os.kill(int(pid), signal.SIGKILL)
                    os.rmdir(folder)
            time.sleep(0.05)
