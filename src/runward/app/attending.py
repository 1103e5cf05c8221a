"""Attends the live attempt: its logs, checkpoints, heartbeat and stalls."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from runward import ports
from runward.app import aftermath, attended, following, pulse
from runward.core import checkpoints, events, job, losses, observations, progress, run, samples, stall

_OFTEN_S = 60.0
"""Samples that come at least so often tell by their age whether the watcher still looks."""


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

    def __init__(self, means: attended.Means) -> None:
        self._means = means
        self._hand: attended.Hand | None = None
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

    def _take_up(self, state: run.RunState, live: run.Attempt, handle: str) -> attended.Hand:
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
        self._hand = attended.Hand(live.n, handle, follower, following.Told(), pulse.Pulse(looks, window))
        return self._hand

    def _checkpoints(
        self, live: run.Attempt, hand: attended.Hand, seen: list[observations.Observation]
    ) -> int:
        """Poll the directory; returns the bytes by which it grew."""
        directory = self._means.directory
        if directory is None:
            return 0
        now = self._means.clock
        directory.poll(now.wall(), True, attended.poisoned_since(hand))
        listing, grew = attended.judged(live, hand, directory.listing()), directory.growth()
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

    def _count_checkpoint(self, live: run.Attempt, hand: attended.Hand, listing: checkpoints.Listing) -> None:
        """A checkpoint written by this attempt is a witness of its step."""
        newest = checkpoints.choose(c for c in listing.checkpoints if c.written_since(live.started_at or 0.0))
        if newest is not None and newest.step is not None:
            hand.follower.take(samples.from_checkpoint(newest.step, newest.at))

    def _heartbeat(self, hand: attended.Hand) -> None:
        text = self._means.heartbeat()
        if text is None or text == hand.beat:
            return
        hand.beat = text
        sample = samples.from_heartbeat(text)
        if sample is not None:
            hand.follower.take(sample)

    def _stall(self, hand: attended.Hand, grew: int) -> list[observations.Observation]:
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

    def _save(self, hand: attended.Hand, live: run.Attempt) -> None:
        """Leave the newest sample where `status` reads it: at once for a first one, then every 10 s at most."""
        now, standing = self._means.clock.mono(), hand.follower.standing
        every = self._means.options.settings.watch.progress_every_s
        first = hand.saved_step is None and standing.tracker.step is not None
        if not first and now - hand.saved_at < every:
            return
        hand.saved_at, hand.saved_step = now, standing.tracker.step
        self._means.save_progress(self._sample(hand, live), False)

    def _sample(self, hand: attended.Hand, live: run.Attempt) -> dict[str, Any]:
        """The newest sample; when it was taken only where another one soon follows, so that its age says something."""
        often = self._means.options.settings.watch.progress_every_s <= _OFTEN_S
        return {
            **attended.sample(hand, live),
            "looked_at": self._means.clock.wall() if often else None,
        }

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
        found = aftermath.gone(self._means, hand, live, status)
        self._before = hand.follower.standing.silence
        self._means.save_progress(self._sample(hand, live), True)
        return found

    def again(self, state: run.RunState) -> observations.Gone:
        """See `jobs.Aftermath.again`."""
        return aftermath.again(self._means, state.attempts[-1])

    def listing(self) -> checkpoints.Listing:
        """The checkpoint directory as it is now."""
        return aftermath.listing(self._means, None)

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


def _taught(state: run.RunState) -> stall.Watch | None:
    """What the journal says that earlier attempts taught about silences."""
    lessons = [a.learned for a in state.attempts if a.learned]
    stepped = any(a.last_step is not None for a in state.attempts)
    if not lessons and not stepped:
        return None
    seen = stall.seen_from_json(lessons[-1]) if lessons else {}
    return stall.begin(0.0)._replace(seen=seen, observable=stepped)
