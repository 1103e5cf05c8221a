"""Files that name their siblings: `model-00001-of-00003`, `world_size_8_rank_3`, an index, ranks 0..n.

What such a name promises and the directory lacks makes the checkpoint partial.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from typing import Callable

from runward.checkpoint_readers import findings
from runward.checkpoint_readers.content import Content
from runward.checkpoint_readers.files import View

_OF = re.compile(r"(.*)-(\d{5})-of-(\d{5})(\..*)")
_WORLD = re.compile(r"(.*world_size_)(\d{1,7})(_rank_)(\d{1,7})(.*)")
_ZERO = re.compile(
    r"((?:bf16_|fp16_)?zero_pp_rank_)(\d{1,7})(_mp_rank_\d+(?:_\d+)?_(?:optim|model)_states\.pt)"
)
_RNG = re.compile(r"(rng_state_|random_states_)(\d{1,7})(\.\w+)")
_MP = re.compile(r"(mp_rank_)(\d{2,7})(_model_states\.pt)")
_INDEX = ".index.json"
_MAX_INDEX = 32 << 20


def check(root: str, contents: dict[str, Content]) -> Iterator[findings.Finding]:
    """Findings about one directory; `contents` by file name. Complete ones are not listed."""
    yield from _counted(contents)
    for series in (_ZERO, _RNG, _MP):
        yield from _ranks(contents, series)
    yield from _zero_world(contents)
    for name in contents:
        if name.endswith(_INDEX):
            yield from _index(root, name, contents)


def _counted(contents: dict[str, Content]) -> Iterator[findings.Finding]:
    """Names that say how many there are."""
    needed: dict[str, str] = {}
    for name in contents:
        of, world = _OF.fullmatch(name), _WORLD.fullmatch(name)
        if of is not None:
            series = (f"{of[1]}-{i:05d}-of-{of[3]}{of[4]}" for i in range(1, int(of[3]) + 1))
            stem, end = of[1], of[4]
            if end in {".safetensors", ".bin"} and int(of[3]) > 1:
                needed.setdefault(f"{stem}{end}{_INDEX}", name)
        elif world is not None:
            series = (f"{world[1]}{world[2]}{world[3]}{i}{world[5]}" for i in range(int(world[2])))
        else:
            continue
        missing = next((other for other in series if other not in contents), None)
        if missing is not None:
            yield findings.partial(f"{missing} is missing, {name} counts it")
            return
    for index, name in needed.items():
        if index not in contents:
            yield findings.partial(f"{index} is missing, which is written after {name}")


def _ranks(contents: dict[str, Content], series: re.Pattern[str]) -> Iterator[findings.Finding]:
    """Ranks 0 to the highest one seen must all be there."""
    seen: dict[tuple[str, str], set[int]] = {}
    for name in contents:
        match = series.fullmatch(name)
        if match is not None:
            seen.setdefault((match[1], match[3]), set()).add(int(match[2]))
    width = 2 if series is _MP else 1
    for (before, after), ranks in seen.items():
        gap = next(i for i in range(len(ranks) + 1) if i not in ranks)
        if gap < max(ranks):
            yield findings.partial(f"{before}{gap:0{width}d}{after} is missing, rank {max(ranks)} is there")


def _zero_world(contents: dict[str, Content]) -> Iterator[findings.Finding]:
    """DeepSpeed writes the count of data-parallel ranks into the model states."""
    world = _number(contents.values(), "dp_world_size")
    shards = [match for match in map(_ZERO.fullmatch, contents) if match is not None]
    if world is None or not shards:
        return
    for before, after in sorted({(match[1], match[3]) for match in shards}):
        have = {int(match[2]) for match in shards if (match[1], match[3]) == (before, after)}
        missing = next((i for i in range(world) if i not in have), None) if world <= 1 << 20 else None
        if missing is not None:
            yield findings.partial(
                f"{before}{missing}{after} is missing, the model states name {world} ranks"
            )


def _number(contents: Iterable[Content], key: str) -> int | None:
    for content in contents:
        value = dict(content.values).get(key)
        if type(value) is int and value > 0:
            return value
    return None


def _index(root: str, name: str, contents: dict[str, Content]) -> Iterator[findings.Finding]:
    """The index of shards: every file that it names, and in it every tensor."""
    try:
        with View(os.path.join(root, name)) as view:
            data = json.loads(view.read(0, _MAX_INDEX))
        shards = data["weight_map"]
        pairs = [(str(tensor), str(shard)) for tensor, shard in shards.items()]
    except OSError as error:
        yield findings.of_error(error, name)
        return
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        yield findings.damaged(f"{name}: no index of shards")
        return
    yield from _first(_misplaced(name, pairs, contents.get))


def _misplaced(
    name: str, pairs: list[tuple[str, str]], find: Callable[[str], Content | None]
) -> Iterator[findings.Finding]:
    for tensor, shard in pairs:
        content = find(shard)
        if content is None:
            yield findings.partial(f"{shard} is missing, {name} names it")
        elif content.tensors and tensor not in content.tensors:
            yield findings.damaged(f"{shard} has no tensor {tensor[:80]!r}, {name} names it there")


def _first(found: Iterator[findings.Finding]) -> Iterator[findings.Finding]:
    one = next(found, None)
    if one is not None:
        yield one
