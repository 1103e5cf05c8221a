"""How long to wait before a restart, and before the next look at something that is missing.

Randomness is an argument: the same history gives the same delay.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays between restarts. They begin anew after every new complete checkpoint."""

    first_s: float = 0.0
    """Seconds before the first restart since the last new complete checkpoint."""
    base_s: float = 10.0
    """Seconds before the second; the k-th waits `base_s * factor ** (k - 2)`."""
    factor: float = 2.0
    jitter: float = 0.2
    """Share of the delay by which it may differ, so that many runs do not come back together."""
    cap_s: float = 600.0

    def delay_s(self, k: int, jitter: float) -> float:
        """Seconds before the k-th restart (k from 1); `jitter` in [0, 1) is the caller's random number.

        >>> [Backoff().delay_s(k, 0.5) for k in (1, 2, 3, 4, 99)]
        [0.0, 10.0, 20.0, 40.0, 600.0]
        """
        plain = self.first_s if k <= 1 else _grown(self.base_s, self.factor, k - 2, self.cap_s)
        return min(self.cap_s, max(0.0, plain * (1.0 + self.jitter * (2.0 * jitter - 1.0))))


@dataclass(frozen=True, slots=True)
class Patience:
    """Looks at a dependency (a host, a disk, a file) that a run waits for."""

    first_s: float = 60.0
    cap_s: float = 900.0
    at_most_s: float = 86400.0
    """After that long the run is held."""

    def delay_s(self, looks: int) -> float:
        """Seconds before the next look, after `looks` looks that found nothing.

        >>> [Patience().delay_s(n) for n in (0, 1, 2, 9)]
        [60.0, 120.0, 240.0, 900.0]
        """
        return _grown(self.first_s, 2.0, looks, self.cap_s)


def _grown(base: float, factor: float, exponent: int, cap: float) -> float:
    value = base
    for _ in range(exponent):
        if value >= cap or factor <= 1.0:
            break
        value *= factor
    return min(cap, value)
