"""Looks at the GPUs of a run while it is watched: idle, hung, and given back before the next attempt begins.

Readings come from a sampler in the background that is asked for only while they are of use; nothing here waits.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from runward import ports
from runward.app import attending
from runward.core import (
    events,
    flight,
    given_back,
    gpu_idle,
    gpu_ownership,
    gpu_signature,
    gpus,
    hang,
    observations,
    run,
    stacks,
)

WINDOW = 15
"""Readings of a GPU that are kept."""
SUSPECT_S = 12.0
"""Silence after which the GPUs of a training are looked at."""
FLIGHT_EVERY_S = 30.0
"""How often the dumps of flight recorders are looked for while a hang stands."""
LEARN_WITHIN_S = 90.0
"""How long after its first step it is tried to learn which GPUs an attempt uses."""
_KNOWN_PHASES = ("checkpoint", "evaluation", "compile", "download")


Pids = Callable[[str], Collection[int]]


class Sampler(Protocol):
    """Reads the machine's GPUs in the background."""

    def want(self) -> None:
        """Readings are of use in the next seconds."""
        ...

    def newest(self) -> tuple[float, gpus.GpuReading | gpus.GpusUnseen] | None:
        """The newest reading with its monotonic time; None before the first."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class Stacks(Protocol):
    """Takes stacks in the background."""

    def take(self, pids: Collection[int]) -> None:
        """Take stacks of these processes now and then, ten seconds apart."""
        ...

    def dumps(self, pid: int) -> Sequence[stacks.Dump]:
        """What was taken of a process in this silence, oldest first."""
        ...

    def forget(self) -> None:
        """Training moved on."""
        ...


@dataclass(frozen=True, slots=True)
class Signs:
    """What a process shows of itself."""

    rank: int | None = None
    moved_bytes: int | None = None
    """Read and written since it began."""
    cpu_s: float | None = None


@dataclass(frozen=True)
class Means:
    """What watching GPUs works with."""

    clock: ports.Clock
    sampler: Sampler
    stacks: Stacks
    pids: Pids
    """Processes of the attempt of a handle."""
    own: Callable[[Collection[int], gpus.GpuReading], gpu_ownership.Ownership]
    signs: Callable[[int], Signs]
    silence: Callable[[], attending.Silence | None]
    node: str
    rule: gpu_idle.IdleRule | None = None
    recorders: Callable[[run.Attempt], flight.FlightSummary | None] = lambda _live: None
    """What the flight recorders of the live attempt say; None without a dump."""


@dataclass(slots=True)
class _Hand:
    """The attempt that is looked at."""

    n: int
    idle: gpu_idle.IdleState
    began_at: float
    read_at: float = -1.0
    windows: dict[str, list[gpus.GpuSample]] = field(default_factory=dict)
    pids: frozenset[int] = frozenset()
    moved_at: float = -1.0
    base: dict[int, tuple[float, Signs]] = field(default_factory=dict)
    """Signs of the processes when the silence began to be looked at."""
    said: set[str] = field(default_factory=set)
    told_hang: bool = False
    flight_at: float | None = -math.inf
    """When dumps are looked for next in a reported hang; None once they were told."""


class GpuWatch:
    """The observer of a run's GPUs; see `watching.Observer`."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._hand: _Hand | None = None
        self._expected: given_back.Expected | None = None
        """What the attempt uses, to be back before the next one begins."""
        self._ended_at: float | None = None
        self.gpu_word = ""
        """What the GPUs look like (`waiting`, `idle`, `busy`); empty when not looked at."""

    def held(self) -> bool:
        """Whether the next attempt must wait: the memory of the last one is not known to be back."""
        return self._expected is not None

    def look(self, state: run.RunState) -> Sequence[observations.Observation]:
        """See `watching.Observer.look`."""
        live = state.live
        if live is None:
            return self._back(state)
        if live.started_at is None or live.handle is None:
            return ()
        silence = self._means.silence()
        if silence is None:
            return ()
        now = self._means.clock.mono()
        hand = self._take_up(live.n, now)
        again = self._again(hand, silence, now)
        if not self._useful(hand, silence, now):
            self.gpu_word = ""
            return again
        self._means.sampler.want()
        return [*again, *self._judge(hand, live, silence), *self._flight(hand, live)]

    def _take_up(self, n: int, now: float) -> _Hand:
        if self._hand is None or self._hand.n != n:
            self._hand = _Hand(n, gpu_idle.start(now), now)
            self._expected, self._ended_at = None, None
        return self._hand

    def _useful(self, hand: _Hand, silence: attending.Silence, now: float) -> bool:
        """Readings serve the user's idle limit, a silence, or to learn which GPUs the attempt uses."""
        if self._means.rule is not None:
            return True
        if not silence.stepped:
            return False
        usual = silence.longest_step_s or 0.0
        if now - silence.moved_at > max(SUSPECT_S, 2 * usual):
            return True
        return self._expected is None and now - hand.began_at < LEARN_WITHIN_S

    def _again(self, hand: _Hand, silence: attending.Silence, now: float) -> list[observations.Observation]:
        """Progress ends what was begun to be looked at, and takes a reported hang back."""
        if silence.moved_at == hand.moved_at:
            return []
        silent, hand.moved_at, hand.base = now - hand.moved_at, silence.moved_at, {}
        self._means.stacks.forget()
        told, hand.told_hang, hand.flight_at = hand.told_hang, False, -math.inf
        self.gpu_word = ""
        return [observations.MovesAgain(round(silent, 1))] if told else []

    def _judge(
        self, hand: _Hand, live: run.Attempt, silence: attending.Silence
    ) -> list[observations.Observation]:
        newest = self._means.sampler.newest()
        if newest is None or newest[0] <= hand.read_at:
            return []
        hand.read_at, reading = newest
        if isinstance(reading, gpus.GpusUnseen):
            return self._unseen(hand, reading.why)
        hand.pids = frozenset(self._means.pids(live.handle or ""))
        owned = self._means.own(hand.pids, reading)
        if owned.unknown:
            return self._unseen(hand, owned.unknown)
        self._remember(hand, reading, owned)
        found = self._idle(hand, reading, owned, silence)
        found.extend(self._hang(hand, reading, owned, silence))
        return found

    def _unseen(self, hand: _Hand, why: str) -> list[observations.Observation]:
        """Said once, for a run whose user asked for it; never a reason to end anything."""
        self.gpu_word = ""
        rule = self._means.rule
        early = rule is not None and hand.read_at - hand.began_at < rule.grace_s
        if rule is None or early or "unseen" in hand.said:
            return []
        hand.said.add("unseen")
        return [observations.Note("gpu", f"idle GPUs cannot be judged, and end nothing: {why}")]

    def _remember(self, hand: _Hand, reading: gpus.GpuReading, owned: gpu_ownership.Ownership) -> None:
        own = {uuid for uuid, witness in owned.own.items() if witness == "process"}
        for sample in reading.samples:
            if sample.uuid in owned.own:
                hand.windows.setdefault(sample.uuid, []).append(sample)
                del hand.windows[sample.uuid][:-WINDOW]
        if not own:
            return
        others = {s.uuid: _of_others(s, hand.pids) for s in reading.samples if s.uuid in own}
        before = self._expected.before_mib if self._expected is not None else others
        self._expected = given_back.Expected(frozenset(own), {**others, **before}, hand.pids)

    # -- idle ------------------------------------------------------------------------------------------------

    def _idle(
        self,
        hand: _Hand,
        reading: gpus.GpuReading,
        owned: gpu_ownership.Ownership,
        silence: attending.Silence,
    ) -> list[observations.Observation]:
        rule = self._means.rule
        if rule is None:
            return []
        util = {s.uuid: s.get("util_pct") for s in reading.samples if s.uuid in owned.own}
        hand.idle = gpu_idle.observe(hand.idle, rule, hand.read_at, util)
        progress_at = silence.moved_at if silence.progressed else None
        found = gpu_idle.judge(hand.idle, rule, frozenset(owned.own), progress_at)
        if not found.idle:
            hand.said.discard("idle")
            return []
        names = ", ".join(f"GPU {s.index}" for s in reading.samples if s.uuid in found.gpus)
        text = f"{names}: {found.reason}"
        note = [] if "idle" in hand.said else [observations.Note("gpu_idle", text)]
        hand.said.add("idle")
        return [*note, observations.GpusIdle(text)]

    # -- hang ------------------------------------------------------------------------------------------------

    def _hang(
        self,
        hand: _Hand,
        reading: gpus.GpuReading,
        owned: gpu_ownership.Ownership,
        silence: attending.Silence,
    ) -> list[observations.Observation]:
        silent = hand.read_at - silence.moved_at
        if silent < SUSPECT_S:
            return []
        ranks = [self._rank(hand, s, hand.read_at) for s in reading.samples if s.uuid in owned.own]
        self.gpu_word = _word(ranks)
        verdict = hang.judge(_facts(ranks, silent, silence))
        if verdict.kind not in (hang.Kind.HANG, hang.Kind.END) or hand.told_hang:
            return []
        hand.told_hang = True
        votes = tuple(f"{v.witness}: {v.cast} ({v.text})" for v in verdict.votes)
        budget = hang.budget_s(_facts(ranks, silent, silence), signature=True)
        seen = observations.Stalled(silence.phase, round(silent, 1), round(budget, 1), False, votes=votes)
        return [observations.Note("hang", verdict.summary), seen]

    def _flight(self, hand: _Hand, live: run.Attempt) -> list[observations.Observation]:
        """PyTorch writes its recorders' dumps when its own time-out fires, often after a hang was reported."""
        now = self._means.clock.mono()
        if not hand.told_hang or hand.flight_at is None or now < hand.flight_at:
            return []
        hand.flight_at = now + FLIGHT_EVERY_S
        said = self._means.recorders(live)
        if said is None:
            return []
        hand.flight_at = None
        return [observations.Note("hang", f"flight recorder: {said.text}")]

    def _rank(self, hand: _Hand, sample: gpus.GpuSample, now: float) -> hang.Rank:
        """A rank by its process on a GPU."""
        pid = next((p.pid for p in sample.processes or () if p.pid in hand.pids), None)
        signature = gpu_signature.look(hand.windows[sample.uuid])
        if pid is None:
            nothing = stacks.StackVote(stacks.Sameness.UNSEEN, "no process of the run on it")
            return hang.Rank(None, self._means.node, str(sample.index), signature, nothing)
        signs = self._means.signs(pid)
        since, base = hand.base.setdefault(pid, (now, signs))
        self._means.stacks.take([*hand.base])
        moved = _less(signs.moved_bytes, base.moved_bytes)
        used = _less(signs.cpu_s, base.cpu_s)
        cores = used / (now - since) if used is not None and now - since >= 5 else None
        return hang.Rank(
            signs.rank,
            self._means.node,
            str(sample.index),
            signature,
            stacks.compare(self._means.stacks.dumps(pid)),
            int(moved) if moved is not None else None,
            cores,
        )

    # -- given back ------------------------------------------------------------------------------------------

    def _back(self, state: run.RunState) -> list[observations.Observation]:
        """After an end: whether the memory is back, or who holds it when the wait is over."""
        expected = self._expected
        if expected is None or state.ended is not None:
            return []
        now = self._means.clock.mono()
        if self._ended_at is None:
            self._ended_at = now
        self._means.sampler.want()
        newest = self._means.sampler.newest()
        waited = now - self._ended_at
        if newest is None or newest[0] <= self._ended_at:
            if waited < given_back.WAIT_S:
                return []
            newest = (now, gpus.GpusUnseen("no reading came", self._means.clock.wall()))
        found = given_back.judge(expected, newest[1], waited)
        if not found.free and not found.over:
            return []
        self._expected = None
        return [observations.Note("gpu_memory", found.text)]

    def journalled(self, state: run.RunState, new: Sequence[events.Event]) -> None:
        """An ended attempt is let go; what it used is remembered until it is back."""
        del state
        if any(isinstance(event, events.AttemptEnded) for event in new):
            self._hand, self._ended_at, self.gpu_word = None, self._means.clock.mono(), ""
            self._means.stacks.forget()

    def wait_fds(self, state: run.RunState) -> Sequence[int]:
        """GPUs are looked at by the clock."""
        del state
        return ()

    def close(self) -> None:
        """End the sampler."""
        self._means.sampler.close()


