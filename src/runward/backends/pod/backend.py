"""A command in a pod as a job: started under a keeper there, looked at by its files, found again by its token.

A job's id is `TOKEN@CONTAINER`. When another container stands in the place of the one that it was started in, the
job is over: nothing of the old one is left. A connection that is lost says nothing.
"""

import io
import json
import os
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from runward import keeper, ports
from runward.backends.pod import files
from runward.core import errors, job
from runward.keeper import cgroups

Facts = Mapping[str, Any]
_LOOK_S, _START_S = 30.0, 90.0
_ANSWERED = 75
"""A keeper's code for an attempt that is not its to start."""


@cache
def script() -> str:
    """The text of what runs there."""
    with open(os.path.join(os.path.dirname(__file__), "far.py"), encoding="utf-8") as file:
        return file.read()


@cache
def keepers_code() -> bytes:
    """The keeper as a zip: it needs nothing else of ours."""
    here, packed = os.path.dirname(keeper.__file__), io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("runward/__init__.py", "")
        for name in sorted(os.listdir(here)):
            if name.endswith(".py"):
                archive.write(os.path.join(here, name), f"runward/keeper/{name}")
    return packed.getvalue()


@dataclass
class Pod:
    """See `ports.Backend`."""

    runner: ports.Runner
    with_its_pod: Callable[[bool], job.JobStatus | None] = lambda _seen: None
    """How the whole pod ended, where the cluster says that it has; told whether it was ever seen."""
    name: str = "pod"
    _seen: dict[str, Facts] = field(default_factory=dict)
    _over: dict[str, job.JobStatus] = field(default_factory=dict)
    _logs: dict[str, str] = field(default_factory=dict)

    def _ask(self, verb: str, token: str, given: Facts, code: bytes = b"") -> Facts:
        """What the script says. Raises ContactLost."""
        argv = ("python3", "-c", script(), verb, token)
        limit = _START_S if code else _LOOK_S
        done = self.runner.run(ports.Call(argv, json.dumps(given).encode() + b"\n" + code, limit))
        try:
            found = json.loads(done.text) if done.ok else None
        except ValueError:
            found = None
        if not isinstance(found, dict):
            words = done.stderr.decode("utf-8", "replace").strip()[-300:] or f"exit {done.code}"
            raise ports.ContactLost(f"{self.runner.name}: {'no answer in time' if done.timed_out else words}")
        self._logs[token] = os.path.join(str(found["folder"]), "output.log")
        return found

    def submit(self, spec: job.JobSpec, token: str) -> str:
        """See `ports.Backend.submit`. Raises InternalError when the keeper there could not start it."""
        given = {
            "schema_version": 1,
            "token": token,
            "argv": list(spec.argv),
            "cwd": spec.cwd,
            "env": dict(spec.env),
            "umask": spec.umask,
            **{key: float(value) for key, value in spec.options.items()},
        }
        found = self._ask("start", token, given, keepers_code())
        answer = found.get("answer") or {}
        if answer.get("ok") is True or answer.get("stage") in {"exec", "cwd", "prepare"}:
            return f"{token}@{found['born']}"
        words = f"{self.runner.name}: {answer.get('stage')}: {answer.get('text')}"
        if not answer or answer.get("code") == _ANSWERED or self.find(token) is not None:
            raise ports.ContactLost(words)
        raise errors.InternalError(f"the keeper did not start the command: {words}")

    def find(self, token: str) -> str | None:
        """See `ports.Backend.find`. None is a promise: a late start will find the attempt given up."""
        found = self._ask("find", token, {}, keepers_code())
        if found["keeper"] is None and found["start"] is None and found["exit"] is None:
            if not found["void"]:
                raise ports.ContactLost(f"{self.runner.name}: {token} could not be given up")
            return None
        return f"{token}@{found['born']}"

    def poll(self, jobs: Sequence[str]) -> Mapping[str, job.JobStatus | job.Unseen]:
        """See `ports.Backend.poll`."""
        return {one: self._over.get(one) or self._status(one) for one in jobs}

    def _status(self, handle: str) -> job.JobStatus | job.Unseen:
        token, _, born = handle.partition("@")
        try:
            found = self._ask("look", token, {})
        except ports.ContactLost as lost:
            ended = self.with_its_pod(handle in self._seen)
            if ended is not None:
                self._over[handle] = ended
            return ended or job.Unseen(str(lost), time.time())
        if found["born"] != born:
            status: job.JobStatus | job.Unseen = _replaced()
        elif not found["there"]:
            return job.Unseen(f"{self.runner.name}: {found['folder']} is gone", time.time())
        else:
            self._seen[handle] = found
            status = self._judged(token, found)
        if isinstance(status, job.JobStatus) and status.state.final:
            self._over[handle] = status
        return status

    def _judged(self, token: str, found: Facts) -> job.JobStatus | job.Unseen:
        if found["start"] is None and found["exit"] is None:
            return job.Unseen("not started yet, or never", time.time())
        if found["gone"] is None and (found["keeper"] is not None or found.get("left")):
            return self._living(token, found)
        seen = _exit(found)
        asked = bool((found["exit"] or {}).get("asked") if found["exit"] else found["asked"])
        state = job.JobState.CANCELLED if asked else job.JobState.FAILED
        failure = (found["exit"] or {}).get("failure") or {}
        return job.JobStatus(
            job.JobState.SUCCEEDED if seen.code == 0 else state,
            "ended" if found["exit"] else "keeper was killed",
            seen,
            reason=f"could not start ({failure.get('stage')}): {failure.get('text')}" if failure else "",
            started_at=(found["start"] or {}).get("at"),
            ended_at=(found["exit"] or {}).get("at") or time.time(),
            witnesses=_witnesses(found),
            proof="nothing is left that descends from the command",
        )

    def _living(self, token: str, found: Facts) -> job.JobStatus:
        """Also insists on an end that was asked for, where the keeper was killed."""
        asked = found["asked"]
        if (
            found["keeper"] is None
            and asked
            and time.time() > asked["at"] + float(asked.get("grace_s") or 0.0)
        ):
            self._ask("end", token, {**asked, "now": True})
        ending = bool(asked) or found["exit"] is not None
        state = job.JobState.ENDING if ending else job.JobState.RUNNING
        if not ending and str(found.get("state")) in {"T", "t"}:
            state = job.JobState.SUSPENDED
        seen = _exit(found) if found["exit"] else None
        return job.JobStatus(state, state.value, seen, started_at=(found["start"] or {}).get("at"))

    def cancel(self, job_id: str, plan: ports.EndPlan) -> None:
        """See `ports.Backend.cancel`: the keeper there climbs the ladder, whatever becomes of the connection."""
        given = {"schema_version": 1, "signum": plan.signum, "grace_s": plan.grace_s, "why": plan.why}
        self._ask("end", job_id.partition("@")[0], {**given, "now": plan.now, "stacks": plan.stacks})

    def logs(self, job_id: str) -> Sequence[ports.LogStream]:
        """See `ports.Backend.logs`."""
        path = self._logs.get(job_id.partition("@")[0])
        return [files.File(self.runner, path, lambda: job_id in self._over)] if path else []

    def state(self, handle: str) -> str:
        """The kernel's letter for the command at the last look."""
        return str(self._seen.get(handle, {}).get("state"))

    def cpu_s(self, handle: str) -> float | None:
        """Processor seconds of the command at the last look."""
        found = self._seen.get(handle, {}).get("cpu_s")
        return float(found) if found is not None else None


