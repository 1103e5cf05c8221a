"""Collectives as NCCL logs them where it is asked to (`NCCL_DEBUG_SUBSYS=COLL`): the process that calls another one.

`host:pid:tid [4] NCCL INFO AllGather: opCount f7 ... count 384 datatype 0 op 0 root 0 comm 0x7f [nranks=8]`
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from runward.core import casebook, failures, missed, prefixes, regexes, voices

_WORD = b": opCount "
_CALL = (
    r"NCCL INFO (?P<op>AllReduce|AllGather|ReduceScatter|Reduce|Broadcast): opCount (?P<number>[0-9a-f]{1,16})\b"
    r".{0,120}? count (?P<count>\d{1,15}) datatype (?P<type>\d{1,3}) op (?P<reduce>\d{1,4}) root (?P<root>\d{1,6})\b"
    r" comm (?P<comm>\w{1,20}) \[nranks=(?P<world>\d{1,6})\]"
)
"""Calls that all ranks of a group make with one size."""
_LEAST, _LINE = 3, 600


class Call(NamedTuple):
    """One process at one call."""

    number: int
    world: int
    """How many ranks its group has."""
    group: str
    """The communicator, as this process knows it."""
    what: tuple[str, ...]
    """Operation, count, type, reduction and root: equal in all ranks."""
    text: str
    file: str | None
    offset: int
    voice: voices.Voice
    node: str


def odd_one(book: casebook.Casebook) -> missed.Suspects | None:
    """The one process that calls something else than all others under the same number, or does not come to the last.

    Only of the group of all processes that are heard of, where each has one such group.
    """
    heard = list(_calls(book))
    world = max((call.world for call in heard), default=0)
    of_all = [call for call in heard if call.world == world]
    processes = {call.voice.name for call in heard}
    groups = {(call.voice.name, call.group) for call in of_all}
    if world < _LEAST or not len(processes) == len(groups) == world:
        return None
    calls: dict[int, dict[str, Call]] = {}
    for call in of_all:
        calls.setdefault(call.number, {}).setdefault(call.voice.name, call)
    return _unlike(calls, world, book) or _late(calls, world, book)


def _unlike(calls: dict[int, dict[str, Call]], world: int, book: casebook.Casebook) -> missed.Suspects | None:
    for number, told in reversed(calls.items()):
        kinds = Counter(call.what for call in told.values()).most_common()
        if len(told) == world and len(kinds) == 2 and kinds[1][1] == 1:
            (usual, _), (odd, _) = kinds
            call = next(one for one in told.values() if one.what == odd)
            why = f"in call {number:x} it makes {_words(odd)}, all others {_words(usual)}"
            return _suspect(call, told, why, book, failures.Action.HOLD)
    return None


def _late(calls: dict[int, dict[str, Call]], world: int, book: casebook.Casebook) -> missed.Suspects | None:
    last = {name: call for _, told in sorted(calls.items()) for name, call in told.items()}
    numbers = Counter(call.number for call in last.values())
    call = min(last.values(), key=lambda one: one.number)
    if len(last) < world or len(numbers) != 2 or numbers[call.number] != 1:
        return None
    return _suspect(call, last, f"its calls end with {call.number:x}, those of all others later", book)


def _words(what: tuple[str, ...]) -> str:
    return f"{what[0]} of {what[1]}"


def _suspect(
    call: Call, told: dict[str, Call], why: str, book: casebook.Casebook, helps: failures.Action | None = None
) -> missed.Suspects:
    rank = book.voices.rank(call.voice)
    numbers = sorted(one.voice.number for one in told.values() if one.voice.number is not None)
    if rank is None and len({one.node for one in told.values()}) == 1 and numbers == [*range(len(told))]:
        rank = call.voice.number  # one machine holds all of them
    proof = failures.Evidence(call.text, file=call.file, offset=call.offset, rank=rank, source="log")
    ranks = () if rank is None else (rank,)
    return missed.Suspects(ranks, why, proven=False, proof=(proof,), helps=helps)


def _calls(book: casebook.Casebook) -> Iterator[Call]:
    for file, edges in book.edges.items():
        if _WORD not in edges.tail:
            continue
        at = edges.cut
        for raw in edges.tail.splitlines(keepends=True):
            text = raw[:_LINE].decode("utf-8", "replace").rstrip() if _WORD in raw else ""
            found = regexes.ready(_CALL).search(text) if text else None
            if found is not None:
                front = prefixes.on(prefixes.split(text), edges.node)
                if front.voice.name:
                    what = found["op"], found["count"], found["type"], found["reduce"], found["root"]
                    number, world = int(found["number"], 16), int(found["world"])
                    yield Call(
                        number, world, found["comm"], what, text, file, at, front.voice, front.node or ""
                    )
            at += len(raw)
