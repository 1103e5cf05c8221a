"""Where the memory of bad nodes lies."""

import os
from collections.abc import Callable

import platformdirs

from runward.store import nodes


def open_memory() -> nodes.NodeMemory:
    """The memory of this user."""
    state = os.environ.get("RUNWARD_STATE_DIR") or platformdirs.user_state_dir("runward")
    return nodes.NodeMemory(state)


def called(node: str, cluster: str | None) -> str:
    """What a node is called in the memory; `cluster`: another one than this machine's own."""
    return node if cluster is None else f"{node}@{cluster}"


def proposed(cluster: str | None = None, count: Callable[[], int] = lambda: 0) -> tuple[str, ...]:
    """Nodes of a cluster to leave out of the next attempt, as far as the memory can be read.

    `count` tells how many nodes the cluster has, 0 for unknown; it is asked only when a node has a mark.
    """
    import time

    from runward.core import nodes as core

    try:
        marks = open_memory().marks()
    except OSError:
        return ()
    there = [one for one in marks if one.node.partition("@")[2] == (cluster or "")]
    known = count() if there else 0
    return tuple(one.partition("@")[0] for one in core.proposals(there, time.time(), known))
