"""How much a directory of checkpoints grew, temporary files included: the sign that a save goes on."""

from __future__ import annotations

import re

from runward.checkpoint_readers import files

# What a tracker's thread or a logger writes for ever is no sign of a training's progress.
_CHATTER = re.compile(
    r"(?:^|/)(?:wandb|mlruns|mlflow|aim|\.aim|\.neptune|comet)/|(?:^|/)\.runward|(?:^|/)events\.out\.tfevents\."
    r"|\.(?:log|out|err|csv|jsonl|wandb|txt|html|png|lock)$"
)


class Growth:
    """Remembers sizes between looks."""

    def __init__(self) -> None:
        self._seen: dict[str, files.Entry] | None = None

    def look(self, directory: str) -> int:
        """Bytes that came since the last look: new, longer and rewritten files; 0 at the first look."""
        now = {name: one for name, one in files.tree(directory).files.items() if not _CHATTER.search(name)}
        before, self._seen = self._seen, now
        if before is None:
            return 0
        return sum(_grown(before.get(name), entry) for name, entry in now.items())


def _grown(before: files.Entry | None, now: files.Entry) -> int:
    if before is None or before.inode != now.inode:
        return now.size
    if now.size > before.size:
        return now.size - before.size
    return now.size if now.mtime_ns != before.mtime_ns else 0
