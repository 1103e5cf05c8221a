"""Words for the person at the terminal, on stderr; a terminal that is gone harms nothing."""

import sys
from collections.abc import Sequence

from runward.core import events, run
from runward.ui import lines


def say(text: str) -> None:
    """One line of ours."""
    try:
        print(f"runward: {text}", file=sys.stderr, flush=True)
    except OSError:
        return  # the terminal may be gone; what is said stands in the journal too


def tell(state: run.RunState, new: Sequence[events.Event]) -> None:
    """What was journalled, one line an event that needs one; see `driving.Listener`."""
    for event in new:
        text = lines.of(state, event)
        if text is not None:
            say(text)