def _facts(ranks: Sequence[hang.Rank], silent: float, silence: attending.Silence) -> hang.Facts:
    return hang.Facts(
        ranks,
        silent,
        silence.longest_step_s,
        phase=silence.phase if silence.phase in _KNOWN_PHASES else None,
        stepped=silence.stepped,
        longest_phase_s=silence.longest_s,
        seen_evaluation=silence.seen_evaluation,
        seen_checkpoint=silence.seen_checkpoint,
    )


def _word(ranks: Sequence[hang.Rank]) -> str:
    looks = {rank.signature.look for rank in ranks}
    if not looks or gpu_signature.Look.UNSEEN in looks:
        return ""
    if gpu_signature.Look.BUSY in looks:
        return "busy"
    return "waiting" if gpu_signature.Look.WAITING in looks else "idle"


def _of_others(sample: gpus.GpuSample, pids: Collection[int]) -> float:
    """Memory on a GPU that is not the attempt's, in MiB; 0 where the driver does not say."""
    mine = [p.used_mib for p in sample.processes or () if p.pid in pids]
    used = sample.get("mem_used_mib") or 0.0
    if not mine or any(one is None for one in mine):
        return 0.0
    return max(0.0, used - sum(one or 0.0 for one in mine))


def _less(now: float | None, before: float | None) -> float | None:
    return now - before if now is not None and before is not None else None
