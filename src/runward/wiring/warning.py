"""What a run that starts now should know: asked in the background while the command starts, warnings only."""

import re
import threading

from runward.core import options
from runward.wiring import doctor, places, saying

_PORT = re.compile(r"--(?:master[-_]port|rdzv[-_]endpoint)(?:=|$)")


def start(asked: options.RunOptions) -> None:
    """Look in a thread of its own; whatever goes wrong there is no matter of the run."""
    threading.Thread(target=_look, args=(asked,), name="doctor", daemon=True).start()


def _look(asked: options.RunOptions) -> None:
    paths = [path for path in (asked.cwd, asked.checkpoints, asked.log_dir, places.state_dir()) if path]
    try:
        found = doctor.for_run(paths, _port(asked))
    except Exception as error:  # noqa: BLE001 -- the border of a thread: a failed look is said, and nothing else
        saying.say(f"could not look at this box: {error}")
        return
    for one in found:
        saying.say(f"{one.level}: {one.text}" + (f" ({one.fix})" if one.fix else ""))


def _port(asked: options.RunOptions) -> int | None:
    """The port that the command line names for its rendezvous on this machine."""
    for word, following in zip(asked.argv, (*asked.argv[1:], ""), strict=True):
        if _PORT.match(word):
            value = word.partition("=")[2] or following
            number = value.rpartition(":")[2]
            return int(number) if number.isdigit() and 0 < int(number) < 65536 else None
    return None
