"""Checkpoint readers and the undoing of a quarantine, for the command line."""

import errno
import os
from collections.abc import Sequence

from runward import ports
from runward.core import checkpoints, errors


def look(directory: str, depth: str) -> checkpoints.Listing:
    """One look at a directory, here or `ssh:HOST/PATH`; `depth` is names, structure or full.

    A far box is looked at by its own python3 with our readers. Raises NotFound, Unreachable.
    """
    if directory.startswith("ssh:"):
        return _there(directory, depth)
    if not os.path.isdir(directory):
        raise errors.NotFound(errors.Problem("no such directory", directory))
    from runward.probes import checkpoints as probe

    return probe.look(directory, depth=depth)


def _there(place: str, depth: str) -> checkpoints.Listing:
    from runward.wiring import far, pod_looks

    host, _, path = place[4:].partition("/")
    try:
        listing = pod_looks.checkpoints_in(far.runner(host), far.path_of(path, place), depth)
    except ports.ContactLost as lost:
        raise errors.Unreachable(errors.Problem(str(lost))) from None
    if listing.problem == os.strerror(errno.ENOENT):
        raise errors.NotFound(errors.Problem(listing.problem, place))
    return listing


def restore(directory: str, names: Sequence[str]) -> list[tuple[str, bool]]:
    """Undo a quarantine; what was done in words, and whether it could be."""
    from runward.app import quarantine

    return [(outcome.done, outcome.ok) for outcome in quarantine.restore(directory, names)]
