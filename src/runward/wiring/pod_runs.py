"""Processes in a pod as runs: watched through `kubectl exec` by the pod's own python3, nothing is installed there."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runward import ports
from runward.app import pulse
from runward.backends.pod import files
from runward.core import errors, job, observations, options
from runward.wiring import k8s, pod_launched, pod_looks
from runward.wiring.place import Place

_GIVEN = "given:"
_LET_GO = job.JobStatus(job.JobState.CANCELLED, "let go", job.ExitStatus.unseen())
_TARGET = re.compile(r"(?:pod:)?((?:[^/]+/)?[^/]+)/local:(\d{1,10})")
_PROBE = """
import json, os, sys
base = "/proc/%d/" % int(sys.argv[1])
def link(name):
    try: return os.readlink(base + name)
    except OSError: return ""
try:
    stat = open(base + "stat").read().rpartition(")")[2].split()
    argv = open(base + "cmdline", "rb").read(65536).decode("utf-8", "replace").split("\\0")[:-1]
except OSError:
    print("null")
    sys.exit()
outs = [p for p in dict.fromkeys((link("fd/1"), link("fd/2"))) if os.path.isfile(p)]
ticks = os.sysconf("SC_CLK_TCK")
json.dump({"state": stat[0], "start": stat[19], "cpu_s": (int(stat[11]) + int(stat[12])) / ticks,
           "argv": argv, "cwd": link("cwd"), "outs": outs}, sys.stdout)
"""


def parse(target: str) -> tuple[str, int]:
    """Pod and pid of `[pod:]NAMESPACE/POD/local:PID`. Raises UsageError."""
    found = _TARGET.fullmatch(target)
    if found is None:
        step = "Write pod:NAMESPACE/POD/local:PID."
        raise errors.UsageError(
            errors.Problem(f"{target!r} names no process in a pod", "pod:", next_step=step)
        )
    return found[1], int(found[2])


def _probe(runner: ports.Runner, pid: int) -> Mapping[str, Any] | None:
    """What /proc says there; None when there is no such process. Raises ContactLost."""
    text = pod_looks.python(runner, _PROBE, str(pid), deadline_s=30.0)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ports.ContactLost(f"{runner.name}: no answer of the probe, but {text[:80]!r}") from error
    return found if isinstance(found, dict) else None


@dataclass
class _Process:
    """A backend for one process in a pod: looked at, never ended."""

    pod: str
    pid: int
    log: str | None
    name: str = "pod"
    last: Mapping[str, Any] = field(default_factory=dict)
    over: job.JobStatus | None = None
    let_go: bool = False

    def __post_init__(self) -> None:
        self.runner = pod_looks.named(self.pod)

    def poll(self, jobs: Sequence[str]) -> Mapping[str, job.JobStatus | job.Unseen]:
        """See `ports.Backend.poll`."""
        return {one: _LET_GO if self.let_go else self._status(one) for one in jobs}

    def _status(self, handle: str) -> job.JobStatus | job.Unseen:
        if self.over is not None:
            return self.over
        try:
            found = _probe(self.runner, self.pid)
        except ports.ContactLost as lost:
            self.over = k8s.ended_with(self.pod, bool(self.last))
            return self.over or job.Unseen(str(lost), time.time())
        if found is None or found["start"] != handle.rpartition("@")[2] or found["state"] in "ZX":
            word, unseen = "exit not seen", job.ExitStatus.unseen()
            self.over = job.JobStatus(job.JobState.FAILED, word, unseen, ended_at=time.time())
            return self.over
        self.last = found
        return job.JobStatus(job.JobState.SUSPENDED if found["state"] in "Tt" else job.JobState.RUNNING)

    def submit(self, spec: job.JobSpec, token: str) -> str:
        """See `ports.Backend.submit`: refused."""
        del spec, token
        raise errors.UsageError("a process in a pod is only watched: it cannot be started again from here")

    def find(self, token: str) -> str | None:
        """See `ports.Backend.find`."""
        del token
        return None

    def cancel(self, job_id: str, plan: ports.EndPlan) -> None:
        """See `ports.Backend.cancel`: it is no longer watched."""
        del job_id, plan
        self.let_go = True

    def logs(self, job_id: str) -> Sequence[ports.LogStream]:
        """See `ports.Backend.logs`: the file that was named, else those that stdout and stderr go to."""
        del job_id
        paths = [self.log] if self.log else self.last.get("outs") or ()
        return [files.File(self.runner, str(path), lambda: self.over is not None) for path in paths]

    def cpu_s(self) -> float | None:
        """Processor seconds at the last look."""
        found = self.last.get("cpu_s")
        return float(found) if found is not None else None


def place(asked: options.RunOptions, acts: bool = True) -> Place:
    """The place of a process in a pod: one that was found there, or one that is started there."""
    if asked.target.endswith("/"):
        return pod_launched.place(asked)
    del acts
    pod, pid = parse(asked.target)
    one = _Process(pod, pid, asked.log)
    return Place(
        backend=one,
        describe=lambda handle: observations.Launched(str(pid), handle),
        looks=lambda _handle: pulse.Looks(one.cpu_s),
        suspended=lambda _handle: str(one.last.get("state")) in {"T", "t"},
        tick_s=asked.settings.ticks.k8s_s,
    )


def attach(target: str, *, act: bool) -> tuple[str, tuple[str, ...], str]:
    """Handle, command and directory of a process in a pod. Raises UsageError, NotFound, Unreachable."""
    if act:
        problem = errors.Problem(
            "a process in a pod is only watched", "--act", next_step="Attach without --act."
        )
        raise errors.UsageError(problem)
    pod, pid = parse(target)
    found = _probe(pod_looks.named(pod), pid)
    if found is None:
        raise errors.NotFound(errors.Problem(f"no process {pid} in {pod}", f"pod:{target}"))
    return f"{_GIVEN}{pid}@{found['start']}", tuple(map(str, found["argv"])), str(found["cwd"] or "/")
