"""Machines and pods that are counted from the one where all meet: one rank each, its own number.

`trainer-0.trainer:29500` as the meeting point of all, one process on each, and speakers `trainer-0` to `trainer-7`.
"""

import re
from collections.abc import Iterator

from runward.core import casebook, regexes

_HEAD = (
    rb"(?i)(?:rdzv[_-]endpoint|master_addr(?:ess)?|main_process_ip|coordinator_address|head_node(?:_ip|_addr)?)"
    rb"['\"]?[ =:]{1,3}['\"]?(?P<base>[a-z][\w-]{0,60}?)(?P<zeros>0{1,4})(?![\w-])"
)
_PROCESSES = (
    rb"(?i)n(?:um)?_?proc(?:es(?:ses)?)?[_-]per[_-](?:node|machine)['\"]?[ =:]{1,3}['\"]?(\d{1,3})(?!\d)"
)
_LEAST, _FRONT = 3, 16 << 10


def counted(book: casebook.Casebook) -> dict[str, int]:
    """The ranks of such machines by their names; empty where one of them is not heard of, or holds several."""
    fronts = [edges.head[:_FRONT] for edges in book.edges.values()]
    heads = {(one["base"], len(one["zeros"])) for one in _found(_HEAD, fronts)}
    processes = {int(one[1]) for one in _found(_PROCESSES, fronts)}
    if len(heads) != 1 or processes != {1}:
        return {}
    (base, width) = heads.pop()
    names = set(_names(base, book))
    wanted = {f"{base.decode()}{n:0{width}d}": n for n in range(len(names))}
    return wanted if names == wanted.keys() and len(names) >= _LEAST else {}


def _found(pattern: bytes, texts: list[bytes]) -> Iterator[re.Match[bytes]]:
    for text in texts:
        yield from regexes.ready(pattern).finditer(text)


def _names(base: bytes, book: casebook.Casebook) -> Iterator[str]:
    """The names of this kind at the beginning of lines, or of logs."""
    front = rb"(?m)^\W{0,2}(?:pod/)?(" + re.escape(base) + rb"\d{1,4})(?=[\]:|/ ])"
    for file, edges in book.edges.items():
        name = (file or "").rpartition("/")[2].partition(".")[0]
        if name.startswith(base.decode()) and name[len(base) :].isdecimal():
            yield name
        for text in (edges.head, edges.tail) if base in edges.head else ():
            for found in regexes.ready(front).findall(text):
                yield found.decode()
