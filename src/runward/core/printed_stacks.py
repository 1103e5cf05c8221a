"""Stacks that somebody printed into the log (py-spy, faulthandler) while a training hung: who is not waiting."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from runward.core import candidates, casebook, failures, missed, prefixes

_HEAD = re.compile(
    r"^[\W_]{0,8}(?:py-spy \w+\b.{0,80}|stacks? (?:of|for)\b.{0,80}|dump of\b.{0,60})?"
    r"\b(?:rank[ =:#]?\d|pid[ =:]?\d|Process \d+: )",
    re.IGNORECASE,
)
_RANK = re.compile(r"\brank[ =:#]{0,2}(?P<rank>\d{1,6})\b", re.IGNORECASE)
_PID = re.compile(r"\b(?:pid[ =:]{0,2}|Process )(?P<pid>\d{1,8})\b", re.IGNORECASE)
_THREAD = re.compile(
    r'[Tt]hread (?:0x)?[0-9a-f]{1,16}\b.{0,60}?(?:"(?P<name>[^"]{0,60})"|\(most recent call first\))'
)
_FRAME = re.compile(
    r"^\s{2,}(?P<call>[\w.<>]{1,120} \([^()]{1,200}:\d{1,7}\)|File \".{1,200}\", line \d+ in \S+)"
)
_WAITS = re.compile(
    r"(?i)all_?reduce|all_?gather|reduce_scatter|all_?to_?all|broadcast|barrier|nccl|gloo|distributed_c10d|synchronize"
    r"|\bwait\b|stream_?sync|cudaEvent|clip_grad|_reduce\b|block_until_ready|\bpsum\b"
)
_OWN_WAIT = re.compile(
    r"(?i)\b(?:queue|queues|socket|ssl|connection|subprocess|dataloader|popen_\w+)\.py\b"
    r"|/(?:urllib3|requests|aiohttp|botocore|s3fs|gcsfs|fsspec|pyarrow)/"
)
"""Places in which a process waits for its own data, whatever waits within."""
_BACKWARD = re.compile(r"_run_backward|\bbackward\b")
"""Where a collective waits that begins by itself."""
_ONE_LINE = re.compile(r"(?i)\b(?:py-spy|(?:call ?)?stack(?: ?trace)?|backtrace)\b")
"""Words before the frames of a stack that stands in one line."""
_WITHIN = re.compile(r"[\w.<>]{1,120} \([^()\s]{1,200}:\d{1,7}\)")
_OUTERMOST_FIRST = re.compile(r"\) ?(?:->|=>|>|→) ?\w")
_CURRENT = re.compile(r"\s*Current thread ")
_LINE = 2000
"""Bytes of a line that may hold a stack."""
_INNER = 4
"""Innermost frames that tell whether a thread waits for the others."""
_DUMPS = (b"hread ", b"py-spy", b"stack", b"backtrace")
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
        inner = self.frames[:_INNER]
        return not any(map(_OWN_WAIT.search, inner)) and any(map(_WAITS.search, inner))

    @property
    def in_backward(self) -> bool:
        """Whether it stands in the backward pass, in which all wait for each other."""
        return any(map(_BACKWARD.search, self.frames[:_INNER]))


def elsewhere(book: casebook.Casebook) -> missed.Suspects | None:
    """The one process that stands elsewhere while the others wait in a collective; None without such."""
    stacks = _of_ranks(book)
    away = [stack for stack in stacks if not stack.waits]
    if len(away) > 1:
        away = [stack for stack in away if not stack.in_backward]
    return _suspect(away[0]) if len(away) == 1 and len(stacks) > 1 else None


def alone(book: casebook.Casebook, found: list[candidates.Candidate]) -> missed.Suspects | None:
    """The rank that alone printed its stack, which stands in no collective, where all others waited in one."""
    waited = {c.rank for c in found if c.cause in _WAITED}
    stacks = _of_ranks(book) if len(waited - {None}) > 1 else []
    if len(stacks) != 1 or stacks[0].waits or stacks[0].in_backward or stacks[0].rank in waited:
        return None
    return _suspect(stacks[0]) if book.ranks <= waited | {stacks[0].rank} else None


_WAITED = (failures.Cause.NCCL_TIMEOUT, failures.Cause.DISTRIBUTED_TIMEOUT)


def _suspect(one: Stack) -> missed.Suspects:
    where = one.frames[0].strip()
    text = f"{one.head.rstrip(' :')}: {where}"
    proof = failures.Evidence(text, file=one.file, offset=one.offset, rank=one.rank, source="log")
    ranks = () if one.rank is None else (one.rank,)
    return missed.Suspects(ranks, f"it stands in {where}, the others wait", proven=False, proof=(proof,))


def _of_ranks(book: casebook.Casebook) -> list[Stack]:
    """The last stack of each rank."""
    stacks = {stack.rank: stack for stack in _stacks(book) if stack.rank is not None and stack.frames}
    return list(stacks.values())


def _stacks(book: casebook.Casebook) -> Iterator[Stack]:
    for file, edges in book.edges.items():
        if any(word in edges.tail for word in _DUMPS):
            start = edges.cut
            yield from _of_text(edges.tail, start, file, book)
            yield from _of_lines(edges.tail, start, file, book)


def _of_text(data: bytes, at: int, file: str | None, book: casebook.Casebook) -> Iterator[Stack]:
    own = book.rank_of_file(file)
    rank, head, frames, main, place = own, "", list[str](), False, at
    for raw in data.splitlines(keepends=True):
        text = raw[:400].decode("utf-8", "replace").rstrip()
        thread = _THREAD.search(text)
        if _HEAD.search(prefixes.split(text).body) or _HEAD.search(text):
            if frames:
                yield Stack(rank, tuple(frames), head, place, file)
            told = _who(text, book)
            rank = rank if told is None and not frames else told  # two lines may introduce one stack
            rank = own if rank is None else rank
            head, frames, main, place = text, [], True, at
        elif thread and thread["name"] is None:
            main = bool(_CURRENT.match(text)) or not _CURRENT.match(head)
            if main:  # of several without a name the main thread comes last
                head, frames, place = text if own is not None else head, [], at
        elif thread:
            main = not frames and thread["name"] in _MAIN
        elif main and (frame := _FRAME.match(text)):
            frames.append(frame["call"])
        elif frames and text[:1].strip():
            main = False
        at += len(raw)
    if frames:
        yield Stack(rank, tuple(frames), head, place, file)


def _of_lines(data: bytes, at: int, file: str | None, book: casebook.Casebook) -> Iterator[Stack]:
    """Stacks that stand in one line each."""
    for raw in data.splitlines(keepends=True):
        text = raw[:_LINE].decode("utf-8", "replace").rstrip() if b":" in raw and b"(" in raw else ""
        frames = _in_one_line(text)
        if frames:
            told = _who(text, book)
            rank = book.rank_of_file(file) if told is None else told
            yield Stack(rank, frames, text[: text.find(" (")], at, file)
        at += len(raw)


def _in_one_line(text: str) -> tuple[str, ...]:
    """The frames of a stack that stands in one line, the innermost first."""
    said = _ONE_LINE.search(text)
    if said is None:
        return ()
    frames = tuple(_WITHIN.findall(text, said.end()))
    return frames[::-1] if _OUTERMOST_FIRST.search(text, said.end()) else frames


def _who(text: str, book: casebook.Casebook) -> int | None:
    said, pid = _RANK.search(text), _PID.search(text)
    front = prefixes.split(text)
    if said:
        return int(said["rank"])
    return book.voices.process(pid["pid"], front.node or "") if pid else None
