"""Carries out effects through the ports. Every failure of the world becomes an observation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from runward import ports
from runward.core import effects, errors, job, observations


@dataclass(frozen=True)
class Hands:
    """What a performer works with."""

    backend: ports.Backend
    spec_for: Callable[[effects.Launch], job.JobSpec]
    handle_of: Callable[[], str | None]
    """What the backend calls the live attempt."""
    describe: Callable[[str], observations.Launched]
    dependency: Callable[[str], tuple[bool, str]]
    """Whether what a run waits for is there, and the words for it."""
    set_aside: Callable[[effects.SetAside], Sequence[observations.Observation]]


class Performer:
    """Effects of one run."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._backend = hands.backend
        self._unanswered = ""
        """Why the last submit had no answer."""

    def __call__(self, effect: effects.Effect) -> Sequence[observations.Observation]:
        """What doing `effect` gave."""
        match effect:
            case effects.Launch():
                return self._launch(effect)
            case effects.LookUp():
                return self._look_up(effect)
            case effects.End():
                return self._end(effect)
            case effects.AskDependency(what):
                ok, detail = self._hands.dependency(what)
                return (observations.WaitAnswer(what, ok, detail),)
            case effects.SetAside():
                return self._hands.set_aside(effect)
            case _:
                assert_never(effect)

    def _launch(self, effect: effects.Launch) -> Sequence[observations.Observation]:
        try:
            started = self._backend.submit(self._hands.spec_for(effect), effect.token)
        except ports.ContactLost as error:
            self._unanswered = f"; its submit: {error}"
            return (observations.LaunchUnknown(str(error)),)
        except (errors.InternalError, errors.UsageError) as error:
            return (observations.LaunchFailed(str(error)),)
        return (self._hands.describe(started),)

    def _look_up(self, effect: effects.LookUp) -> Sequence[observations.Observation]:
        try:
            found = self._backend.find(effect.token)
        except ports.ContactLost as error:
            return (observations.Unseen(f"looking for {effect.token}: {error}"),)
        if found is None:
            return (observations.NeverStarted(f"no job carries its token{self._unanswered}"),)
        return (replace(self._hands.describe(found), adopted=True),)

    def _end(self, effect: effects.End) -> Sequence[observations.Observation]:
        current = self._hands.handle_of()
        if current is None:
            return ()
        plan = ports.EndPlan(effect.signum, effect.grace_s, effect.why, now=effect.now, stacks=effect.stacks)
        try:
            self._backend.cancel(current, plan)
        except ports.ContactLost as error:
            return (observations.Unseen(f"ending {current}: {error}"),)
        return ()
