"""Puts one run's watch together: driver, observers, performer."""

import contextlib
import functools
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runward import ports
from runward.app import (
    attended,
    attending,
    dependencies,
    diagnose,
    driving,
    following,
    jobs,
    performing,
    quarantine,
    watching,
)
from runward.config import policy_files
from runward.core import (
    binding,
    checkpoints,
    effects,
    errors,
    events,
    flight,
    observations,
    options,
    resume,
    rules,
    run,
    samples,
    stall,
)
from runward.probes import checkpoints as checkpoint_probe
from runward.store import sqlite
from runward.ui import view
from runward.wiring import (
    clock,
    kept_runs,
    leases,
    listeners,
    memory,
    monitoring,
    places,
    processes,
    run_gpus,
)
from runward.wiring import diagnose as reading
from runward.wiring.place import Place


@dataclass
class Shared:
    """What all watches of this process use together."""

    store: sqlite.SqliteStore
    clock: ports.Clock
    engine: diagnose.Engine | None = None
    stdin_fd: int | None = None
    listeners: Sequence[driving.Listener] = ()
    places: dict[str, Place] = field(default_factory=dict)
    own: diagnose.Engine | None = None
    """The set of the one run with a pattern of its own that a foreground `run` watches."""

    newest: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    """Newest samples of runs that are not written yet: those of a round go into one transaction."""

    def write_newest(self) -> None:
        """Write the newest samples."""
        rows, self.newest = self.newest, {}
        if rows:
            with contextlib.suppress(
                ports.StoreUnavailable
            ):  # a convenience; the journal says this by itself
                self.store.put_progress(rows)

    def place(self, asked: options.RunOptions) -> Place:
        """Where the run's job lives; runs of local processes share one backend."""
        key = asked.backend if asked.backend == "process" else asked.name
        if key not in self.places:
            self.places[key] = kept_runs.place_for(asked)
        return self.places[key]

    def tick_s(self, asked: options.RunOptions) -> float:
        """Seconds between two looks at the run's place."""
        own = self.place(asked).tick_s
        return own if own is not None else asked.settings.ticks.local_s

    def reading(self, asked: options.RunOptions) -> diagnose.Engine:
        """Rules and scanner; one set for all runs, but for runs with a pattern of their own."""
        if asked.progress_regex is not None:
            return self.own or reading_for(asked)
        if self.engine is None:
            self.engine = reading_for(asked)
        return self.engine


def reading_for(asked: options.RunOptions) -> diagnose.Engine:
    """Rules and scanner for a run. Raises UsageError for a pattern that cannot be used."""
    made = reading.engine()
    if asked.progress_regex is not None:
        made = _with_pattern(made.ruleset, asked.progress_regex)
    memory.trim()
    return made


def _with_pattern(shipped: rules.RuleSet, pattern: str) -> diagnose.Engine:
    """Rules and scanner with the user's own progress pattern. Raises UsageError."""
    raw = {"name": samples.USER_RULE, "pattern": samples.user_pattern(pattern), "role": "progress"}
    own, problems = rules.parse_family({"family": "user", "rules": [raw]}, "--progress-regex")
    if problems:
        raise errors.UsageError(*problems)
    return reading.engine(ruleset=replace(shipped, rules=(*own, *shipped.rules)))


def shared(store: sqlite.SqliteStore, engine: diagnose.Engine | None = None) -> Shared:
    """For the watches of this process."""
    return Shared(store, clock.SystemClock(), engine, own=engine)


def bound(asked: options.RunOptions) -> binding.Bound:
    """What is fixed for the run."""
    settings = asked.settings.run
    return binding.Bound(
        policy=policy_files.choose_any(asked.policy_file or settings.policy),
        signum=processes.signum_of(settings.stop_signal),
        grace_s=settings.grace_s,
        max_runtime_s=settings.max_runtime_s,
        start_within_s=asked.settings.watch.start_within_s,
        end_on_nonfinite=asked.end_on_nonfinite,
        argv=asked.argv,
        how=resume.How.of(asked.resume_arg, asked.resume_by),
        rename=asked.settings.checkpoints.quarantine == "rename",
    )


def build(
    row: ports.RunRow, asked: options.RunOptions, lease: leases.Lease, parts: Shared
) -> watching.RunWatch:
    """The watch of a run whose lease is ours."""
    driver = driving.Driver(row, parts.store, lease.number, bound(asked), parts.clock)
    place = parts.place(asked)
    seen = monitoring.watched(asked, place, parts.clock, driver.bound.policy)
    means = _means(row, asked, parts)
    attendant = attending.Attending(replace(means, circumstance=seen.circumstance(means.circumstance)))
    seen.moved_at = lambda: _moved_at(attendant)
    observer = jobs.Jobs(place.backend, attendant, place.describe, place.wait_fds, parts.clock)
    driver.summarise = lambda state: view.row(state, view.Look(parts.clock.wall(), {}, None))
    observers: list[watching.Observer] = [*seen.observers, attendant, observer]
    looker = run_gpus.watch_of(asked, attendant, place.pids, lambda live: means.dumps(live, ()))
    if looker is not None:
        observers.append(looker)
        attendant.gpu_word = lambda: looker.gpu_word
    driver.held = lambda: seen.held(driver.state, looker is not None and looker.held())
    if asked.settings.notify.to:
        history = [event for _, event in parts.store.history(row.id)]
        observers.append(listeners.Notices(asked, parts.clock, history))
    watch = watching.RunWatch(driver, observers, parts.tick_s(asked), lease.release, attendant.listing)
    if place.stirred is not None:
        watch.stirred = functools.partial(_stirred, driver, place.stirred)
    watch.prepare = lambda: _prepare(driver, place)
    performer = performing.Performer(_hands(asked, driver, parts))
    driver.use(
        performer,
        watch.heard,
        *parts.listeners,
        listeners.Page(asked, parts.clock, lease.holder),
        listeners.Claim(asked, means.directory if place.directory is None else None),
        run_gpus.Marks(asked, place.cluster),
    )
    started = events.WatcherStarted(
        at=parts.clock.wall(), pid=os.getpid(), host=socket.gethostname(), lease=lease.number
    )
    driver.journal(started)
    return watch


