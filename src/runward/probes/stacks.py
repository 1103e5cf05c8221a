"""Python stacks of a running process through py-spy, where it may attach; else the reason why not."""

import json
import os
import shutil
import sys
from typing import Any

from runward import ports
from runward.core import stacks

_MAX_THREADS = 256
_MAX_FRAMES = 128


class PySpy:
    """Dumps stacks without stopping the process for longer than the copying takes."""

    name = "stacks"

    def __init__(self, runner: ports.Runner, clock: ports.Clock) -> None:
        self._runner = runner
        self._clock = clock

    def dump(self, pid: int, deadline_s: float = 10.0) -> stacks.Dump:
        """The stacks of one process now. Never raises: an `unseen` dump says why."""
        tool = _tool()
        if tool is None:
            return self._unseen(pid, "py-spy is not installed (pip install 'runward[stacks]')")
        argv = [tool, "dump", "--json", "--pid", str(pid)]
        if _state(pid) in {"T", "t"}:
            argv.append("--nonblocking")  # a stopped process cannot be stopped once more
        try:
            done = self._runner.run(ports.Call(tuple(argv), deadline_s=deadline_s, limit=8 << 20))
        except ports.ContactLost as lost:
            return self._unseen(pid, str(lost))
        if done.timed_out:
            return self._unseen(pid, f"py-spy has not answered for {deadline_s:.0f} s")
        if not done.ok:
            return self._unseen(pid, _why(pid, done.stderr.decode("utf-8", "replace")))
        try:
            threads = parse(json.loads(done.text))
        except (ValueError, TypeError, KeyError) as error:
            return self._unseen(pid, f"py-spy's answer cannot be read: {error}")
        return stacks.Dump(pid, self._clock.mono(), threads)

    def _unseen(self, pid: int, why: str) -> stacks.Dump:
        return stacks.Dump(pid, self._clock.mono(), unseen=why)


def parse(data: Any) -> tuple[stacks.Thread, ...]:
    """Threads of `py-spy dump --json`. Raises TypeError or KeyError for anything else."""
    if not isinstance(data, list):
        raise TypeError("no list of threads")
    return tuple(
        stacks.Thread(
            name=str(thread.get("thread_name") or ""),
            frames=tuple(
                f"{frame['name']} ({frame.get('short_filename') or frame.get('filename')}:{frame.get('line')})"
                for frame in thread["frames"][:_MAX_FRAMES]
            ),
        )
        for thread in data[:_MAX_THREADS]
    )


def _tool() -> str | None:
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    return beside if os.access(beside, os.X_OK) else shutil.which("py-spy")


def _state(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            data = file.read(4096)
    except OSError:
        return ""
    return data[data.rfind(b")") + 2 :][:1].decode("ascii", "replace")


def _why(pid: int, said: str) -> str:
    """py-spy's complaint in words that say what would help."""
    text = said.strip().splitlines()[-1][:200] if said.strip() else "no reason given"
    if _state(pid) == "":
        return f"process {pid} is gone"
    if "permission" in said.lower():
        scope = ptrace_scope()
        if scope is not None and scope > 0:
            return (
                f"stacks are not observable: kernel.yama.ptrace_scope is {scope}; root, or 0, would allow it"
            )
        return "stacks are not observable: not permitted to look into this process (another user's?)"
    return f"py-spy: {text}"


def ptrace_scope(path: str = "/proc/sys/kernel/yama/ptrace_scope") -> int | None:
    """Yama's restriction, or None where the kernel has none."""
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read(8))
    except (OSError, ValueError):
        return None
