"""Lines that cite another log, as a report of a diagnosis or a notice of ours does: they tell nothing of this run."""

from runward.core import log_names, regexes

_PLACED = (
    r"(?:against(?: it)?: )?(?P<path>[^\s:]{1,300}?)(?:\.(?:gz|xz|zst|bz2))?:\d{1,9}"
    r"(?:  | {1,3}rank \d{1,6}(?:  |: ))"
)
"""A place in a log, set apart from what stands there by blanks or by a rank: what `grep` finds has a colon there."""
_NOTICE = "runward: "
"""What we say to who called us: of a run that has a log of its own, which is there to be asked."""


_FRAMES, _FRAMED = "*#", r"(?P<frame>[*#]) +[^*#\s].*\s(?P=frame)\s*$"
"""A line within a frame, as a machine greets who comes to it: it tells of no event."""


def cites(message: str) -> bool:
    """Whether a line is what another log says, with its place before it, or what we said of a run.

    >>> [cites(text) for text in ("a.out:6 rank 3  Killed", "b.log:7  Killed", "against: c.err.gz:8 rank 1: Killed")]
    [True, True, True]
    >>> cites("runward: attempt 1 ended at step 9: killed (likely): killed by signal 9")
    True
    >>> [cites(text) for text in ("*  n17 is down  *", "*** JOB 7 CANCELLED ***", "* CUDA out of memory")]
    [True, False, False]
    >>> [cites(text) for text in ("fit.py:7  Killed", "n1:29500  Killed", "b.log:7: Killed")]
    [False, False, False]
    """
    if message.startswith(_NOTICE) or (message[:1] in _FRAMES and regexes.ready(_FRAMED).match(message)):
        return True
    found = regexes.ready(_PLACED).match(message)
    return found is not None and log_names.is_log(found["path"])
