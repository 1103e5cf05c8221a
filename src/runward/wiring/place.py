"""Everything that a run's watch needs to know of the place where its job lives."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runward import ports
from runward.app import pulse
from runward.core import context, effects, errors, failures, job, mode_policies, observations, options, resume

if TYPE_CHECKING:
    from runward.app import attended  # only a watch needs what it loads

SpecMaker = Callable[
    [options.RunOptions, Callable[[effects.Launch], resume.ResumePlan], int | None],
    Callable[[effects.Launch], job.JobSpec],
]


def _cannot_start(
    asked: options.RunOptions, plan: Callable[[effects.Launch], resume.ResumePlan], stdin_fd: int | None
) -> Callable[[effects.Launch], job.JobSpec]:
    del plan, stdin_fd

    def make(launch: effects.Launch) -> job.JobSpec:
        raise errors.UsageError(f"{asked.name} is only observed: attempt {launch.attempt} cannot be started")

    return make


@dataclass(frozen=True)
class Place:
    """A backend with what is particular to it; the defaults are those of a place that tells nothing more."""

    backend: ports.Backend
    describe: Callable[[str], observations.Launched]
    wait_fds: Callable[[str], Sequence[int]] | None = None
    """Descriptors that become readable when a look is worth it; None: there are none."""
    stirred: Callable[[str], bool] | None = None
    """Whether something of the job changed since it was polled, beside `wait_fds`, which only end a sleep; None: it
    cannot tell."""
    prepare: Callable[[str], None] = lambda _handle: None
    """Begins what the next look will need, so that the looks of many runs do not wait one after another."""
    looks: Callable[[str], pulse.Looks] = lambda _handle: pulse.Looks(lambda: None)
    suspended: Callable[[str], bool] = lambda _handle: False
    witnesses: Callable[[str, job.JobStatus], tuple[job.Witness, ...]] = lambda _handle, _status: ()
    texts: Callable[[str, job.JobStatus], tuple[context.Text, ...]] = lambda _handle, _status: ()
    pids: Callable[[str], Sequence[int]] | None = None
    """Processes of an attempt on this machine; None where they are elsewhere."""
    spec_maker: SpecMaker = _cannot_start
    circumstance: "attended.Circumstances" = lambda _handle, _status, _found: mode_policies.Circumstance()
    facts: Callable[[failures.Diagnosis], Mapping[str, Any]] = lambda _found: {}
    """What the policy asks beside the verdict, as far as this kind of place changes it."""
    directory: "Callable[[], attended.CheckpointDirectory | None] | None" = None
    """The checkpoint directory, where it is not looked at on this machine."""
    tick_s: float | None = None
    """How often it is looked at; None: as local processes are."""
    cluster: str | None = None
    """The cluster whose nodes its jobs use, where it is not this machine's own."""
