"""Which rank a worker is by its name, where the log says elsewhere what its parts mean.

vLLM names the place in the parallel layout, `(Worker_PP1_TP3 pid=71)`, and says once what each rank is: `rank 7 in
world size 8 is assigned as DP rank 0, PP rank 1, TP rank 3`. Verl names group and number, `name: x7WorkerDict_1:2`:
how many ranks a group holds is the number of GPUs a node.
"""

import re
from collections.abc import Iterable, Mapping

from runward.core import casebook, regexes

_NAMED = r"\(\w{0,40}Worker(?:Proc)?[_ ](?P<parts>(?:[A-Z]{2,3}\d{1,4}[_ ]){1,6})pid=\d"
_PART = r"([A-Z]{2,3})(\d{1,4})"
_ASSIGNED = (
    rb"(?m)\brank (\d{1,6}) in world size \d{1,6} is assigned as ((?:[A-Z]{2,3} rank \d{1,4}[, ]{0,2}){1,8})"
)
_GIVEN = rb"([A-Z]{2,3}) rank (\d{1,4})"


def of_actor(pids: Iterable[str], book: casebook.Casebook) -> int | None:
    """The rank of the dead actor of one of these processes; without any of the only one that is told of."""
    told = [found for edges in book.edges.values() for found in regexes.ready(_ACTOR).finditer(edges.tail)]
    wanted = {pid.encode() for pid in pids}
    told = [found for found in told if found["pid"] in wanted] or [
        f for f in told if not (f["pid"] and wanted)
    ]
    named = {(found["group"], found["number"]) for found in told}
    if len(named) != 1:
        return None
    group, number = map(int, named.pop())
    if not group:
        return number
    texts = (text for edges in book.edges.values() for text in (edges.head, edges.tail))
    sizes = {int(size) for text in texts for size in regexes.ready(_GROUP_SIZE).findall(text)}
    size = sizes.pop() if len(sizes) == 1 else 0
    return group * size + number if number < size else None


_ACTOR = (
    rb"(?:\n\s{0,16}pid: (?P<pid>\d{1,8})\s*)?\n\s{0,16}name: \w{0,40}Worker\w{0,20}"
    rb"_(?P<group>\d{1,4}):(?P<number>\d{1,4})\s*\n"
)
_GROUP_SIZE = rb"\bn_gpus_per_node['\"]?[ =:]{1,3}['\"]?(\d{1,3})\b"


def at_place(text: str, book: casebook.Casebook) -> int | None:
    """The one rank that was given the place by which a line names its speaker."""
    named = regexes.ready(_NAMED).search(text)
    if named is None:
        return None
    place = {name: int(number) for name, number in regexes.ready(_PART).findall(named["parts"])}
    ranks = {one for one, given in _assigned(book) if _fits(place, given)}
    return ranks.pop() if len(ranks) == 1 else None


def _fits(place: Mapping[str, int], given: Mapping[str, int]) -> bool:
    """Whether a rank's place is the named one; what a name leaves out is 0."""
    known = place.keys() & given.keys()
    told = all(place[name] == given[name] for name in known)
    return bool(known) and told and all(not given[name] for name in given.keys() - known - _OF_EXPERTS)


_OF_EXPERTS = {"EP", "EPLB"}
"""What is no place of its own: experts lie across the others."""


def _assigned(book: casebook.Casebook) -> list[tuple[int, dict[str, int]]]:
    found: list[re.Match[bytes]] = []
    for edges in book.edges.values():
        if b" is assigned as " in edges.head:
            found += regexes.ready(_ASSIGNED).finditer(edges.head)
    return [
        (int(one[1]), {name.decode(): int(number) for name, number in regexes.ready(_GIVEN).findall(one[2])})
        for one in found
    ]