def _moved_at(attendant: attending.Attending) -> float | None:
    """When a witness of progress last moved in the live attempt."""
    found = attendant.silence()
    return found.moved_at if found is not None and found.progressed else None


def _prepare(driver: driving.Driver, place: Place) -> None:
    live = driver.state.live
    if live is not None and live.handle is not None:
        place.prepare(live.handle)


def _stirred(driver: driving.Driver, told: Callable[[str], bool]) -> bool:
    live = driver.state.live
    return live is not None and live.handle is not None and told(live.handle)


def _hands(asked: options.RunOptions, driver: driving.Driver, parts: Shared) -> performing.Hands:
    place = parts.place(asked)
    return performing.Hands(
        backend=place.backend,
        spec_for=place.spec_maker(asked, _planner(asked), parts.stdin_fd),
        handle_of=lambda: driver.state.live.handle if driver.state.live is not None else None,
        describe=place.describe,
        dependency=dependencies.ask,
        set_aside=_set_aside(asked, here=place.directory is None),
    )


def _planner(asked: options.RunOptions) -> Callable[[effects.Launch], resume.ResumePlan]:
    """The command of an attempt: what was decided about resuming, told in the way that the run asks for."""
    how = resume.How.of(asked.resume_arg, asked.resume_by)

    def plan(launch: effects.Launch) -> resume.ResumePlan:
        chosen = None
        if launch.resume_path is not None:
            chosen = checkpoints.Checkpoint(
                launch.resume_path, launch.resume_step, 0.0, checkpoints.State.COMPLETE
            )
        listing = checkpoints.Listing(asked.checkpoints or "", (chosen,) if chosen is not None else ())
        return resume.plan(asked.argv, how, chosen, listing)

    return plan


def _set_aside(
    asked: options.RunOptions, *, here: bool
) -> Callable[[effects.SetAside], Sequence[observations.Observation]]:
    def carry_out(effect: effects.SetAside) -> Sequence[observations.Observation]:
        directory = asked.checkpoints or ""
        if not here:
            return [observations.Note("quarantine", f"{directory} is not here: nothing is written in it")]
        try:
            outcomes = quarantine.perform(directory, effect.repairs, clock.SystemClock().wall())
        except errors.Unreachable as error:
            return [observations.Note("quarantine", str(error))]
        return [observations.Note("quarantine", one.done) for one in outcomes]

    return carry_out


def _means(row: ports.RunRow, asked: options.RunOptions, parts: Shared) -> attended.Means:
    engine = parts.reading(asked)
    place = parts.place(asked)

    def follower(handle: str, standing: following.Standing) -> following.Follower:
        return following.Follower(engine, lambda: place.backend.logs(handle), parts.clock, standing)

    def save(body: Mapping[str, Any], at_once: bool) -> None:
        parts.newest[row.id] = body
        if at_once:
            parts.write_newest()

    def dumps(live: run.Attempt, named: Sequence[str]) -> flight.FlightSummary | None:
        streams = place.backend.logs(live.handle or "")
        return kept_runs.dumps_of(asked, place, live, streams)(named)

    return attended.Means(
        options=asked,
        clock=parts.clock,
        follower=follower,
        directory=place.directory() if place.directory is not None else _directory(asked),
        looks=place.looks,
        suspended=place.suspended,
        witnesses=place.witnesses,
        texts=place.texts,
        heartbeat=lambda: _first_line(asked.heartbeat),
        facts=lambda found: {**dependencies.facts(found, asked), **place.facts(found)},
        circumstance=place.circumstance,
        dumps=dumps,
        save_progress=save,
        stall=_stall_settings(asked, parts.tick_s(asked)),
    )


def _stall_settings(asked: options.RunOptions, tick_s: float) -> stall.Settings:
    s = asked.settings.stall
    return stall.Settings(
        budgets_s={
            **stall.Settings().budgets_s,
            "startup": s.startup_s,
            "first_step": s.first_step_s,
            "step": s.step_s,
            "checkpoint": s.checkpoint_s,
            "evaluation": s.evaluation_s,
        },
        factor=s.factor,
        floor_s=s.floor_s,
        ceiling_s=s.ceiling_s,
        end_factor=s.end_factor,
        life_window_s=s.no_life_s,
        stall_after_s=asked.settings.run.stall_after_s,
        tick_s=tick_s,
    )


def _directory(asked: options.RunOptions) -> checkpoint_probe.Watcher | None:
    if asked.checkpoints is None:
        return None
    wanted = asked.settings.checkpoints
    settings = checkpoint_probe.Settings(
        rate=wanted.verify_rate_bytes,
        hash_checkpoints=wanted.hash,
        settle_s=wanted.settle_s,
        silent_s=wanted.silent_after_s,
    )
    return checkpoint_probe.Watcher(asked.checkpoints, places.run_dir(asked.name), settings)


def _first_line(path: str | None) -> str | None:
    """The heartbeat's one line; None when there is no such file now."""
    if path is None:
        return None
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline(4096).strip() or None
    except OSError:
        return None
