"""Lines that name one rank and its place side by side, as programs and launchers list them at the start.

`rank 2 host uc3 addr 10.7.0.13`, `hostname=cn4, rank=3`, `fit-2 (rank 2)`: what else such a line says is of the same
kind, so that a complaint that names both, `rank 3: host cn4 unreachable`, is none of them.
"""

from collections.abc import Iterator
from typing import NamedTuple

from runward.core import regexes, speakers

NO_HOST = (
    rf"(?!(?i:{speakers.NO_NODES}|local|port|cpu|core|device|pool|slice|replica|partition"
    r"|slot|split|model|subset|ddp|fsdp|ring|tree|world|set|part|file|seed|data)[-_.]?\d)"
)
"""Parts of a layout, a model or a data set, which are counted like machines."""
_ADDRESS = r"\d{1,3}(?:\.\d{1,3}){3}"
_NAME = rf"(?P<node>{NO_HOST}(?:[A-Za-z][\w.-]{{0,60}}\w|{_ADDRESS}))"
_TELLING = rf"(?P<node>{NO_HOST}(?:(?=[A-Za-z.]{{0,60}}[\d-])[A-Za-z][\w.-]{{0,60}}\w|{_ADDRESS}))"
"""A name that is surely one: with a number or a hyphen in it."""
_PLACE = (
    r"(?:host(?:_?name)?|node(?:_?name)?|machine|server|instance(?:[_-]?id)?|pod(?:_?name)?|vm)"
    r"['\"]?[ =:]{1,3}['\"]?"
)
_AT = rf"\b(?:(?:\w{{1,12}}_)?ip|addr(?:ess)?)['\"]?[ =:]{{1,3}}['\"]?(?P<address>{_ADDRESS})"
_RANK = (
    r"(?<![\w-])(?<!local )(?<!node )(?<!group )(?<!machine )(?:(?:global|world)[ _-]?)?rank['\"]?[ =:#]{0,3}"
    r"(?P<rank>\d{1,6})(?![\w.])(?:(?:/| of )\d{1,6})?"
)
_GAP = r"['\"]?(?:, ?|; ?|: | [-=]> | \| | )['\"]?"
_IS = r"(?:(?:is|runs|running|placed|up) )?(?:(?:on|at|in) )?"
_MACHINES = ("host", "node", "machine", "server", "instance", "pod", "vm")
_FRONT = 120
_SIDE_BY_SIDE = (
    (rf"(?i){_RANK}{_GAP}{_IS}{_PLACE}{_NAME}", _MACHINES),
    (rf"(?i)(?<![\w-]){_PLACE}{_NAME}{_GAP}(?:(?:has|holds|runs|is) )?{_RANK}", _MACHINES),
    (rf"(?i)(?<![\w./-]){_TELLING} \((?:global )?{_RANK}\)", (" (",)),
    (rf"(?i){_RANK} \({_TELLING}(?:[,:][^()\n]{{0,60}})?\)", (" (",)),
    (rf"(?i){_RANK}{_GAP}{_IS}(?P<node>){_AT}", ("ip", "addr")),
    (rf"(?i)(?P<node>){_AT}{_GAP}(?:(?:has|holds|runs|is) )?{_RANK}", ("ip", "addr")),
)
"""The two, in either order, and words without one of which they are not there."""
_MORE = (
    r"(?i)['\"]?(?:[,;|()\]\[ ]{1,3}['\"]?(?:(?:\w{1,12}_)?ip|addr(?:ess)?|gpus?|devices?|dev|pids?|local\w*|world\w*"
    r"|ports?|slots?|cpus?|cores?|numa|nics?|node\w*|host\w*|rank|bus|uuid|ready|up|joined|started|connected|of)\b"
    r"|[ \t]*[)\]},;=*#~-]{0,9}[ \t]*$)"
)
"""What stands behind it where nothing else is said: more of the same kind, or nothing."""


class Place(NamedTuple):
    """Where one rank is."""

    rank: int
    node: str
    address: str
    """Of the same machine; equal to `node` where that is all that is told."""


_OF_SPEAKER = rf"(?i)(?:(?:is |runs |running )?(?:on |at ))?{_PLACE}{_NAME}"
_ARRIVES = r"(?i)[, ]{1,2}(?:ready|up|joined|started|connected)\b"
"""What a machine does of which another one may tell."""


def told(body: str, low: str, rank: int | None) -> Iterator[Place]:
    """The places that a message of a rank tells, where it is known; `low`: the same in lower case."""
    own = regexes.find(_OF_SPEAKER, body[:_FRONT], low, *_MACHINES)
    stays = own is not None and not own.start() and not regexes.ready(_ARRIVES).match(body, own.end())
    if rank is not None and own is not None and stays and regexes.ready(_MORE).match(body, own.end()):
        yield Place(rank, own["node"], own["node"])
    for pattern, words in _SIDE_BY_SIDE if "rank" in low else ():
        found = regexes.find(pattern, body, low, *words)
        if found is None or not regexes.ready(_MORE).match(body, found.end()):
            continue
        at = regexes.find(_AT, body, low, "ip", "addr")
        address = at["address"] if at else ""
        yield Place(int(found["rank"]), found["node"] or address, address or found["node"])
