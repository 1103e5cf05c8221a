"""What the Runward of a far box answers to the words of a command."""

from collections.abc import Sequence

from runward import ports
from runward.core import errors
from runward.wiring import far

_FIND = (
    'command -v runward >/dev/null 2>&1 && exec runward "$@"; '
    'r=$HOME/.local/share/runward/current/bin/runward; [ -x "$r" ] && exec "$r" "$@"; '
    "echo 'runward is not installed there' >&2; exit 127"
)
"""For `sh -c _FIND sh WORDS...`: the Runward of the box's PATH, else the one that `setting_up` put there."""


def ask(host: str, words: Sequence[str], before: Sequence[str] = ()) -> ports.Completed:
    """What the Runward of a box answers to these words; `before` them another command may stand.

    Raises Unreachable when there is none, or no way to it.
    """
    try:
        done = far.runner(host).run(
            ports.Call((*before, "/bin/sh", "-c", _FIND, "sh", *words), deadline_s=180.0, limit=16 << 20)
        )
    except ports.ContactLost as lost:
        raise errors.Unreachable(errors.Problem(str(lost))) from None
    if done.code == 127 and b"runward is not installed there" in done.stderr:
        raise errors.Unreachable(
            errors.Problem(
                "runward is not installed there",
                where=f"ssh:{host}/",
                next_step=f"runward remote setup {host}",
            )
        )
    return done
