"""Checkpoint readers and the undoing of a quarantine, for the command line."""

from collections.abc import Sequence

from runward.core import checkpoints


def look(directory: str, depth: str) -> checkpoints.Listing:
    """One look at a directory; `depth` is names, structure or full."""
    from runward.probes import checkpoints as probe

    return probe.look(directory, depth=depth)


def restore(directory: str, names: Sequence[str]) -> list[tuple[str, bool]]:
    """Undo a quarantine; what was done in words, and whether it could be."""
    from runward.app import quarantine

    return [(outcome.done, outcome.ok) for outcome in quarantine.restore(directory, names)]
