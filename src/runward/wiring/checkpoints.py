"""Checkpoint readers for the command line."""

from runward.core import checkpoints


def look(directory: str, depth: str) -> checkpoints.Listing:
    """One look at a directory; `depth` is names, structure or full."""
    from runward.probes import checkpoints as probe

    return probe.look(directory, depth=depth)
