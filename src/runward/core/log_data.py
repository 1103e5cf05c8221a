"""What of a log crosses the doors: its new bytes, and what was found in them.

`ports` shows both; they stand here because a look at a log needs nothing else of the doors, whose classes take 10 ms.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple


class Chunk(NamedTuple):
    """New bytes of a log."""

    offset: int
    """Where `data` begins in the log's own, never shrinking count of bytes."""
    data: bytes
    restarted: bool = False
    """The log was truncated, rotated or made anew: `offset` begins again at 0."""
    bulk: bool = False
    """Far from the log's end, read after the fact: of lines that repeat, some will do (`Scanner.feed`)."""


class Hit(NamedTuple):
    """A pattern found at a place in a log. Its groups are decoded when they are asked for."""

    pattern: int
    """Index into the compiled patterns."""
    offset: int
    """Byte offset of the match in the log."""
    line_offset: int
    line: bytes
    """The whole line without its end and colours; of a line above 4 KiB, the 4 KiB around the match."""
    found: "re.Match[bytes] | Mapping[str, str]"
    """The match within `line`, or the groups themselves where they were made by hand."""

    @property
    def groups(self) -> Mapping[str, str]:
        """Named groups that took part, as text; undecodable bytes become U+FFFD."""
        found = self.found
        if isinstance(found, re.Match):
            return {k: v.decode("utf-8", "replace") for k, v in found.groupdict().items() if v is not None}
        return found

    @property
    def text(self) -> str:
        """`line`, decoded."""
        return self.line.decode("utf-8", "replace")
