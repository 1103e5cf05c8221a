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
    r"(?:host(?:_?name)?|(?:slurmd_)?node(?:_?name)?|machine|server|instance(?:[_-]?id)?|pod(?:_?name)?|vm)"
    r"['\"]?[ =:]{1,3}['\"]?"
)
_AT = rf"\b(?:(?:\w{{1,12}}_)?ip|addr(?:ess)?)['\"]?[ =:]{{1,3}}['\"]?(?P<address>{_ADDRESS})"
_RANK = (
    r"(?<![\w-])(?<!local )(?<!node )(?<!group )(?<!machine )"
    r"(?:(?:global|world)[ _-]?)?(?:rank|slurm_procid)['\"]?[ =:#]{0,3}"
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
    (rf"(?i)^{_TELLING}:? {_RANK}", ("-", *"0123456789")),
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
    also: tuple[str, ...] = ()
    """Other names that the same line has for it: its address, the pod that runs there."""


_OF_SPEAKER = rf"(?i)(?:(?:is |runs |running )?(?:on |at ))?{_PLACE}{_NAME}"
_ARRIVES = r"(?i)[, ]{1,2}(?:ready|up|joined|started|connected)\b"
"""What a machine does of which another one may tell."""


def told(body: str, low: str, rank: int | None) -> Iterator[Place]:
    """The places that a message of a rank tells, where it is known; `low`: the same in lower case."""
    own = regexes.find(_OF_SPEAKER, body[:_FRONT], low, *_MACHINES)
    stays = own is not None and not own.start() and not regexes.ready(_ARRIVES).match(body, own.end())
    if rank is not None and own is not None and stays and regexes.ready(_MORE).match(body, own.end()):
        yield Place(rank, own["node"])
    for pattern, words in _SIDE_BY_SIDE if "rank" in low or "procid" in low else ():
        found = regexes.find(pattern, body, low, *words)
        if found is None or not regexes.ready(_MORE).match(body, found.end()):
            continue
        named = [one["node"] for one in regexes.ready(_PLACE + _NAME).finditer(body)]
        at = regexes.find(_AT, body, low, "ip", "addr")
        names = [*([found["node"]] if found["node"] else named), *named, *([at["address"]] if at else [])]
        yield Place(int(found["rank"]), names[0], tuple(names[1:]))


_ENTRY = (
    rf"(?i)(?<![\w./-]){_TELLING} ?(?:=|:|->) ?(?:global )?rank[ _-]?(?P<rank>\d{{1,6}})(?![\w.])"
    rf"|(?<![\w-])rank[ _-]?(?P<rank2>\d{{1,6}}) ?(?:=|:|->) ?{_TELLING.replace('<node>', '<node2>')}(?=[,;)\]}}\s]|$)"
)
"""An entry of a list of all in one line."""


def listed(body: str) -> list[Place]:
    """The places of a list in one line: `hosts: a1=rank0 a2=rank1`."""
    found = [
        Place(int(one["rank"] or one["rank2"]), one["node"] or one["node2"])
        for one in regexes.ready(_ENTRY).finditer(body)
    ]
    return found if len({place.rank for place in found}) == len(found) > 1 else []


_ON = (
    r"(?m)^(?:\S+ +)?(?P<pod>[a-z0-9][\w.-]{1,80}) +\d{1,3}/\d{1,3} .{0,80}? (?P<ip>\d{1,3}(?:\.\d{1,3}){3}|<none>) +"
    r"(?P<node>[A-Za-z][\w.-]{1,80})\b"
    r"|\bSuccessfully assigned (?:[\w.-]{1,80}/)?(?P<given>[\w.-]{1,80}) to (?P<to>[A-Za-z][\w.-]{1,80}\w)"
)
_LISTS = (b" READY ", b"Successfully assigned ")


def pods(text: bytes) -> Iterator[tuple[str, str]]:
    """What a list of Kubernetes or its scheduler tells of pods: the name of the node or an address, and the pod."""
    if not any(word in text for word in _LISTS):
        return
    for found in regexes.ready(_ON).finditer(text.decode("utf-8", "replace")):
        pod = found["pod"] or found["given"]
        yield found["node"] or found["to"], pod
        if found["ip"] and found["ip"][:1].isdigit():
            yield found["ip"], pod
