"""The watcher as a Slurm job of its own, without a daemon: it queues its successor and ends with the last run.

The successor waits for the end of this job, whatever that end is: a time limit, a dead node, `kill -9`.
"""

import json
import os
import shlex
import sys
import time
from collections.abc import Sequence

from runward import ports
from runward.backends.slurm import clusters, commands, words
from runward.core import errors
from runward.store import settled_files
from runward.wiring import places, saying, slurm, watching_many

NAME = "runward-watch"
_SCRIPT = "watch-job.sh"
_ARGS = "watch-job.json"
_STARTS = "watch-job.starts.json"
_AGAIN_S = 60.0
_BRIEF_S = 180.0
"""Three jobs that begin within so long end the chain: something is wrong with the job itself."""


def start(given: Sequence[str], *, keep: bool) -> int:
    """Submit the first job of the chain. Raises UsageError where one is there already, Unreachable."""
    name = clusters.asked(given, os.environ, ())
    asking = slurm.ask(name)
    going = _going(asking)
    if going:
        raise errors.UsageError(
            errors.Problem(
                f"job {going[0]} watches already",
                "--as-job",
                next_step=f"End the chain by: {_ender(name)}",
            )
        )
    folder = places.state_dir()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    settled_files.replace(os.path.join(folder, _SCRIPT), _script(folder, keep=keep))
    settled_files.replace(os.path.join(folder, _ARGS), json.dumps(list(given)))
    settled_files.replace(os.path.join(folder, _STARTS), "[]")
    job_id = asking.submit([*given, os.path.join(folder, _SCRIPT)], folder, os.environ)
    saying.say(
        f"job {job_id} watches all runs and chains itself until none is left; "
        f"its words: {folder}/watch-job.log; end it by: {_ender(name)}"
    )
    return 0


def _ender(cluster: str | None) -> str:
    return f"scancel{f' -M {cluster}' if cluster else ''} --name={NAME}"


def _script(folder: str, *, keep: bool) -> str:
    words_ = [sys.executable, "-m", "runward", "watch", "--chained", *(["--keep"] if keep else [])]
    return (
        "#!/bin/sh\n"
        f"#SBATCH --job-name={NAME}\n"
        f"#SBATCH --output={folder}/watch-job.log\n"
        "#SBATCH --open-mode=append\n"
        "#SBATCH --ntasks=1\n"
        "#SBATCH --requeue\n"
        "#SBATCH --signal=B:TERM@60\n"
        f"RUNWARD_STATE_DIR={shlex.quote(folder)}\n"
        "export RUNWARD_STATE_DIR\n"
        f"exec {shlex.join(words_)}\n"
    )


def chained(*, keep: bool) -> int:
    """Be one job of the chain: watch, with a successor in the queue, until no run is left. Raises UsageError."""
    own = os.environ.get("SLURM_JOB_ID")
    if own is None:
        raise errors.UsageError(
            errors.Problem("not within a Slurm job", "--chained", next_step="Use runward watch --as-job.")
        )
    link = _Link(own)
    link.check()
    left = watching_many.here(keep=keep, meanwhile=link.ensure)
    if not left:
        link.cut()
    return 0


class _Link:
    """The next job of the chain."""

    def __init__(self, own: str) -> None:
        self._own = own
        self._asking = slurm.ask()
        self._folder = places.state_dir()
        self._next: str | None = None
        self._try_at = 0.0

    def check(self) -> None:
        """Note this start. Raises UsageError where the jobs before ended as soon as they began."""
        path = os.path.join(self._folder, _STARTS)
        starts = [float(at) for at in json.loads(_read(path) or "[]")][-2:]
        now = time.time()
        settled_files.replace(path, json.dumps([*starts, now]))
        if len(starts) == 2 and now - starts[0] < _BRIEF_S:
            raise errors.UsageError(
                errors.Problem("three watch jobs began within three minutes: the chain ends", NAME)
            )

    def ensure(self) -> None:
        """Queue the successor, once; where Slurm does not answer, again later."""
        if self._next is not None or time.monotonic() < self._try_at:
            return
        self._try_at = time.monotonic() + _AGAIN_S
        try:
            others = [one for one in _going(self._asking) if one != self._own]
            self._next = others[0] if others else self._submit()
        except ports.ContactLost as error:
            saying.say(f"no successor yet: {error}")

    def _submit(self) -> str:
        given = [str(one) for one in json.loads(_read(os.path.join(self._folder, _ARGS)) or "[]")]
        argv = [*given, f"--dependency=afterany:{self._own}", os.path.join(self._folder, _SCRIPT)]
        environ = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_")}
        kept = {key: os.environ[key] for key in ("SLURM_CONF",) if key in os.environ}
        return self._asking.submit(argv, self._folder, {**environ, **kept})

    def cut(self) -> None:
        """No run is left: nothing has to go on."""
        for one in _going(self._asking):
            if one != self._own:
                self._asking.cancel(one)


def _going(asking: commands.Commands) -> list[str]:
    """Watch jobs of this user that wait or run."""
    found = asking.queue(())
    return [one.job_id for one in found.values() if one.name == NAME and not words.state_of(one.word).final]


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(1 << 16)
    except OSError:
        return ""
