"""Is a training stalled: budgets a phase, learned from the run, and who says what.

A budget reached is an alert. An attempt is ended only by the user's own limit, or at three times a learned
budget when a second witness, of another kind, sees no life. Times are monotonic seconds, arguments all.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from runward.core import durations, progress, samples, witnesses


class Phase(StrEnum):
    """What the training does; each has its own budget."""

    STARTUP = "startup"
    FIRST_STEP = "first_step"
    STEP = "step"
    CHECKPOINT = "checkpoint"
    EVALUATION = "evaluation"
    COMPILE = "compile"
    DOWNLOAD = "download"


class State(StrEnum):
    """The answer in a word.

    quiet: longer without progress than ever seen, within the budget. unobservable: no step of this run was
    ever recognised, so silence proves nothing.
    """

    OK = "ok"
    QUIET = "quiet"
    STALLED = "stalled"
    SUSPENDED = "suspended"
    UNOBSERVABLE = "unobservable"


_MINUTES = 60.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Every number of the stall rule. Seconds."""

    budgets_s: Mapping[str, float] = field(
        default_factory=lambda: {
            Phase.STARTUP: 30 * _MINUTES,
            Phase.FIRST_STEP: 30 * _MINUTES,
            Phase.STEP: 10 * _MINUTES,
            Phase.CHECKPOINT: 30 * _MINUTES,
            Phase.EVALUATION: 60 * _MINUTES,
            Phase.COMPILE: 30 * _MINUTES,
            Phase.DOWNLOAD: 60 * _MINUTES,
        }
    )
    """Until something is learned: an alert, never an end."""
    factor: float = 5.0
    floor_s: float = 5 * _MINUTES
    ceiling_s: float = 120 * _MINUTES
    end_factor: float = 3.0
    life_window_s: float = 60.0
    """How long no life must have been seen before an end."""
    stall_after_s: float | None = None
    """`--stall-after`: the user's word, in whatever phase."""
    tick_s: float = 1.0
    late_ticks: float = 3.0
    learn_steps: int = 5
    """Silences between steps that must have been seen before the budget of steps counts as learned."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The longest silence of one phase that ended by itself, over the run's attempts."""

    longest_s: float = 0.0
    count: int = 0


class Watch(NamedTuple):
    """State of the stall rule for one attempt."""

    started_at: float
    phase: Phase = Phase.STARTUP
    entered_at: float = 0.0
    """When the window of this phase began (or was armed again)."""
    moved_at: float = 0.0
    """Last progress of any witness, or when the windows were armed again."""
    moves: Mapping[str, float] = MappingProxyType({})
    """Last progress of each witness."""
    entered: frozenset[Phase] = frozenset()
    """Phases entered since the last progress: each may open one window, or a log could hold a hang off."""
    seen: Mapping[str, Seen] = MappingProxyType({})
    fresh: bool = True
    """Whether the present window was opened by such an entry (or by progress): else it teaches nothing."""
    ticked_at: float | None = None
    stepped: bool = False
    """Whether a step of this attempt was seen."""
    observable: bool = False
    """Whether a step of this run was ever seen."""
    suspended: bool = False
    alarmed_at: float | None = None
    looped: bool = False
    """Whether a line said that the training loop begins."""
    said_unobservable: bool = False


@dataclass(frozen=True, slots=True)
class StallView:
    """The answer of one tick."""

    state: State
    phase: Phase
    silent_for_s: float
    budget_s: float
    learned: bool
    end: bool = False
    """Whether this attempt is to be ended (cause `hang`, the votes in the verdict)."""
    why: str = ""
    votes: tuple[witnesses.Vote, ...] = ()
    rose: bool = False
    """The alarm (or the word `unobservable`) is new with this tick."""
    fell: bool = False
    """The alarm ended: progress again. It is armed anew."""
    gap_s: float = 0.0
    """How much too late this tick came, where that armed every window again; else 0."""

    def to_json(self) -> dict[str, Any]:
        """The view for status and events."""
        return {
            "state": str(self.state),
            "phase": str(self.phase),
            "silent_for_s": round(self.silent_for_s, 1),
            "budget_s": round(self.budget_s, 1),
            "learned": self.learned,
            "end": self.end,
            "why": self.why,
            "votes": [vote.to_json() for vote in self.votes],
        }


def begin(now: float, before: Watch | None = None) -> Watch:
    """The watch of a new attempt; what earlier attempts of the run taught is kept."""
    if before is None:
        return Watch(now, entered_at=now, moved_at=now)
    return Watch(now, entered_at=now, moved_at=now, seen=before.seen, observable=before.observable)


