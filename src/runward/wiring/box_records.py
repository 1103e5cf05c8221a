"""Records of this machine that `runward record` keeps or kept, and what they say about an instant.

Each recorder leaves a small note of where its file is in the state directory. A run is joined to the records that
were made in its name, a job of this machine to every record of this machine.
"""

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from typing import Any

from runward.core import box, durations
from runward.store import folders, record_files
from runward.ui import text_box
from runward.wiring import places

NEAR_S = 300.0
"""A snapshot older than this says nothing about an instant any more."""
_MOST = 200


def announce(path: str, run: str | None) -> None:
    """Leave a note of a record that begins now; one that cannot be left costs only the joining."""
    folder = _folder()
    body = {
        "path": os.path.abspath(path),
        "run": run,
        "host": socket.gethostname(),
        "since": time.time(),  # not rounded: up, it would begin after what it saw
    }
    with contextlib.suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        for name in sorted(os.listdir(folder))[:-_MOST]:
            os.unlink(os.path.join(folder, name))
        folders.write(folder, f"{time.time_ns()}-{os.getpid()}.json", body)


def then(instant: float, run: str | None = None, *, here: bool = True) -> dict[str, Any] | None:
    """What the box was like: the newest snapshot before an instant (seconds since the epoch), if it is near.

    `here`: whether records that name no run count, as for a job of this machine.
    """
    wanted = run.partition("~")[0] if run is not None else None
    found = [note for note in _notes() if note["since"] <= instant and _counts(note, wanted, here=here)]
    for note in sorted(found, key=lambda note: (note["run"] == wanted, note["since"]), reverse=True):
        with contextlib.suppress(OSError, EOFError, KeyError, TypeError, ValueError):
            answer = record_files.at(note["path"], instant)
            if answer is not None and 0 <= answer[1] <= NEAR_S:
                return _told(box.from_json(answer[0]), answer[1], note["path"])
    return None


def _told(seen: box.Snapshot, before_s: float, path: str) -> dict[str, Any]:
    return {
        "at": durations.iso(seen.at),
        "seconds_before": round(before_s, 3),
        "summary": text_box.brief(seen),
        "record": path,
        "snapshot": seen.to_json(),
    }


def _counts(note: dict[str, Any], run: str | None, *, here: bool) -> bool:
    if run is not None and note["run"] == run:
        return True
    return here and note["host"] == socket.gethostname()


def _notes() -> Iterator[dict[str, Any]]:
    try:
        names = os.listdir(_folder())
    except OSError:
        return
    for name in names:
        body = folders.read(_folder(), name)
        if (
            body is not None
            and isinstance(body.get("since"), int | float)
            and {"path", "run", "host"} <= {*body}
        ):
            yield body


def _folder() -> str:
    return os.path.join(places.state_dir(), "records")
