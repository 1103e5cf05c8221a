"""torch.distributed.checkpoint: shards `__RANK_N.distcp` and `.metadata`, which is written last.

`.metadata` is a pickle that says where each piece lies. Only the furthest byte of every shard is kept;
a large one is walked in a child with limits, because millions of opcodes take seconds and memory.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import NamedTuple

from runward.checkpoint_readers import findings, pickles, zips
from runward.checkpoint_readers.files import Entry, View
from runward.checkpoint_readers.pace import Pace

METADATA = ".metadata"
SHARD = re.compile(r"__(\d{1,9})_(\d{1,9})\.distcp")
_MAX_METADATA = 64 << 20
_SMALL = 256 << 10
_CHILD_MEMORY = 1 << 30
_CHILD_CPU_S = 60


class Spans(NamedTuple):
    """What `.metadata` says about the shards."""

    ends: dict[str, int]
    """Bytes that each named file must have at least."""
    plain: bool
    """Whether the items are stored as they are (zips), not through a transform."""


def spans(data: bytes) -> Spans:
    """The shards that `.metadata` names. Raises BadPickle."""
    ends: dict[str, int] = {}
    plain, stage, path, offset = True, 0, "", 0
    for atom in pickles.atoms(data):
        if atom == "relative_path":
            stage = 1
        elif stage == 1 and isinstance(atom, str):
            stage, path = 2, atom
        elif stage in {2, 4} and atom == ("offset" if stage == 2 else "length"):
            stage += 1
        elif stage == 3 and type(atom) is int:
            stage, offset = 4, atom
        elif stage == 5 and type(atom) is int:
            stage = 6
            ends[path] = max(ends.get(path, 0), offset + atom)
        elif stage == 6 and atom == "transform_descriptors":
            stage = 7
        else:
            plain = plain and (stage != 7 or atom is None)
            stage = 0
    return Spans(ends, plain)


def check(root: str, shards: dict[str, Entry], metadata: Entry | None, pace: Pace | None) -> findings.Finding:
    """The verdict about one DCP directory; `shards` by name. With a `pace` the items' checksums are read."""
    if metadata is None:
        return findings.Finding(
            findings.UNCOMMITTED,
            ".metadata is missing, which is written when all shards are there",
            findings.NONE,
        )
    try:
        found = _spans_of(
            os.path.join(root, METADATA), metadata.size, thorough=pace is not None and not pace.hurried
        )
    except OSError as error:
        return findings.of_error(error, METADATA)
    except pickles.BadPickle as error:
        return findings.damaged(f".metadata: {error}")
    if isinstance(found, findings.Finding):
        return findings.combine([found, _by_presence(shards)])
    named = _named(found, shards)
    if named.state != findings.COMPLETE or not found.plain:
        return named
    return findings.combine([named, *(_items(root, name, pace) for name in sorted(found.ends))])


def _spans_of(path: str, size: int, *, thorough: bool) -> Spans | findings.Finding:
    """What `.metadata` says, or why it was not walked."""
    if size > _MAX_METADATA:
        return findings.complete(findings.NONE, f".metadata has {size >> 20} MiB and was not walked")
    if size > _SMALL:
        return (
            _in_child(path)
            if thorough
            else findings.complete(findings.UNREAD, ".metadata was not walked yet")
        )
    with View(path) as view:
        return spans(view.read(0, view.size))


def _named(found: Spans, shards: dict[str, Entry]) -> findings.Finding:
    if not found.ends:
        return _by_presence(shards)
    for name in sorted(found.ends):
        if name not in shards:
            return findings.partial(f"{name} is missing, .metadata names it")
        if shards[name].size < found.ends[name]:
            return findings.partial(f"{name} has {shards[name].size} of {found.ends[name]} bytes")
    return findings.complete(findings.NEUTRAL if found.plain else findings.NONE)


def _by_presence(shards: dict[str, Entry]) -> findings.Finding:
    """Without the sizes: every rank must have the same count of files, and none may be empty."""
    files: dict[int, set[int]] = {}
    for name, entry in shards.items():
        match = SHARD.fullmatch(name)
        if match is not None:
            files.setdefault(int(match[1]), set()).add(int(match[2]))
            if entry.size == 0:
                return findings.damaged(f"{name}: empty file")
    if not files:
        return findings.partial("no shard is there")
    most = max(len(parts) for parts in files.values())
    for rank in range(max(files) + 1 if max(files) < 2 * len(files) + 8 else 0):
        have = len(files.get(rank, ()))
        if have < most:
            return findings.partial(f"rank {rank} has {have} of {most} shards")
    return findings.complete(findings.NONE)


def _items(root: str, name: str, pace: Pace | None) -> findings.Finding:
    """The items of a shard are zip archives end to end: walked from the last to the first."""
    try:
        with View(os.path.join(root, name)) as view:
            return _chain(view, name, pace)
    except OSError as error:
        return findings.of_error(error, name)


def _chain(view: View, name: str, pace: Pace | None) -> findings.Finding:
    end, seen = view.size, findings.NEUTRAL
    head = view.read(0, 64)
    if not any(head):
        return findings.damaged(f"{name}: begins with zeros")
    if not head.startswith(zips.LOCAL) and (end < 22 or view.read(end - 22, 4) != zips.END):
        return findings.complete(findings.NONE)  # another format of items: nothing to compare with
    try:
        while end > 0:
            archive = zips.locate(view, end)
            seen = max(seen, zips.check(view, archive, pace).checksum)
            if pace is None:
                return findings.complete(seen)  # the last item says whether checksums exist
            end = archive.start
    except zips.BadZip as error:
        return findings.damaged(f"{name}: item that ends at byte {end}: {error}")
    except zips.TooLarge:
        return findings.complete(findings.NONE)
    return findings.complete(seen)


def _in_child(path: str) -> Spans | findings.Finding:
    """Walk in a child with limits on memory and processor time."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); "
        "from runward.checkpoint_readers import dcp; dcp.child(sys.argv[2])"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", code, here, path],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=10 * _CHILD_CPU_S,
            check=False,
        )
        answer = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, subprocess.SubprocessError, ValueError):
        answer = None
    if not isinstance(answer, dict):
        return findings.complete(findings.NONE, ".metadata was not walked: over its limits of memory or time")
    if "bad" in answer:
        raise pickles.BadPickle(str(answer["bad"]))
    return Spans({str(name): int(end) for name, end in answer["ends"].items()}, bool(answer["plain"]))


def child(path: str) -> None:
    """The child's main: limits itself, prints the spans as JSON."""
    import resource  # noqa: PLC0415 -- only the child needs it

    resource.setrlimit(resource.RLIMIT_AS, (_CHILD_MEMORY, _CHILD_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_CHILD_CPU_S, _CHILD_CPU_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(19)
    with View(path) as view:
        data = view.read(0, min(view.size, _MAX_METADATA))
    try:
        found = spans(data)
        answer: dict[str, object] = {"ends": found.ends, "plain": found.plain}
    except pickles.BadPickle as error:
        answer = {"bad": str(error)}
    json.dump(answer, sys.stdout)
