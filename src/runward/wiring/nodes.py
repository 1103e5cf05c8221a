"""Where the memory of bad nodes lies."""

import os
from collections.abc import Callable

import platformdirs

from runward.store import nodes


def open_memory() -> nodes.NodeMemory:
    """The memory of this user."""
    state = os.environ.get("RUNWARD_STATE_DIR") or platformdirs.user_state_dir("runward")
    return nodes.NodeMemory(state)


def proposed(cluster: str | None = None, count: Callable[[], int] = lambda: 0) -> tuple[str, ...]:
    """Nodes of a cluster to leave out of the next attempt, as far as the memory can be read.

    `count` tells how many nodes the cluster has, 0 for unknown; it is asked only when a node has a mark.
    """
    import time

    from runward.backends.slurm import clusters
    from runward.core import nodes as core

    try:
        marks = open_memory().marks()
    except OSError:
        return ()
    there = [one for one in marks if clusters.parted(one.node)[1] == cluster]
    known = count() if there else 0
    return tuple(clusters.parted(one)[0] for one in core.proposals(there, time.time(), known))
