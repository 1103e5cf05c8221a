"""Clients of Slurm: the real commands, and one in memory. A query that fails raises ContactLost, never "gone"."""

import getpass
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runward import ports
from runward.backends.slurm import commands, records
from runward.compat.autoexp import running, schema
from runward.runners import local

_DEADLINE_S = 60.0
_ID = re.compile(r"(?:^|\s)(\d+(?:_\d+)?)\b")


class SubmitFailed(ports.ContactLost):
    """sbatch said no, or nothing: no job is known to have come of it."""


class _NoAnswer(SubmitFailed):
    """A command that did not end in time: what it did is not known."""


@dataclass
class SlurmJob:
    """A job that a client knows."""

    job_id: str
    name: str
    script_path: Path | str
    log_path: Path | str
    state: str = "PENDING"
    return_code: int | None = None


@dataclass
class SlurmClientConfig:
    """Keys of `SlurmClient`."""

    class_name: str = "SlurmClient"


@dataclass
class FakeSlurmClientConfig:
    """Keys of `FakeSlurmClient`."""

    class_name: str = "FakeSlurmClient"


class BaseSlurmClient:
    """Jobs by id, in the order in which they came."""

    missing_after_seconds: float = 0.0
    """A job that Slurm denies is believed gone only after so long."""

    def __init__(self) -> None:
        self._jobs: dict[str, SlurmJob] = {}
        self.slurm_config = schema.SlurmConfig()

    def configure(self, slurm_config: schema.SlurmConfig) -> None:
        """Take the names of Slurm's commands."""
        self.slurm_config = slurm_config

    def register_job(
        self,
        job_id: str,
        name: str,
        script_path: Path | str = "",
        log_path: Path | str = "",
        state: str = "PENDING",
    ) -> None:
        """Know a job that another process submitted."""
        self._jobs.setdefault(str(job_id), SlurmJob(str(job_id), name, script_path, log_path, state))

    def get_job(self, job_id: str) -> SlurmJob:
        """Raises KeyError for an id that is not known."""
        return self._jobs[str(job_id)]

    def job_ids_by_name(self, name: str) -> list[str]:
        """Ids of the jobs of that name, oldest first."""
        return [job.job_id for job in self._jobs.values() if job.name == name]

    def remove(self, job_id: str) -> None:
        """Forget a job."""
        self._jobs.pop(str(job_id), None)

    def _keep(
        self, base: str, name: str, script: Path | str, logs: Sequence[Path | str], first: int
    ) -> list[str]:
        ids = []
        for i, log in enumerate(logs, first):
            self._jobs[f"{base}_{i}"] = SlurmJob(f"{base}_{i}", name, script, log)
            ids.append(f"{base}_{i}")
        return ids

    def _named(self, ids: Iterable[str], names: Sequence[str]) -> list[str]:
        for job_id, name in zip(ids, names, strict=False):
            self._jobs[job_id].name = name
        return list(ids)


class FakeSlurmClient(BaseSlurmClient):
    """Slurm in memory: jobs do what a test says."""

    def __init__(self, config: FakeSlurmClientConfig | None = None) -> None:
        super().__init__()
        self.config = config or FakeSlurmClientConfig()
        self._next = 1

    def submit(self, name: str, script_path: Path | str, log_path: Path | str) -> str:
        """A new job that waits."""
        job_id = self._take()
        self._jobs[job_id] = SlurmJob(job_id, name, script_path, log_path)
        return job_id

    def submit_array(
        self,
        array_name: str,
        script_path: Path | str,
        log_paths: Sequence[Path | str],
        task_names: Sequence[str],
        start_index: int = 0,
    ) -> list[str]:
        """New elements `B_i` that wait."""
        ids = self._keep(self._take(), array_name, script_path, log_paths, start_index)
        return self._named(ids, task_names)

    def register_job(
        self,
        job_id: str,
        name: str,
        script_path: Path | str = "",
        log_path: Path | str = "",
        state: str = "PENDING",
    ) -> None:
        """Know a job of another process; its number is not given again."""
        super().register_job(job_id, name, script_path, log_path, state)
        number = str(job_id).partition("_")[0]
        if number.isdigit():
            self._next = max(self._next, int(number) + 1)

    def _take(self) -> str:
        self._next += 1
        return str(self._next - 1)

    def squeue(self, job_ids: Iterable[str] | None = None) -> dict[str, str]:
        """The state of every job, ended ones included."""
        del job_ids
        return {job.job_id: job.state for job in self._jobs.values()}

    def set_state(self, job_id: str, state: str, return_code: int | None = None) -> None:
        """Say what became of a job."""
        job = self._jobs[str(job_id)]
        job.state, job.return_code = state, return_code

    def cancel(self, job_id: str) -> None:
        """The job is cancelled, unless it is over."""
        job = self._jobs.get(str(job_id))
        if job is not None and job.state in ("PENDING", "RUNNING", "CONFIGURING", "SUSPENDED", "COMPLETING"):
            job.state = "CANCELLED"


