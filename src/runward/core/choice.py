"""The first cause among the candidates: root before echo, proof before symptom, earlier before later."""

import itertools
from collections.abc import Mapping

from runward.core import candidates, evictions, failures

_C, _A = failures.Cause, failures.Action
_APPLICATION_XIDS = (_C.CUDA_ERROR,)


def best(
    found: list[candidates.Candidate], offsets: Mapping[str | None, float]
) -> candidates.Candidate | None:
    """The candidate that explains the others, or None when nothing but echoes of launchers is there."""
    pool = [c for c in _bursts(found) if c.weight > 0]
    pool = _before_the_end(evictions.decide(pool))
    if not pool:
        return None
    top = _strongest(pool, offsets)
    if top.weight >= candidates.PROOF:
        return top
    challenger = _earlier_elsewhere(pool, top, offsets)
    return challenger or top


def _strongest(pool: list[candidates.Candidate], offsets: Mapping[str | None, float]) -> candidates.Candidate:
    weight = max(c.weight for c in pool)
    top = None
    for candidate in pool:
        if candidate.weight == weight and (top is None or candidates.earlier(candidate, top, offsets)):
            top = candidate
    assert top is not None  # noqa: S101 -- the pool is not empty
    return top


def _before_the_end(pool: list[candidates.Candidate]) -> list[candidates.Candidate]:
    """Where the scheduler ended the job: a strong fault before its word wins, what comes after is teardown."""
    ends = [c for c in pool if c.ends]
    if not ends:
        return pool
    first = min(ends, key=lambda c: c.order)
    faults = [
        c
        for c in pool
        if c.cause not in candidates.ENDS
        and c.weight >= candidates.SPECIFIC
        and (c.order < first.order or c.source == "kernel")
    ]
    return faults or [max(ends, key=lambda c: (c.weight, -c.order))]


def _earlier_elsewhere(
    pool: list[candidates.Candidate], top: candidates.Candidate, offsets: Mapping[str | None, float]
) -> candidates.Candidate | None:
    """Another rank's fault that came before the strongest one: a cascade begins where it begins."""
    first = None
    own = [c for c in pool if c.rank == top.rank and c.cause is top.cause and c.weight >= candidates.SPECIFIC]
    for earliest in own:
        top = earliest if candidates.earlier(earliest, top, offsets) else top
    for candidate in pool:
        if candidate.weight < candidates.GENERIC or candidate.rank is None or top.rank is None:
            continue
        if "peer" in (candidate.fields or {}):
            continue  # it tells of another one's end
        if candidate.rank == top.rank or not candidates.surely_earlier(candidate, top, offsets):
            continue
        if first is None or candidates.earlier(candidate, first, offsets):
            first = candidate
    return first


def _bursts(found: list[candidates.Candidate]) -> list[candidates.Candidate]:
    """Xids that come within 10 s of another one of the same kernel are echoes of the first that counts."""
    kept: list[candidates.Candidate] = []
    last: dict[str, tuple[float, candidates.Candidate]] = {}
    for candidate in found:
        signal = candidate.entry.signal if candidate.entry else None
        if signal is None or "xid" not in signal.fields or signal.at is None:
            kept.append(candidate)
            continue
        bus = signal.fields.get("bus", "")
        previous = last.get(bus)
        if previous and signal.at - previous[0] <= 10 and previous[1].cause in _APPLICATION_XIDS:
            candidate = candidate._replace(weight=min(candidate.weight, 56))
        else:
            previous = None
        last[bus] = (signal.at, previous[1] if previous else candidate)
        kept.append(candidate)
    return [_repeated(c, kept) for c in kept]


def _repeated(candidate: candidates.Candidate, kept: list[candidates.Candidate]) -> candidates.Candidate:
    """The same fault of the program three times, minutes apart, on one GPU: the GPU is the suspect."""
    signal = candidate.entry.signal if candidate.entry else None
    if signal is None or "xid" not in signal.fields or candidate.cause not in _APPLICATION_XIDS:
        return candidate
    times = sorted(
        c.entry.signal.at
        for c in kept
        if c.entry
        and c.entry.signal.at is not None
        and c.entry.signal.fields.get("bus") == signal.fields.get("bus")
        and c.entry.signal.fields.get("xid") == signal.fields.get("xid")
    )
    apart = 1 + sum(1 for a, b in itertools.pairwise(times) if b - a >= 60)
    if apart < 3:
        return candidate
    summary = candidate.summary + f", {apart} times in different processes: suspect the device"
    return candidate._replace(cause=_C.GPU_HARDWARE, action=_A.RESTART_ELSEWHERE, weight=92, summary=summary)
