"""Ranks of machines that hold one each, of which their own lines tell no rank."""

from collections import Counter

from runward.core import casebook, prefixes, regexes, voices, whose

_ONE = rb"nproc[_-]per[_-]node[ =:]{1,3}['\"]?(?P<count>\d{1,3}|gpu|auto)\b"
_GATHERS = r"\bOpType=_?ALLGATHER\w*, NumelIn=(?P<own>\d{1,15}), NumelOut=(?P<all>\d{1,15})\b"
_ENDS = "elastic_closing"
"""The rule for a launcher that ends a process of its own machine; DeepSpeed's tells it of each."""
_ENDED = r"\bKilling subprocess (?P<pid>\d{1,8})\b"
_LINES, _LINE = 400, 300


def of_one_process(case: whose.Case) -> int | None:
    """The only rank that signs lines of a log whose launcher was told to start one process."""
    entry = case.chosen.entry
    edges = case.book.edges.get(entry.signal.file) if entry is not None else None
    if edges is None or b"nproc" not in edges.text:
        return None
    if set(regexes.ready(_ONE).findall(edges.text)) != {b"1"}:
        return None
    lines = [line for line in edges.text.splitlines() if b"ank" in line[:_LINE]][:_LINES]
    fronts = (prefixes.split(line[:_LINE].decode("utf-8", "replace")) for line in lines)
    ranks = {front.rank for front in fronts if front.rank is not None and not front.voice.assumed}
    return ranks.pop() if len(ranks) == 1 else None


def of_last_node(case: whose.Case) -> int | None:
    """The rank that is left for a machine, where each of all others is known to hold one, and so does this one."""
    book, own = case.book, voices.short(case.chosen.node)
    nodes = {voices.short(node) for node in book.nodes}
    if own not in nodes or len(nodes) < 2 or book.voices.on_node(own):
        return None
    told = [book.voices.on_node(node) for node in nodes - {own}]
    known = {min(ranks) for ranks in told if len(ranks) == 1}
    left = set(range(len(nodes))) - known
    whole = len(known) == len(told) and len(left) == 1 and case.known.world in (None, len(nodes))
    return left.pop() if whole and book.ranks <= known and _one_each(book, own, len(nodes)) else None


def _one_each(book: casebook.Casebook, own: str, nodes: int) -> bool:
    """Whether a launcher ended one process on that machine and nowhere several, or a gather is of as many ranks."""
    ended: set[tuple[str, str]] = set()
    for entry in book.of_rule(_ENDS):
        found = regexes.ready(_ENDED).search(entry.signal.text)
        ended |= {(voices.short(entry.signal.node), found["pid"])} if found else set()
    counts = Counter(node for node, _ in ended)
    if counts:
        return counts[own] == 1 == max(counts.values())
    gathers = (regexes.ready(_GATHERS).search(entry.signal.text) for entry in book.with_field("op"))
    sizes = {divmod(int(found["all"]), int(found["own"]) or 1) for found in gathers if found}
    return sizes == {(nodes, 0)}
