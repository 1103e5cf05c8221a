"""Runs of a far box are taken up again after a reboot: one line in the crontab of its user."""

from typing import Any

from runward import ports
from runward.core import errors
from runward.wiring import far

_MARK = "# runward-at-boot"
LINE = (
    '@reboot PATH="$HOME/.local/bin:/usr/local/bin:/usr/bin:/bin" '
    f'"$HOME/.local/share/runward/current/bin/runward" watch --detach >/dev/null 2>&1 {_MARK}'
)
"""What is put there, word for word."""
_INSTALL = r"""
command -v crontab >/dev/null 2>&1 || { echo 'no crontab there; have its init run: runward watch --detach'; exit 4; }
had=$(LC_ALL=C crontab -l 2>&1) || case $had in 'no crontab for '*) had= ;; *) echo "$had"; exit 4 ;; esac
case $had in *"$2"*) echo already; exit 0 ;; esac
{ [ -z "$had" ] || printf '%s\n' "$had"; printf '%s\n' "$1"; } | crontab - && echo installed
"""


def install(host: str) -> dict[str, Any]:
    """Add the line unless it is there; every other line stays. `at_boot` in words. Raises Unreachable."""
    call = ports.Call(("/bin/sh", "-c", _INSTALL, "sh", LINE, _MARK), deadline_s=30.0)
    try:
        done = far.runner(host).run(call)
    except ports.ContactLost as lost:
        raise errors.Unreachable(errors.Problem(str(lost))) from None
    said = done.text.strip() or done.stderr.decode("utf-8", "replace").strip()
    return {"at_boot": said if done.ok else f"failed: {said or done.code}"}