def moved(watch: Watch, witness: str, now: float) -> Watch:
    """A witness saw progress: `step`, `checkpoint` (growth too), `heartbeat`, or `bar` (work that is no step).

    A bar counts only outside steps: beside a step that does not come it proves nothing.
    """
    moves = {**watch.moves, witness: now}
    if witness == "bar" and watch.phase is Phase.STEP:
        return watch._replace(moves=moves)
    step = witness in ("step", "heartbeat")
    return watch._replace(
        moves=moves,
        seen=_learned(watch, now),
        moved_at=now,
        entered_at=now,
        entered=frozenset(),
        fresh=True,
        phase=Phase.STEP if step else watch.phase,
        stepped=step or watch.stepped,
        observable=step or witness == "checkpoint" or watch.observable,
    )


def phase(watch: Watch, name: str, edge: str, now: float) -> Watch:
    """A line said that a phase begins or ends. A new window opens at most once between two steps forward."""
    if name not in Phase.__members__.values():
        return watch
    named = Phase(name)
    if edge == "begin":
        if named in (Phase.STARTUP, Phase.FIRST_STEP) and watch.stepped:
            return watch
        entered = _enter(watch, named, now, opens=named not in watch.entered and named is not Phase.STEP)
        looped = watch.looped or named in (Phase.FIRST_STEP, Phase.STEP)
        return entered._replace(entered=watch.entered | {named}, looped=looped)
    if watch.phase is not named:
        return watch
    return _enter(watch, _between(watch), now, opens=watch.fresh)


def follow(watch: Watch, before: progress.Tracker, after: progress.Tracker, now: float) -> Watch:
    """The watch after the tracker changed: a step, a checkpoint's step, or another bar."""
    if after.checkpoint_step != before.checkpoint_step:
        watch = moved(watch, "checkpoint", now)
    elif after.advanced_at is not None and after.advanced_at != before.advanced_at:
        chosen = after.chosen
        watch = moved(watch, "heartbeat" if chosen and chosen.key.startswith("heartbeat/") else "step", now)
    elif after.other_at is not None and after.other_at != before.other_at:
        # Beside steps, a second count that rises to where it never was is an evaluation that nobody named.
        if watch.phase is Phase.STEP:
            watch = phase(watch, Phase.EVALUATION, "begin", now)
        watch = moved(watch, "bar", now)
    elif after.side_at is not None and after.side_at != before.side_at:
        watch = moved(watch, "bar", now)
    return watch


def take(
    watch: Watch, tracker: progress.Tracker, sample: samples.Sample, now: float
) -> tuple[Watch, progress.Tracker]:
    """Both states after one sample: its step, its bar, and the phase that it names or begins."""
    after = progress.observe(tracker, sample, now)
    watch = follow(watch, tracker, after, now)
    if sample.phase and not sample.after_abort:
        watch = phase(watch, sample.phase, "begin", now)
    return watch, after


def budget(watch: Watch, settings: Settings) -> tuple[float, bool]:
    """The present phase's budget in seconds, and whether it was learned."""
    seen = watch.seen.get(watch.phase, Seen())
    needed = settings.learn_steps if watch.phase is Phase.STEP else 1
    if seen.count < needed:
        return settings.budgets_s.get(watch.phase, 30 * _MINUTES), False
    ceiling = max(settings.ceiling_s, 2 * seen.longest_s)
    return min(max(settings.factor * seen.longest_s, settings.floor_s), ceiling), True


def tick(
    watch: Watch,
    settings: Settings,
    now: float,
    *,
    suspended: bool = False,
    life: witnesses.Life | None = None,
) -> tuple[Watch, StallView]:
    """The watch and the answer of one look. `life` None: nobody looked for signs of life.

    A tick that comes more than three ticks late arms every window anew and takes nothing from the silence
    in the gap; so does the end of a suspension (state T, frozen cgroup).
    """
    gap = _gap(watch, settings, now)
    if gap or suspended or watch.suspended:
        watch = watch._replace(moved_at=max(watch.moved_at, now), entered_at=now)
    watch = watch._replace(ticked_at=now, suspended=suspended)
    seconds, known = budget(watch, settings)
    said = (*witnesses.of_progress(watch.moves, now, seconds), *witnesses.of_life(life))
    if suspended:
        why = "stopped or frozen: not stalled"
        return watch, StallView(State.SUSPENDED, watch.phase, 0.0, seconds, known, why=why, votes=said)
    silent = now - watch.entered_at
    state = _state(watch, silent, seconds, settings)
    end, why = _end(watch, settings, now, life)
    if end:
        state = State.STALLED
        seconds = min(seconds, _limit(watch, settings, now))
    view = StallView(state, watch.phase, silent, seconds, known, end, why, said, gap_s=gap)
    return _edges(watch, view, now)


