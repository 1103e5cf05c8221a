"""The one rank whose set-up is unlike that of all others: another version, a loopback address, its own NCCL fault.

Those that meet say only that they do not fit together; what each said of itself before tells which one is to blame.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator

from runward.core import casebook, failures, missed, prefixes, regexes

_VERSION = (
    r"(?i)\b(?P<what>[nrh]ccl|cuda|cudnn|driver|(?:py)?torch|python|jax|libfabric|plugin)"
    r"(?:[ _-]?version)?['\"]?[ :=/]{1,3}v?(?P<value>\d{1,4}\.[\w.+-]{1,40})"
)
_LIBRARY = (
    r"(?i)\b(?P<what>load(?:ed|ing)?|using|from|path|library)\b[^/]{0,40}"
    r"(?P<value>/[\w./+-]{1,200}\.so[\w.]{0,20})"
)
_INTERFACE = (
    r"\b(?P<what>Bootstrap ?: Using|NET/\w{2,8} ?: Using|IFNAME\w* (?:set )?(?:by environment )?to) "
    r"(?P<value>\[?[a-z]\w{1,20})"
)
_GID = r"(?i)\b(?P<what>GID)(?: index)?[ :=]{1,3}(?P<value>\d{1,3})\b"
_SETUPS = (
    (b".", _VERSION),
    (b".so", _LIBRARY),
    (b"sing ", _INTERFACE),
    (b"IFNAME", _INTERFACE),
    (b"GID", _GID),
    (b"gid", _GID),
)
_ADDRESS = r"(?<![\w.])(?P<value>\d{1,3}(?:\.\d{1,3}){3})\b"
_ANNOUNCES = (
    r"(?i)\b(?:device|addr(?:ess)?|ip|host|listen\w*|bind\w*|bound|publish\w*|advertis\w*|announc\w*|using|endpoint"
    r"|interface|register\w*)\b"
)
_SEEKS = (
    r"(?i)\b(?:connect\w*|refused|failed|master|peer|store|remote|from|proxy|rendezvous|rdzv"
    r"|metrics?|prometheus|\w{0,10}board|debug\w*|profil\w+|https?|web|ui|server)\b"
)
"""Words of a line about the address of somebody else, or of what serves people."""
_UNLIKE = r"\d+|\b\w{1,20}:?\[?$"
"""Numbers, and the interface right before an address: what differs from rank to rank."""
_LOOP, _ANYWHERE = "127.", "0.0.0.0"  # noqa: S104 -- read, not bound
_FEW, _LINE, _MOST = 3, 400, 2048
Told = Iterator[tuple[int, str, failures.Evidence]]


def other(book: casebook.Casebook, *, versions: bool) -> missed.Suspects | None:
    """The one rank that tells another version than all others in the words of all; or library, interface, index."""
    return _odd(book, _SETUPS[:1] if versions else _SETUPS, _unlike)


def loopback(book: casebook.Casebook) -> missed.Suspects | None:
    """The one rank that gives its peers an address at which each finds only itself, where others give real ones."""
    if book.progress or not any(b"127." in edges.text for edges in book.edges.values()):
        return None
    return _odd(book, ((b".", _ADDRESS),), _at_loopback)


def _odd(
    book: casebook.Casebook,
    setups: tuple[tuple[bytes, str], ...],
    judge: Callable[[dict[int, str]], tuple[int, str] | None],
) -> missed.Suspects | None:
    told: dict[str, dict[int, str]] = {}
    proofs: dict[tuple[str, int], failures.Evidence] = {}
    for word, pattern in setups:
        for rank, text, proof in _lines(book, word, pattern):
            body = prefixes.split(text).body
            found = regexes.ready(pattern).search(body)
            said = body[: found.start("value")] if found else ""
            if found is None or (judge is _at_loopback and not _announced(said)):
                continue
            key = f"{pattern[:20]} {regexes.ready(_UNLIKE).sub('', said)}"
            told.setdefault(key, {}).setdefault(rank, found["value"])
            proofs.setdefault((key, rank), proof)
    for key, own in told.items():
        odd = judge(own) if own.keys() >= book.ranks else None
        if odd is not None:
            return missed.Suspects((odd[0],), odd[1], proven=False, proof=(proofs[key, odd[0]],), setup=True)
    return None


def _unlike(own: dict[int, str]) -> tuple[int, str] | None:
    usual, count = Counter(own.values()).most_common(1)[0]
    odd = [rank for rank, value in own.items() if value != usual]
    if len(own) < _FEW or len(odd) != 1 or count < len(own) - 1:
        return None
    return odd[0], f"it has {own[odd[0]]}, each other {usual}"


def _at_loopback(own: dict[int, str]) -> tuple[int, str] | None:
    odd = [rank for rank, value in own.items() if value.startswith(_LOOP)]
    anywhere = any(value == _ANYWHERE for value in own.values())
    if len(odd) != 1 or len(own) < 2 or anywhere:
        return None
    return odd[0], f"it gives its peers the address {own[odd[0]]}, at which they find themselves"


def _announced(body: str) -> bool:
    return bool(regexes.ready(_ANNOUNCES).search(body)) and not regexes.ready(_SEEKS).search(body)


def _lines(book: casebook.Casebook, word: bytes, pattern: str) -> Told:
    """The first lines of ranks that hold a word and match a pattern."""
    seek = re.compile(pattern.encode())
    for file, edges in book.edges.items():
        text, at, left = edges.text, 0, _MOST
        for raw in text.splitlines(keepends=True) if word in text else ():
            start, at = at, at + len(raw)
            if not left or word not in raw or not seek.search(raw[:_LINE]):
                continue
            left -= 1
            line = raw[:_LINE].decode("utf-8", "replace")
            front = prefixes.on(prefixes.split(line), edges.node)
            rank = front.rank if front.rank is not None else book.voices.rank(front.voice)
            rank = book.rank_of_file(file) if rank is None else rank
            if rank is not None:
                place = start if start < len(edges.head) else start + edges.size - len(text)
                proof = failures.Evidence(line.strip(), file=file, offset=place, rank=rank, source="log")
                yield rank, line, proof