def _exit(found: Facts) -> job.ExitStatus:
    told = found["exit"] or {}
    code, signum = told.get("code"), told.get("signum")
    if isinstance(signum, int):
        return job.ExitStatus(None, signum)
    return job.ExitStatus(code) if isinstance(code, int) else job.ExitStatus.unseen()


def _witnesses(found: Facts) -> tuple[job.Witness, ...]:
    """What the container's memory groups counted, by the last record that knows."""
    records = [one for one in (found["gone"], found["exit"], found["start"]) if one and one.get("oom_kill")]
    counts = records[0]["oom_kill"] if records else {}
    own = {file: pair for file, pair in counts.items() if file != cgroups.WHOLE_MACHINE}
    rose = [job.Witness("cgroup", "oom_kill", f"{f} rose by {b - a}") for f, (a, b) in own.items() if b > a]
    if rose or not own:
        return tuple(rose)
    return (
        job.Witness("cgroup", "no_oom_kill", f"no out-of-memory kill counted in {', '.join(sorted(own))}"),
    )


def _replaced() -> job.JobStatus:
    return job.JobStatus(
        job.JobState.FAILED,
        "container was restarted",
        job.ExitStatus.unseen(),
        ended_at=time.time(),
        proof="another container stands in the place of the one that it ran in",
    )
