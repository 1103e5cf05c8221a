"""Attends the live attempt: its logs, checkpoints, heartbeat and stalls; and, when it is over, puts together why."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from runward import ports
from runward.app import diagnose, following, jobs, pulse
from runward.core import (
    checkpoints,
    context,
    events,
    failures,
    flight,
    job,
    losses,
    mode_policies,
    observations,
    options,
    progress,
    run,
    samples,
    stall,
)


class CheckpointDirectory(Protocol):
    """A run's checkpoint directory, looked at in the background."""

    def poll(
        self, now: float, alive: bool, nonfinite_since: float | None
    ) -> tuple[checkpoints.Checkpoint, ...]:
        """The newest known verdicts."""
        ...

    def listing(self) -> checkpoints.Listing:
        """The same with pointers."""
        ...

    def growth(self) -> int:
        """Bytes gained since the last call."""
        ...

    def verify_for_restart(
        self, budget_s: float, nonfinite_since: float | None = None
    ) -> tuple[checkpoints.Checkpoint, ...]:
        """A fresh look, with what is not yet verified read."""
        ...

    def mark(self, checkpoint: checkpoints.Checkpoint, why: str) -> None:
        """Set it aside for this run, in its present state only."""
        ...

    def close(self) -> None:
        """End its children."""
        ...


Circumstances = Callable[[str, job.JobStatus, failures.Diagnosis], mode_policies.Circumstance]


@dataclass(frozen=True)
class Means:
    """What attending works with."""

    options: options.RunOptions
    clock: ports.Clock
    follower: Callable[[str, following.Standing], following.Follower]
    """Makes a follower of the logs of a handle."""
    directory: CheckpointDirectory | None
    looks: Callable[[str], pulse.Looks]
    suspended: Callable[[str], bool]
    witnesses: Callable[[str, job.JobStatus], tuple[job.Witness, ...]]
    """Witnesses of an end beside the backend's own."""
    texts: Callable[[str, job.JobStatus], tuple[context.Text, ...]]
    """Words of other witnesses: the kernel's lines around the end."""
    heartbeat: Callable[[], str | None]
    facts: Callable[[failures.Diagnosis], Mapping[str, Any]]
    save_progress: Callable[[Mapping[str, Any]], None]
    stall: stall.Settings
    circumstance: Circumstances = lambda _handle, _status, _found: mode_policies.Circumstance()
    dumps: Callable[[run.Attempt, Sequence[str]], flight.FlightSummary | None] = lambda _attempt, _named: None
    """What the flight recorders of an attempt say: see `diagnose.Dumps`."""


@dataclass(slots=True)
class _Hand:
    """The attempt that is attended now."""

    n: int
    handle: str
    follower: following.Follower
    told: following.Told
    pulse: pulse.Pulse
    beat: str | None = None
    listing: checkpoints.Listing | None = None
    saved_at: float = 0.0
    saved_step: int | None = None
    view: stall.StallView | None = None


@dataclass(frozen=True, slots=True)
class Silence:
    """How long the live attempt has not moved, and what its run has shown; monotonic seconds."""

    moved_at: float
    phase: str
    stepped: bool
    progressed: bool
    """Whether any witness saw progress in this attempt."""
    longest_step_s: float | None
    """The longest silence between steps; None until enough were seen."""
    longest_s: float
    """The longest silence of any phase that ended by itself."""
    seen_evaluation: bool
    seen_checkpoint: bool