class SlurmClient(BaseSlurmClient):
    """Slurm's own commands, each with a deadline."""

    missing_after_seconds = 600.0

    def __init__(self, config: SlurmClientConfig | None = None) -> None:
        super().__init__()
        self.config = config or SlurmClientConfig()
        self._unsure: set[str] = set()
        """Names of submits whose answer was lost."""

    def submit(self, name: str, script_path: Path | str, log_path: Path | str) -> str:
        """The id of the new job. Raises SubmitFailed; after a lost answer the job is looked for by its name first."""
        job_id = self._submitted(name, [str(script_path)])
        self._jobs[job_id] = SlurmJob(job_id, name, script_path, log_path)
        return job_id

    def submit_array(
        self,
        array_name: str,
        script_path: Path | str,
        log_paths: Sequence[Path | str],
        task_names: Sequence[str],
        start_index: int = 0,
    ) -> list[str]:
        """Ids `B_i` of the elements of one new array. Raises SubmitFailed."""
        last = start_index + len(log_paths) - 1
        base = self._submitted(array_name, [f"--array={start_index}-{last}", str(script_path)])
        return self._named(self._keep(base, array_name, script_path, log_paths, start_index), task_names)

    def _submitted(self, name: str, words: list[str]) -> str:
        lost = self._arrived(name) if name in self._unsure else None
        self._unsure.discard(name)
        if lost is not None:
            return lost
        try:
            said = self._run(self.slurm_config.submit_cmd, *words)
        except _NoAnswer:
            self._unsure.add(name)
            raise
        except ports.ContactLost as error:
            raise SubmitFailed(str(error)) from error
        found = _ID.search(said)
        if found is None:
            raise SubmitFailed(f"{self.slurm_config.submit_cmd} named no job: {said.strip()[:200]!r}")
        return found[1]

    def _arrived(self, name: str) -> str | None:
        """A job of that name that nobody here knows: the submit whose answer was lost. Raises ContactLost."""
        words = ("--user", getpass.getuser(), "--name", name, "--noheader", "--format", "%i %T")
        rows = self._run(self.slurm_config.squeue_cmd, *words).split("\n")
        found = [row.split()[0].partition("_")[0] for row in rows if row.strip()]
        known = {job_id.partition("_")[0] for job_id in self._jobs}
        return next((job_id for job_id in found if job_id not in known), None)

    def squeue(self, job_ids: Iterable[str] | None = None) -> dict[str, str]:
        """States of the known jobs (or of `job_ids`); those that nobody knows are left out. Raises ContactLost."""
        wanted = list(job_ids) if job_ids is not None else list(self._jobs)
        if not wanted:
            return {}
        found = self._queue(wanted)
        absent = [one for one in wanted if one not in found]
        if absent:
            found.update(self._accounts(absent))
        for job_id, state in found.items():
            if job_id in self._jobs:
                self._jobs[job_id].state = state
        return {one: found[one] for one in wanted if one in found}

    def _queue(self, wanted: Sequence[str]) -> dict[str, str]:
        words = ("--jobs", ",".join(wanted), "--noheader", "--format", "%i %T")
        try:
            said = self._run(self.slurm_config.squeue_cmd, *words)
        except ports.ContactLost as error:
            if "invalid job id" in str(error).lower():
                return {}
            raise
        rows = (line.split(None, 1) for line in said.splitlines() if line.strip())
        return {row[0]: row[1].strip() for row in rows if len(row) == 2}

    def _accounts(self, absent: Sequence[str]) -> dict[str, str]:
        """From accounting; where there is none, from the controller."""
        words = ("--jobs", ",".join(absent), "--noheader", "--format", "JobID,State", "--parsable2")
        try:
            said = self._run(self.slurm_config.sacct_cmd, *words)
        except ports.ContactLost as error:
            if "disabled" in str(error) or "not found" in str(error):
                return _of_controller(absent)
            raise
        rows = (line.split("|") for line in said.splitlines())
        return {row[0]: records.plain_word(row[1]) for row in rows if len(row) == 2 and row[0] in absent}

    def cancel(self, job_id: str) -> None:
        """Ask Slurm to cancel. Raises ContactLost."""
        self._run(self.slurm_config.cancel_cmd, str(job_id))

    def _run(self, command: str, *words: str) -> str:
        argv = [*shlex.split(command), *words]
        try:
            done = running.run_with_tee(
                argv,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_DEADLINE_S,
                env=commands.scrubbed(os.environ),
            )
        except FileNotFoundError as error:
            raise ports.ContactLost(f"{argv[0]}: not found") from error
        except subprocess.TimeoutExpired as error:
            raise _NoAnswer(f"{argv[0]}: no answer within {_DEADLINE_S:.0f} s") from error
        except OSError as error:
            raise ports.ContactLost(f"{argv[0]}: {error}") from error
        if done.returncode != 0:
            raise ports.ContactLost(f"{argv[0]}: {(done.stderr or done.stdout).strip()[:400]}")
        return done.stdout


def _of_controller(absent: Sequence[str]) -> dict[str, str]:
    asking = commands.Commands(local.Local(), os.environ)
    found: dict[str, str] = {}
    for job_id in absent:
        record = asking.show(job_id).get(job_id)
        if record is not None:
            found[job_id] = record.word
    return found