def wants_life(watch: Watch, settings: Settings, now: float) -> bool:
    """Whether the answer now hangs on signs of life: only then are stacks worth taking."""
    user = settings.stall_after_s
    if user is not None and now - watch.moved_at >= user - settings.life_window_s:
        return True
    seconds, known = budget(watch, settings)
    silent = now - watch.entered_at
    return known and silent >= settings.end_factor * seconds - settings.life_window_s


def seen_to_json(watch: Watch) -> dict[str, Any]:
    """What the attempt taught about silences, for the event of its end."""
    return {str(name): asdict(one) for name, one in watch.seen.items()}


def seen_from_json(data: Mapping[str, Any]) -> dict[str, Seen]:
    """The same, read back for the next attempt."""
    return {name: Seen(**item) for name, item in data.items() if name in Phase.__members__.values()}


def _between(watch: Watch) -> Phase:
    if watch.stepped:
        return Phase.STEP
    return Phase.FIRST_STEP if watch.looped else Phase.STARTUP


def _enter(watch: Watch, named: Phase, now: float, *, opens: bool) -> Watch:
    if named is watch.phase:
        return watch
    entered_at = now if opens else watch.entered_at
    return watch._replace(seen=_learned(watch, now), phase=named, entered_at=entered_at, fresh=opens)


def _learned(watch: Watch, now: float) -> Mapping[str, Seen]:
    """The window of the present phase closes by itself: how long it was is learned."""
    silence = now - watch.entered_at
    if watch.suspended or not watch.fresh or silence <= 0:
        return watch.seen
    old = watch.seen.get(watch.phase, Seen())
    return {**watch.seen, str(watch.phase): Seen(max(old.longest_s, silence), old.count + 1)}


def _gap(watch: Watch, settings: Settings, now: float) -> float:
    if watch.ticked_at is None:
        return 0.0
    late = now - watch.ticked_at - settings.tick_s
    return late if late > settings.late_ticks * settings.tick_s else 0.0


def _state(watch: Watch, silent: float, seconds: float, settings: Settings) -> State:
    if silent >= seconds:
        return State.STALLED if watch.observable or watch.looped else State.UNOBSERVABLE
    seen = watch.seen.get(watch.phase, Seen())
    usual = seen.longest_s if seen.count >= settings.learn_steps else seconds / 2
    return State.QUIET if silent > max(usual, settings.tick_s * 10) else State.OK


def _limit(watch: Watch, settings: Settings, now: float) -> float:
    """The user's own limit where it is over: then it is what the silence is told against."""
    user = settings.stall_after_s
    return user if user is not None and now - watch.moved_at >= user else math.inf


def _end(watch: Watch, settings: Settings, now: float, life: witnesses.Life | None) -> tuple[bool, str]:
    without = now - watch.moved_at
    if settings.stall_after_s is not None and without >= settings.stall_after_s:
        limit = durations.format_duration(settings.stall_after_s)
        return True, f"no progress for {durations.format_duration(without)}: over --stall-after {limit}"
    seconds, known = budget(watch, settings)
    silent = now - watch.entered_at
    if not known or not watch.observable or silent < settings.end_factor * seconds:
        return False, ""
    if life is None or life.over_s < settings.life_window_s:
        return False, ""
    still = witnesses.no_life(life)
    if still is None:
        return False, ""
    budget_text = durations.format_duration(seconds)
    return True, (
        f"no progress in phase {watch.phase} for {durations.format_duration(silent)}, "
        f"{settings.end_factor:.0f} times its learned budget of {budget_text}, and {still}"
    )


def _edges(watch: Watch, view: StallView, now: float) -> tuple[Watch, StallView]:
    """Alarms begin once and end by progress alone: a window armed anew by a gap is no recovery."""
    if view.state is State.UNOBSERVABLE and not watch.said_unobservable:
        return watch._replace(said_unobservable=True), replace(view, rose=True)
    if watch.alarmed_at is None:
        if view.state is not State.STALLED:
            return watch, view
        return watch._replace(alarmed_at=now), replace(view, rose=True)
    if view.state is not State.STALLED and max(watch.moves.values(), default=0.0) > watch.alarmed_at:
        return watch._replace(alarmed_at=None), replace(view, fell=True)
    return watch, view
