"""Stacks that somebody printed into the log (py-spy, faulthandler) while a training hung: who is not waiting."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from runward.core import casebook, prefixes

_HEAD = re.compile(
    r"^[\W_]{0,8}(?:py-spy \w+\b.{0,80}|stacks? (?:of|for)\b.{0,80}|dump of\b.{0,60})?"
    r"\b(?:rank[ =:#]?\d|pid[ =:]?\d|Process \d+: )",
    re.IGNORECASE,
)
_RANK = re.compile(r"\brank[ =:#]{0,2}(?P<rank>\d{1,6})\b", re.IGNORECASE)
_PID = re.compile(r"\b(?:pid[ =:]{0,2}|Process )(?P<pid>\d{1,8})\b", re.IGNORECASE)
_THREAD = re.compile(
    r'Thread (?:0x)?[0-9a-f]{1,16}\b.{0,60}?(?:"(?P<name>[^"]{0,60})"|\(most recent call first\))'
)
_FRAME = re.compile(
    r"^\s{2,}(?P<call>[\w.<>]{1,120} \([^()]{1,200}:\d{1,7}\)|File \".{1,200}\", line \d+ in \S+)"
)
_WAITS = re.compile(
    r"(?i)all_?reduce|all_?gather|reduce_scatter|all_?to_?all|broadcast|barrier|nccl|gloo|distributed_c10d|synchronize"
    r"|\bwait\b|stream_?sync|cudaEvent|clip_grad|_reduce\b"
)
_INNER = 4
"""Innermost frames that tell whether a thread waits for the others."""
_DUMPS = (b"Thread ", b"py-spy", b"stack")
_MAIN = ("MainThread", None)


class Stack(NamedTuple):
    """The main thread of one process."""

    rank: int | None
    frames: tuple[str, ...]
    head: str
    offset: int
    file: str | None

    @property
    def waits(self) -> bool:
        """Whether it stands in a collective."""
        return any(_WAITS.search(frame) for frame in self.frames[:_INNER])


def apart(book: casebook.Casebook) -> Stack | None:
    """The one process that stands elsewhere while the others wait in a collective; None without such."""
    stacks = {stack.rank: stack for stack in _stacks(book) if stack.rank is not None and stack.frames}
    away = [stack for stack in stacks.values() if not stack.waits]
    return away[0] if len(away) == 1 and len(stacks) > _AT_LEAST else None


_AT_LEAST = 1


def _stacks(book: casebook.Casebook) -> Iterator[Stack]:
    for file, edges in book.edges.items():
        if any(word in edges.tail for word in _DUMPS):
            start = edges.size - len(edges.tail)
            yield from _of_text(edges.tail, start, file, book)


def _of_text(data: bytes, at: int, file: str | None, book: casebook.Casebook) -> Iterator[Stack]:
    rank: int | None = None
    head, frames, main, place = "", list[str](), False, at
    for raw in data.splitlines(keepends=True):
        text = raw[:400].decode("utf-8", "replace").rstrip()
        if _HEAD.search(prefixes.split(text).body) or _HEAD.search(text):
            if frames:
                yield Stack(rank, tuple(frames), head, place, file)
            told = _who(text, book)
            rank = rank if told is None and not frames else told  # two lines may introduce one stack
            head, frames, main, place = text, [], True, at
        elif thread := _THREAD.search(text):
            main = not frames and thread["name"] in _MAIN
        elif main and (frame := _FRAME.match(text)):
            frames.append(frame["call"])
        at += len(raw)
    if frames:
        yield Stack(rank, tuple(frames), head, place, file)


def _who(text: str, book: casebook.Casebook) -> int | None:
    said, pid = _RANK.search(text), _PID.search(text)
    front = prefixes.split(text)
    if said:
        return int(said["rank"])
    return book.voices.process(pid["pid"], front.node or "") if pid else None