class Attending:
    """The observer of the live attempt; see `watching.Observer`."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._hand: _Hand | None = None
        self._before: stall.Watch | None = None
        self.gpu_word: Callable[[], str] = lambda: ""
        """What the run's GPUs look like, where they are looked at."""
        self.problem: str | None = None
        """What cannot be seen now, in words."""

    # -- while it lives --------------------------------------------------------------------------------------

    def look(self, state: run.RunState) -> Sequence[observations.Observation]:
        """See `watching.Observer.look`."""
        live = state.live
        if live is None or live.started_at is None or live.handle is None:
            return ()
        hand = self._take_up(state, live, live.handle)
        try:
            hand.follower.advance()
        except ports.ContactLost as error:
            return (observations.Unseen(f"log: {error}"),)
        seen: list[observations.Observation] = []
        grew = self._checkpoints(live, hand, seen)
        self._heartbeat(hand)
        seen.extend(hand.follower.news(live, hand.told))
        seen.extend(self._stall(hand, grew))
        self._save(hand, live)
        return seen

    def _take_up(self, state: run.RunState, live: run.Attempt, handle: str) -> _Hand:
        """The hand on this attempt; a new one for a new attempt."""
        if self._hand is not None and self._hand.n == live.n:
            return self._hand
        now = self._means.clock.mono()
        standing = following.Standing()
        before = self._before or _taught(state)
        standing.silence = stall.begin(now, before)
        standing.tracker = progress.Tracker(
            seen_before=before.observable if before is not None else False,
            resumed_step=live.resume_step,
            loss=losses.Losses(in_a_row=self._means.options.settings.numerics.reports),
        )
        looks = self._means.looks(handle)
        follower = self._means.follower(handle, standing)
        window = self._means.stall.life_window_s
        self._hand = _Hand(live.n, handle, follower, following.Told(), pulse.Pulse(looks, window))
        return self._hand

    def _checkpoints(self, live: run.Attempt, hand: _Hand, seen: list[observations.Observation]) -> int:
        """Poll the directory; returns the bytes by which it grew."""
        directory = self._means.directory
        if directory is None:
            return 0
        now = self._means.clock
        directory.poll(now.wall(), True, _poisoned_since(hand))
        listing, grew = _judged(live, hand, directory.listing()), directory.growth()
        standing = hand.follower.standing
        if grew > 0 and standing.silence is not None:
            standing.silence = stall.moved(standing.silence, "checkpoint", now.mono())
        if listing != hand.listing:
            if listing.blind != (hand.listing is not None and hand.listing.blind):
                text = listing.problem if listing.blind else f"{listing.directory} can be seen again"
                seen.append(observations.Note("checkpoints", text))
            hand.listing = listing
            seen.append(observations.CheckpointsSeen(listing))
            self._count_checkpoint(live, hand, listing)
        return grew

    def _count_checkpoint(self, live: run.Attempt, hand: _Hand, listing: checkpoints.Listing) -> None:
        """A checkpoint written by this attempt is a witness of its step."""
        newest = checkpoints.choose(c for c in listing.checkpoints if c.written_since(live.started_at or 0.0))
        if newest is not None and newest.step is not None:
            hand.follower.take(samples.from_checkpoint(newest.step, newest.at))

    def _heartbeat(self, hand: _Hand) -> None:
        text = self._means.heartbeat()
        if text is None or text == hand.beat:
            return
        hand.beat = text
        sample = samples.from_heartbeat(text)
        if sample is not None:
            hand.follower.take(sample)

    def _stall(self, hand: _Hand, grew: int) -> list[observations.Observation]:
        standing, now = hand.follower.standing, self._means.clock.mono()
        if standing.silence is None:
            return []
        life = hand.pulse.look(standing.silence, self._means.stall, now, grew)
        life = replace(life, gpu=self.gpu_word()) if life is not None else None
        suspended = self._means.suspended(hand.handle)
        standing.silence, view = stall.tick(
            standing.silence, self._means.stall, now, suspended=suspended, life=life
        )
        silent_before = hand.view.silent_for_s if hand.view is not None else 0.0
        hand.view = view
        if view.state is stall.State.UNOBSERVABLE:
            return (
                [observations.Note("progress", view.why or "no step was recognised yet")] if view.rose else []
            )
        if view.fell:
            return [observations.MovesAgain(round(silent_before, 1))]
        return [_stalled(view, standing)] if view.rose or view.end else []

    def _save(self, hand: _Hand, live: run.Attempt) -> None:
        """Leave the newest sample where `status` reads it: at once for a first one, then every 10 s at most."""
        now, standing = self._means.clock.mono(), hand.follower.standing
        every = self._means.options.settings.watch.progress_every_s
        first = hand.saved_step is None and standing.tracker.step is not None
        if not first and now - hand.saved_at < every:
            return
        hand.saved_at, hand.saved_step = now, standing.tracker.step
        self._means.save_progress(_row(hand, live))

    def silence(self) -> Silence | None:
        """How the live attempt stands; None while there is none."""
        watch = self._hand.follower.standing.silence if self._hand is not None else None
        if watch is None:
            return None
        steps = watch.seen.get(stall.Phase.STEP, stall.Seen())
        learned = steps.count >= self._means.stall.learn_steps
        return Silence(
            moved_at=watch.moved_at,
            phase=str(watch.phase),
            stepped=watch.stepped,
            progressed=bool(watch.moves),
            longest_step_s=steps.longest_s if learned else None,
            longest_s=max((one.longest_s for one in watch.seen.values()), default=0.0),
            seen_evaluation=stall.Phase.EVALUATION in watch.seen,
            seen_checkpoint="checkpoint" in watch.moves or stall.Phase.CHECKPOINT in watch.seen,
        )

    # -- when it is over -------------------------------------------------------------------------------------

    def gone(self, state: run.RunState, status: job.JobStatus) -> observations.Gone:
        """See `jobs.Aftermath.gone`."""
        live = state.attempts[-1]
        hand = self._take_up(state, live, live.handle or "")
        jobs.drained(lambda: _read(hand.follower), quiet_s=0.0 if status.exit and status.exit.seen else 0.02)
        hand.follower.finish()
        standing = hand.follower.standing
        found, _ = diagnose.concluded(
            hand.follower.book,
            self._context(live, hand, status),
            lambda named: self._means.dumps(live, named),
        )
        listing = _judged(live, hand, self.listing(_poisoned_since(hand)))
        self._mark_suspects(listing)
        span = found.progress
        self._before = standing.silence
        self._save_end(hand, live)
        tracked = standing.tracker
        return observations.Gone(
            exit=status.exit or job.ExitStatus.unseen(),
            diagnosis=found,
            listing=listing,
            first_step=tracked.first_step if tracked.first_step is not None else span.first_step,
            last_step=tracked.step if tracked.step is not None else span.last_step,
            total=tracked.total if tracked.total is not None else span.total,
            last_step_at=standing.step_at,
            end_mark=standing.end_mark,
            left=status.left,
            proof=status.proof,
            learned=_lesson(standing),
            lost_s=self._lost(live, listing),
            facts=self._means.facts(found),
            circumstance=self._means.circumstance(hand.handle, status, found),
        )

    def _mark_suspects(self, listing: checkpoints.Listing) -> None:
        """Keep the next attempts, which see only files, from loading what was written with a broken loss."""
        directory = self._means.directory
        for one in listing.checkpoints:
            if directory is not None and one.state is checkpoints.State.SUSPECT and one.quarantined is None:
                directory.mark(one, f"{one.state}: {one.reason}")

    def again(self, state: run.RunState) -> observations.Gone:
        """See `jobs.Aftermath.again`."""
        last = state.attempts[-1]
        listing = self.listing(None)
        return observations.Gone(
            exit=last.exit or job.ExitStatus.unseen(),
            diagnosis=failures.Diagnosis(run.verdict_of(last) or _NOTHING_KNOWN),
            listing=listing,
            lost_s=self._lost(last, listing),
        )

    def _context(self, live: run.Attempt, hand: _Hand, status: job.JobStatus) -> context.Context:
        ending = live.ending
        standing = hand.follower.standing
        # a cancel that the scheduler tells of was our own: it says nothing about the cause
        ours = ending is not None and status.state is job.JobState.CANCELLED
        return context.Context(
            exit=status.exit or job.ExitStatus.unseen(),
            running=False,
            state=status.word.upper() if status.state in _SCHEDULER_WORDS and not ours else "",
            witnesses=(*(() if ours else status.witnesses), *self._means.witnesses(hand.handle, status)),
            texts=self._means.texts(hand.handle, status),
            stopped_by_us=_BY_US.get(ending.why, ending.why) if ending is not None else "",
            total_steps=standing.tracker.total,
            node=status.node,
        )

    def listing(self, nonfinite_since: float | None) -> checkpoints.Listing:
        """The checkpoint directory as it is now, verified as far as the budget allows."""
        directory = self._means.directory
        if directory is None:
            return checkpoints.Listing("")
        budget = self._means.options.settings.checkpoints.verify_budget_s
        directory.verify_for_restart(budget, nonfinite_since)
        return directory.listing()

    def _lost(self, live: run.Attempt, listing: checkpoints.Listing) -> float:
        """Seconds of work that a restart repeats: since the newest usable checkpoint, else since the start."""
        newest = checkpoints.choose(listing.checkpoints)
        began = live.started_at or live.planned_at
        since = max(began, newest.at) if newest is not None else began
        return max(0.0, self._means.clock.wall() - since)

    def _save_end(self, hand: _Hand, live: run.Attempt) -> None:
        self._means.save_progress(_row(hand, live))

    # -- bookkeeping -----------------------------------------------------------------------------------------

    def journalled(self, state: run.RunState, new: Sequence[events.Event]) -> None:
        """An ended attempt is let go."""
        del state
        if any(isinstance(event, events.AttemptEnded) for event in new):
            self._hand = None

    def wait_fds(self, state: run.RunState) -> Sequence[int]:
        """Logs are looked at by the clock."""
        del state
        return ()

    def close(self) -> None:
        """End the checkpoint directory's children."""
        if self._means.directory is not None:
            self._means.directory.close()


