"""What a run's monitoring configuration asks for: signals, the start condition, the signs of its end, silence."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from runward import ports
from runward.app import attended, gating, signalling, silence_watch, watching
from runward.core import decisions, failures, job, log_signals, mode_policies, options, run
from runward.runners import local
from runward.scan import tailer
from runward.wiring import places
from runward.wiring.place import Place


def chosen(cwd: str, name: str | None) -> str | None:
    """A preset's name, or the path of a file; checked now. Raises UsageError with all its mistakes."""
    if name is None:
        return None
    from runward.config import autoexp_files

    path = os.path.join(cwd, name)
    chosen = path if os.path.isfile(path) else name
    autoexp_files.monitoring(chosen)
    return chosen


@dataclass
class Watched:
    """The observers of one run's configuration; none without one."""

    heard: signalling.Signalling | None = None
    gate: gating.StartGate | None = None
    silence: silence_watch.SilenceWatch | None = None
    moved_at: Callable[[], float | None] = field(default=lambda: None)
    """When any witness saw progress; set once it is known who does."""

    @property
    def observers(self) -> list[watching.Observer]:
        """In the order in which they must look."""
        return [one for one in (self.gate, self.heard, self.silence) if one is not None]

    def state(self, waits: bool) -> str:
        """The live job in the words of `state_whitelist`."""
        stalled = self.silence is not None and self.silence.stalled
        return "pending" if waits else "stall" if stalled else "running"

    def held(self, state: run.RunState, others: bool) -> bool:
        """Whether the next attempt must wait."""
        return others or (self.gate is not None and self.gate.holds(state))

    def circumstance(self, plain: attended.Circumstances) -> attended.Circumstances:
        """What is told about an end: by the place, and by the signals of its logs."""
        heard = self.heard
        if heard is None:
            return plain

        def tell(handle: str, status: job.JobStatus, found: failures.Diagnosis) -> mode_policies.Circumstance:
            said = plain(handle, status, found)
            known = said.reports or mode_policies.reports_of(found.verdict)
            reports = signalling.together(heard.reports(handle), known)
            return replace(said, reports=reports, finished=heard.finished(handle))

        return tell


def watched(
    asked: options.RunOptions, place: Place, clock: ports.Clock, policy: decisions.AnyPolicy
) -> Watched:
    """The observers that the run's configuration asks for."""
    if asked.monitoring is None:
        return Watched()
    from runward.config import autoexp_files

    monitor = autoexp_files.monitoring(asked.monitoring)
    folder = os.path.join(places.run_dir(asked.name), "actions")
    runner = local.Local()
    found = Watched()
    heard = found.heard = signalling.Signalling(
        signalling.Means(
            monitor=monitor,
            streams=place.backend.logs,
            runner=runner,
            clock=clock,
            folder=folder,
            cwd=asked.cwd,
            outputs=_outputs(asked, monitor),
            state=lambda handle: found.state(place.suspended(handle)),
        )
    )
    if monitor.start_condition_cmd is not None:
        every = monitor.start_condition_interval_s or monitor.check_interval_s
        found.gate = gating.StartGate(
            gating.Means(monitor.start_condition_cmd, every, runner, clock, folder, asked.cwd)
        )

    def moved_at() -> float | None:
        return found.moved_at()  # who sees progress is known later

    found.silence = silence_watch.SilenceWatch(
        silence_watch.Means(
            monitor=monitor,
            heard=heard,
            runner=runner,
            clock=clock,
            cwd=asked.cwd,
            queued=place.suspended,
            moved_at=moved_at,
            ends=_ends(policy),
        )
    )
    return found


def _ends(policy: decisions.AnyPolicy) -> bool:
    """Silence ends an attempt where its own policy for stalls would restart it."""
    if not isinstance(policy, mode_policies.ModePolicies):
        return False
    chosen = policy.by_mode.get(mode_policies.Mode.STALL)
    return chosen is not None and not isinstance(chosen, mode_policies.Never)


def _outputs(
    asked: options.RunOptions, monitor: log_signals.Monitor
) -> Callable[[str], Sequence[ports.LogStream]]:
    """Further files, relative to the run's directory; `{job}` and `{output_dir}` are filled in."""

    def streams(handle: str) -> Sequence[ports.LogStream]:
        fields = {"job": handle.removeprefix("given:").partition("@")[0], "output_dir": asked.cwd}
        named = [log_signals.render(path, fields) for path in monitor.output_paths]
        return [tailer.FileLog(os.path.join(asked.cwd, path)) for path in named]

    return streams
