"""Is a run hung? Three witnesses vote: progress, the look of the GPUs, the sameness of stacks.

A hang is reported when training is silent and one more witness agrees. Ending an attempt needs more: the rank
that the others wait for must show no life at all, for longer than any phase of this run has taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from runward.core import gpu_signature, stacks

WITH_SIGNATURE_S = 30.0
WITHOUT_SIGNATURE_S = 90.0
UNLEARNED_S = 600.0
"""Before any step was seen."""
STEP_FACTOR = 3.0
FIRST_PHASES_S = 600.0
"""Least silence before an end while the first evaluation or checkpoint has not been seen."""
LIFE_BYTES = 4096
"""A rank that reads or writes more than this in the silence lives."""
LIFE_CORES = 0.2
"""A rank with a quiet GPU that uses this much CPU computes: an evaluation may stand in one line for ever.
A waiting rank's CPU says nothing: it spins."""


class Kind(StrEnum):
    """none; waits: ranks wait for one that shows life; hang: reported; end: a hang with no sign of life."""

    NONE = "none"
    WAITS = "waits"
    HANG = "hang"
    END = "end"


class Cast(StrEnum):
    """How a witness voted on "it is hung"."""

    YES = "yes"
    NO = "no"
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True)
class Vote:
    """One witness, also when it could not vote."""

    witness: str
    cast: Cast
    text: str


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank as its witnesses see it."""

    rank: int | None
    node: str | None
    gpu: str | None
    """Index or UUID, as shown to people."""
    signature: gpu_signature.Signature
    stack: stacks.StackVote
    moved_bytes: int | None = None
    """Read and written since the last progress, by this rank's processes; None when not readable."""
    cpu_cores: float | None = None
    """Used on average since the last progress; None when not readable."""

    def __str__(self) -> str:
        """`rank 1 (GPU 1, node a)`."""
        name = "a rank" if self.rank is None else f"rank {self.rank}"
        where = [f"GPU {self.gpu}"] if self.gpu else []
        where += [f"node {self.node}"] if self.node else []
        return f"{name} ({', '.join(where)})" if where else name


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything the vote rests on; durations in seconds."""

    ranks: Sequence[Rank]
    silent_s: float | None
    """Since the newest progress of any witness; None before the first."""
    p99_step_s: float | None = None
    phase: str | None = None
    """A compile, checkpoint, evaluation or download that is known to go on."""
    stepped: bool = False
    """Whether a step of this attempt was seen."""
    longest_phase_s: float = 0.0
    """The longest silence that this run has shown and come out of."""
    seen_evaluation: bool = False
    seen_checkpoint: bool = False
    files_grew_bytes: int | None = None
    """Growth of checkpoint and temporary files since the last progress; None when not readable."""
    missing_ranks: tuple[int, ...] = ()
    """Named by a flight recorder."""


@dataclass(frozen=True, slots=True)
class HangVerdict:
    """The answer, with every vote."""

    kind: Kind
    summary: str
    votes: tuple[Vote, ...] = ()
    suspects: tuple[Rank, ...] = ()
    """The ranks that the others wait for; empty when none stands out."""
    not_ended: tuple[str, ...] = ()
    """What stands against ending the attempt."""


def budget_s(facts: Facts, *, signature: bool) -> float:
    """Silence after which a hang is reported; until steps are learned, the longest phase stands for them."""
    usual = facts.p99_step_s
    if usual is None:
        usual = facts.longest_phase_s if facts.stepped else None
    if usual is None:
        return UNLEARNED_S
    return max(STEP_FACTOR * usual, WITH_SIGNATURE_S if signature else WITHOUT_SIGNATURE_S)


def judge(facts: Facts) -> HangVerdict:
    """Vote."""
    gpu = _gpu_vote(facts.ranks)
    suspects = _suspects(facts)
    stack = _stack_vote(suspects or facts.ranks)
    progress = _progress_vote(facts, signature=gpu.cast is Cast.YES and _waiting(facts.ranks))
    votes = (progress, gpu, stack)
    if progress.cast is not Cast.YES:
        return HangVerdict(Kind.NONE, progress.text, votes)
    alive = _life(facts, suspects)
    if alive:
        return HangVerdict(Kind.WAITS, alive, votes, suspects, (alive,))
    if Cast.YES not in {gpu.cast, stack.cast}:
        return HangVerdict(Kind.NONE, f"{progress.text}; no second witness of a hang", votes)
    against = _against_ending(facts, suspects)
    return HangVerdict(
        Kind.HANG if against else Kind.END, _summary(facts, suspects), votes, suspects, tuple(against)
    )


def _waiting(ranks: Sequence[Rank]) -> bool:
    return any(rank.signature.look is gpu_signature.Look.WAITING for rank in ranks)


def _progress_vote(facts: Facts, *, signature: bool) -> Vote:
    if facts.silent_s is None:
        return Vote("progress", Cast.UNSEEN, "no progress has been seen yet")
    if facts.phase:
        return Vote("progress", Cast.NO, f"{facts.phase} is going on for {facts.silent_s:.0f} s")
    limit = budget_s(facts, signature=signature)
    if facts.silent_s < limit:
        return Vote("progress", Cast.NO, f"progress {facts.silent_s:.0f} s ago, budget {limit:.0f} s")
    return Vote("progress", Cast.YES, f"no progress for {facts.silent_s:.0f} s, budget {limit:.0f} s")


def _gpu_vote(ranks: Sequence[Rank]) -> Vote:
    looks = [rank.signature.look for rank in ranks]
    text = "; ".join(f"{rank}: {rank.signature}" for rank in ranks) or "no GPU of the run is known"
    if gpu_signature.Look.BUSY in looks:
        return Vote("gpu", Cast.NO, text)
    if not looks or all(look is gpu_signature.Look.UNSEEN for look in looks):
        return Vote("gpu", Cast.UNSEEN, text)
    return Vote("gpu", Cast.YES, text)


def _suspects(facts: Facts) -> tuple[Rank, ...]:
    """Whom the others wait for: named by a flight recorder, else the quiet ones among waiting ones."""
    named = tuple(rank for rank in facts.ranks if rank.rank in facts.missing_ranks)
    if named:
        return named
    if not _waiting(facts.ranks):
        return ()
    return tuple(rank for rank in facts.ranks if rank.signature.look is gpu_signature.Look.QUIET)


def _stack_vote(ranks: Sequence[Rank]) -> Vote:
    text = "; ".join(f"{rank}: {rank.stack.text}" for rank in ranks) or "no process of the run is known"
    seen = {rank.stack.sameness for rank in ranks}
    if stacks.Sameness.CHANGED in seen:
        return Vote("stacks", Cast.NO, text)
    if stacks.Sameness.SAME in seen:
        return Vote("stacks", Cast.YES, text)
    return Vote("stacks", Cast.UNSEEN, text)


def _life(facts: Facts, suspects: tuple[Rank, ...]) -> str:
    """A sign of life of those that the others wait for (of anyone, where none stands out)."""
    for rank in suspects or tuple(facts.ranks):
        if rank.moved_bytes is not None and rank.moved_bytes > LIFE_BYTES:
            return f"{rank} busy: {_size(rank.moved_bytes)} read and written"
        quiet = rank.signature.look is gpu_signature.Look.QUIET
        if quiet and rank.cpu_cores is not None and rank.cpu_cores >= LIFE_CORES:
            return f"{rank} busy: {rank.cpu_cores:.1f} CPU cores"
        if rank.stack.sameness is stacks.Sameness.CHANGED:
            return f"{rank} busy: {rank.stack.text}"
    if facts.files_grew_bytes is not None and facts.files_grew_bytes > LIFE_BYTES:
        who = f"{suspects[0]} busy" if suspects else "the run is busy"
        return f"{who}: {_size(facts.files_grew_bytes)} written"
    return ""


def _against_ending(facts: Facts, suspects: tuple[Rank, ...]) -> list[str]:
    against: list[str] = []
    silent = facts.silent_s or 0.0
    ranks = suspects or tuple(facts.ranks)
    if not ranks:
        against.append("no rank is known")
    against += [f"bytes of {rank} could not be read" for rank in ranks if rank.moved_bytes is None]
    if facts.p99_step_s is None:
        against.append("how long a step takes is not learned yet")
    if silent <= facts.longest_phase_s:
        against.append(f"silent for {silent:.0f} s; a phase of this run took {facts.longest_phase_s:.0f} s")
    missing = [
        word
        for word, seen in (("evaluation", facts.seen_evaluation), ("checkpoint", facts.seen_checkpoint))
        if not seen
    ]
    if missing and silent < FIRST_PHASES_S:
        against.append(
            f"the first {' and '.join(missing)} of this run may look like this: {FIRST_PHASES_S:.0f} s"
        )
    return against


def _summary(facts: Facts, suspects: tuple[Rank, ...]) -> str:
    silent = f"no progress for {facts.silent_s or 0:.0f} s"
    if suspects:
        return f"{', '.join(map(str, suspects))} did not join: the other ranks wait; {silent}"
    if _waiting(facts.ranks):
        return f"all ranks wait in a collective; {silent}"
    return f"no GPU of the run works; {silent}"


def _size(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