_NOTHING_KNOWN = failures.Verdict(
    failures.Cause.UNKNOWN, None, failures.Action.HOLD, failures.Certainty.POSSIBLE, "nothing is known"
)
_BY_US = {"stop": "user", "gpu_idle": "idle"}
_SCHEDULER_WORDS = frozenset(
    {
        job.JobState.CANCELLED,
        job.JobState.PREEMPTED,
        job.JobState.TIME_LIMIT,
        job.JobState.NODE_FAILED,
        job.JobState.OUT_OF_MEMORY,
    }
)


def _read(follower: following.Follower) -> int:
    try:
        return follower.advance()
    except ports.ContactLost:
        return 0


def _judged(live: run.Attempt, hand: _Hand, listing: checkpoints.Listing) -> checkpoints.Listing:
    """The listing with what the loss says about it."""
    lost = hand.follower.standing.tracker.loss
    listing = losses.judged(lost, listing)
    since_step = lost.spans[-1].step if lost.nonfinite else None
    return checkpoints.poisoned(listing, since_step, live.started_at or live.planned_at)


def _poisoned_since(hand: _Hand) -> float | None:
    lost = hand.follower.standing.tracker.loss
    return lost.first_nonfinite_at if lost.nonfinite else None


def _stalled(view: stall.StallView, standing: following.Standing) -> observations.Stalled:
    return observations.Stalled(
        phase=str(view.phase),
        silent_s=round(view.silent_for_s, 1),
        budget_s=round(view.budget_s, 1),
        end=view.end,
        last_step=standing.tracker.step,
        votes=tuple(f"{v.witness}: {v.says}" + (f" ({v.detail})" if v.detail else "") for v in view.votes),
        why=view.why if view.end else "",
    )


