"""Where the memory of bad nodes lies."""

import os

import platformdirs

from runward.store import nodes


def open_memory() -> nodes.NodeMemory:
    """The memory of this user."""
    state = os.environ.get("RUNWARD_STATE_DIR") or platformdirs.user_state_dir("runward")
    return nodes.NodeMemory(state)


def proposed() -> tuple[str, ...]:
    """Nodes to leave out of the next attempt, as far as the memory can be read."""
    import time

    from runward.core import nodes as core

    try:
        return core.proposals(open_memory().marks(), time.time())
    except OSError:
        return ()
