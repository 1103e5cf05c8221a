"""Local processes as runs: how an attempt is started, described, and looked at."""

import json
import os
from collections.abc import Callable, Mapping, Sequence

from runward.app import pulse
from runward.backends.process import attempts, backend, launching
from runward.core import effects, job, observations, options, resume
from runward.keeper import layout
from runward.store import folders
from runward.wiring import kept_runs, kernel, local_processes, places, stack_looks
from runward.wiring.place import Place

_NUMBERS = ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2")


def open_backend(*, acts: bool = True) -> backend.Process:
    """The backend over the state directory."""
    return local_processes.open_backend(os.path.join(places.state_dir(), "runs"), acts=acts)


def signum_of(name: str) -> int:
    """The number of a stop signal that the settings name."""
    import signal

    return int(signal.Signals[f"SIG{name}"])


def keep_command(asked: options.RunOptions, env: Mapping[str, str], *, named: Sequence[str] = ()) -> None:
    """Write down how every attempt of the run is started."""
    umask = os.umask(0o022)
    os.umask(umask)
    body = {
        "argv": list(asked.argv),
        "cwd": asked.cwd,
        "env": dict(env),
        "named": list(named),
        "umask": umask,
        "limits": launching.current_limits(),
    }
    folders.write(places.run_dir(asked.name), folders.COMMAND, body)


def spec_maker(
    asked: options.RunOptions, plan: Callable[[effects.Launch], resume.ResumePlan], stdin_fd: int | None
) -> Callable[[effects.Launch], job.JobSpec]:
    """Makes the specification of an attempt from that of attempt 1 and what it resumes from."""

    def make(launch: effects.Launch) -> job.JobSpec:
        _clear_void(places.attempt_dir(asked.name, launch.attempt))
        kept = kept_runs.command_of(asked.name)
        planned = plan(launch)
        env = {**kept.get("env", {}), **planned.env}
        return job.JobSpec(
            argv=planned.argv,
            cwd=str(kept.get("cwd", asked.cwd)),
            env=env,
            umask=int(kept.get("umask", 0o022)),
            options=_options(asked, launch, kept, stdin_fd if launch.attempt == 1 else None),
        )

    return make


def _clear_void(folder: str) -> None:
    """Move the folder of an attempt that was never started aside: a keeper refuses it for ever."""
    if os.path.exists(os.path.join(folder, layout.VOID)):
        number = sum(
            name.startswith(os.path.basename(folder) + ".void")
            for name in os.listdir(os.path.dirname(folder))
        )
        os.rename(folder, f"{folder}.void-{number + 1}")


def _options(
    asked: options.RunOptions, launch: effects.Launch, kept: Mapping[str, object], stdin_fd: int | None
) -> dict[str, str]:
    logs, run = asked.settings.logs, asked.settings.run
    log: dict[str, object] = {
        "split": asked.split,
        "keep": logs.keep_bytes,
        "head": logs.first_bytes,
        "piece": logs.piece_bytes,
        "low": logs.reserve_bytes,
        "reserve": logs.reserve_file_bytes,
    }
    if asked.log_dir is not None:
        log["dir"] = os.path.join(asked.log_dir, f"attempt_{launch.attempt}")
    found = {
        launching.ATTEMPT_DIR: places.attempt_dir(asked.name, launch.attempt),
        launching.LOG: json.dumps(log),
        launching.LIMITS: json.dumps(kept.get("limits", {})),
        launching.GRACE_S: str(run.grace_s),
        launching.STOP_SIGNAL: str(signum_of(run.stop_signal)),
        launching.TERM_WAIT_S: str(run.rest_grace_s),
        launching.UNKILLABLE_AFTER_S: str(run.unkillable_after_s),
    }
    if asked.tty:
        found[launching.TTY] = "1"
    if stdin_fd is not None:
        found[launching.STDIN_FD] = str(stdin_fd)
    return found


def describe(handle: str) -> observations.Launched:
    """The attempt of a folder in the words of the journal."""
    found = attempts.look(handle)
    pid = found.root.pid if found.root is not None else None
    return observations.Launched(str(pid) if pid is not None else "-", handle, found.keeper or None)


def place_of(processes: backend.Process) -> Place:
    """Local processes as a place for runs."""

    def looks(handle: str) -> pulse.Looks:
        kernel.prime()  # an attempt begins: reading the kernel's whole log is no work for the moment of a death
        return _looks(handle, processes)

    def suspended(handle: str) -> bool:
        status = processes.poll([handle])[handle]
        return isinstance(status, job.JobStatus) and status.state is job.JobState.SUSPENDED

    return Place(
        backend=processes,
        describe=describe,
        wait_fds=processes.wait_fds,
        looks=looks,
        pids=processes.processes_left,
        suspended=suspended,
        witnesses=kernel.witnesses,
        texts=kernel.around,
        spec_maker=spec_maker,
    )


def place(asked: options.RunOptions, acts: bool = True) -> Place:
    """The place of runs that `runward run` starts."""
    del asked
    return place_of(open_backend(acts=acts))


def _looks(handle: str, among: backend.Process) -> pulse.Looks:
    """Signs of life of the attempt in a folder; its stacks are left there, for whoever asks why it was ended."""
    stacks = stack_looks.Looks(os.path.join(handle, stack_looks.FILE))
    return pulse.Looks(
        lambda: cpu_seconds(among.processes_left(handle)),
        stacks=lambda: stacks.fingerprint(among.processes_left(handle)),
        moved=lambda: stack_looks.moved(among.processes_left(handle)),
        why_no_stacks=stacks.why,
    )


def cpu_seconds(pids: Sequence[int]) -> float | None:
    """Processor seconds that these processes have used; None when there are none."""
    ticks = os.sysconf("SC_CLK_TCK")
    return sum(_cpu_ticks(pid) for pid in pids) / ticks if pids else None


def _cpu_ticks(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            parts = file.read().rpartition(")")[2].split()
        return int(parts[11]) + int(parts[12])
    except (OSError, ValueError, IndexError):
        return 0


def alive_owner(folder: str) -> bool:
    """Whether anything of the attempt in `folder` lives."""
    return open_backend(acts=False).alive(folder)