def _row(hand: _Hand, live: run.Attempt) -> dict[str, Any]:
    """The newest sample as `status` reads it."""
    standing = hand.follower.standing
    tracker = standing.tracker
    notes = []
    if not tracker.observable:
        notes.append("progress not observable: no step line was recognised yet")
    if standing.tracker.loss.nonfinite:
        notes.append("the loss is not finite")
    return {
        "attempt": live.n,
        "step": tracker.step,
        "total": tracker.total,
        "at": standing.step_at,
        "loss": standing.tracker.loss.last,
        "rate_per_s": tracker.rate,
        "eta_s": tracker.eta_s,
        "throughput": tracker.throughput,
        "unit": tracker.span().unit,
        "phase": str(standing.silence.phase) if standing.silence is not None else None,
        "stall": hand.view.to_json() if hand.view is not None else None,
        "notes": notes,
        "engine": hand.follower.scanner_engine,
    }


def _lesson(standing: following.Standing) -> Mapping[str, Any]:
    watch = standing.silence
    return dict(watch.to_json()["seen"]) if watch is not None else {}


def _taught(state: run.RunState) -> stall.Watch | None:
    """What the journal says that earlier attempts taught about silences."""
    lessons = [a.learned for a in state.attempts if a.learned]
    stepped = any(a.last_step is not None for a in state.attempts)
    if not lessons and not stepped:
        return None
    seen = stall.seen_from_json(lessons[-1]) if lessons else {}
    return replace(stall.begin(0.0), seen=seen, observable=stepped)
