"""A watch over a fake world, made anew as often as a watcher is killed."""

from dataclasses import dataclass, field

from fakes.backend import FakeBackend
from fakes.clock import FakeClock
from runward import ports
from runward.app import driving, faults, jobs, performing, watching
from runward.config import policy_files
from runward.core import binding, checkpoints, events, failures, job, observations, resume, run
from runward.store import sqlite

_ARG = resume.How("--load {path}", None)


class Killed(BaseException):
    """The watcher died here."""


@dataclass
class World:
    directory: str
    backend: FakeBackend
    clock: FakeClock = field(default_factory=FakeClock)
    policy: str = "default"
    steps: list[int] = field(default_factory=lambda: [25])
    max_runtime_s: float | None = None
    listing: checkpoints.Listing = checkpoints.Listing("")

    def __post_init__(self):
        store = sqlite.SqliteStore(self.directory)
        self.row = store.create("demo", self.clock.wall())
        created = events.RunCreated(at=self.clock.wall(), run="demo", backend="fake", policy=self.policy)
        store.append(self.row.id, [created], 0)
        store.close()

    def watcher(self):
        store = sqlite.SqliteStore(self.directory)
        holder = ports.Holder(1, "host", "boot", 1.0, self.clock.wall(), 0)
        lease = store.take_lease(self.row.id, holder)
        bound = binding.Bound(
            policy_files.choose(self.policy), max_runtime_s=self.max_runtime_s, how=_ARG, argv=("train",)
        )
        driver = driving.Driver(self.row, store, lease, bound, self.clock)

        def describe(handle):
            return observations.Launched(handle, handle)

        observer = jobs.Jobs(self.backend, self, describe, lambda _handle: (), self.clock)
        watch = watching.RunWatch(driver, (observer,), 1.0, store.close)
        hands = performing.Hands(
            self.backend,
            lambda launch: job.JobSpec(("train", str(launch.resume_path)), "/"),
            lambda: driver.state.live.handle if driver.state.live else None,
            describe,
            lambda _what: (True, "there"),
            lambda _effect: (),
        )
        driver.use(performing.Performer(hands), watch.heard)
        return watch

    def gone(self, state, status):
        """How every attempt is judged here: by its exit alone."""
        code, signum = status.exit.code, status.exit.signum
        cause = (
            failures.Cause.NONE
            if code == 0
            else failures.Cause.KILLED
            if signum
            else failures.Cause.EXCEPTION
        )
        verdict = failures.Verdict(
            cause, None, failures.Action.RESTART, failures.Certainty.LIKELY, "as scripted", root=str(cause)
        )
        last = self.steps[min(len(state.attempts), len(self.steps)) - 1]
        return observations.Gone(
            status.exit, failures.Diagnosis(verdict), self.listing, first_step=1, last_step=last
        )

    def again(self, state):
        last = state.attempts[-1]
        verdict = run.verdict_of(last)
        return observations.Gone(last.exit, failures.Diagnosis(verdict), self.listing)

    def run(self, watch=None, *, ticks=400):
        """Tick until the run is over; the clock moves a second a tick."""
        watch = watch or self.watcher()
        for _ in range(ticks):
            watch.tick()
            if watch.done:
                break
            self.clock.advance(1.0)
        watch.close()
        return watch.state

    def run_killed_at(self, point: int) -> tuple[object, int]:
        """Run with the watcher killed at its `point`-th fault point, then again to the end by a new one."""
        seen = 0

        def hook(_name):
            nonlocal seen
            seen += 1
            if seen == point:
                raise Killed

        faults.set_hook(hook)
        try:
            state = self.run()
        except Killed:
            state = None
        finally:
            faults.set_hook(None)
        if state is None:
            self.clock.advance(6.0)
            state = self.run()
        return state, seen
