"""Named instants at which a test may end the program: before, between and after journal writes and outside effects.

In production `reach` does nothing. A new write or effect calls it, and so is covered by the crash tests by itself.
"""

from collections.abc import Callable

_hook: Callable[[str], None] | None = None


def reach(point: str) -> None:
    """The program is at `point`."""
    if _hook is not None:
        _hook(point)


def set_hook(hook: Callable[[str], None] | None) -> None:
    """Let `hook` see (and end the program at) every point; None takes it away."""
    global _hook  # noqa: PLW0603 -- one switch for the whole process, as a debugger's breakpoint is
    _hook = hook
