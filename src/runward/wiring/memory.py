"""Memory that only getting ready needed goes back to the system: a watcher lives for weeks."""

import ctypes


def trim() -> None:
    """Give free heap pages back (glibc; elsewhere the allocator does as it likes). About 7 MB after the rules."""
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if give_back is not None:
        give_back(0)
