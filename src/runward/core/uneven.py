"""The rank that has fewer batches than the others: they wait for it in calls that it does not make any more."""

from collections import Counter
from collections.abc import Iterator

from runward.core import casebook, failures, missed, prefixes, regexes, unlike_calls

_DATA = r"(?:data(?:set|loader)?|batch(?:es)?|samples?|shards?|iterator|loader|examples?|records?|items?)"
_OUT = (
    rf"(?i)\b{_DATA}\b.{{0,24}}\b(?:exhausted|ran out|used up|is empty|at its end)\b"
    rf"|\b(?:exhausted|ran out of|no more|out of|nothing left (?:in|of))\b.{{0,24}}\b{_DATA}\b"
)
"""Words of a rank that has no more data."""
_ENDED = (
    b"exhausted",
    b"ran out",
    b"no more",
    b"out of",
    b"used up",
    b"is empty",
    b"nothing left",
    b"at its end",
)
_COUNTED = (b"batches", b"iterations", b"steps")
_COUNT = (
    r"(?i)\b(?P<before>\d{1,9}) (?:\w{1,12} )?(?P<what>batches|iterations|steps)\b"
    r"|\b(?:num_|n_)?(?P<what2>batches|iterations|steps)(?:[_ ]per[_ ]epoch)?['\"]? ?[=:] ?(?P<behind>\d{1,9})\b"
)
_NUMBER = r"\d+"
_LEAST, _LINE, _MOST = 3, 400, 4096
"""Ranks of which one differs; the length of a line that is read; lines."""


def ran_out(book: casebook.Casebook) -> missed.Suspects | None:
    """The one rank that says that its data came to an end, not the first, which speaks for all."""
    told: dict[int, tuple[str, str | None, int]] = {}
    for rank, text, file, offset in _lines(book, _ENDED):
        if regexes.ready(_OUT).search(text):
            told.setdefault(rank, (text, file, offset))
    if len(told) != 1 or 0 in told:
        return None
    (rank, (text, file, offset)) = told.popitem()
    proof = failures.Evidence(text.strip(), file=file, offset=offset, rank=rank, source="log")
    return missed.Suspects((rank,), "it alone ran out of data", proven=False, proof=(proof,))


def counted(book: casebook.Casebook) -> missed.Suspects | None:
    """The one rank that tells another number of batches than all others, in the words of all."""
    told: dict[tuple[str, str], dict[int, int]] = {}
    proofs: dict[tuple[str, str, int], failures.Evidence] = {}
    for rank, text, file, offset in _lines(book, _COUNTED):
        body = prefixes.split(text).body
        found = regexes.ready(_COUNT).search(body)
        if found is None or "/" in body[max(0, found.start() - 1) : found.end() + 1]:
            continue  # a place on the way is no size
        key = regexes.ready(_NUMBER).sub("", body).strip(), found["what"] or found["what2"]
        told.setdefault(key, {}).setdefault(rank, int(found["before"] or found["behind"]))
        proof = failures.Evidence(text.strip(), file=file, offset=offset, rank=rank, source="log")
        proofs.setdefault((*key, rank), proof)
    for key, own in told.items():
        usual, count = Counter(own.values()).most_common(1)[0]
        odd = [rank for rank, number in own.items() if number != usual]
        if len(odd) == 1 and count == len(own) - 1 and len(own) >= _LEAST and own.keys() >= book.ranks:
            why = f"it has {own[odd[0]]} {key[1]}, each other {usual}"
            return missed.Suspects((odd[0],), why, proven=False, proof=(proofs[(*key, odd[0])],))
    return None


def in_other_calls(book: casebook.Casebook) -> missed.Suspects | None:
    """The rank that ran out or has other counts, where ranks wait for each other in different calls."""
    if unlike_calls.torn(book) is not None:
        return ran_out(book) or counted(book)
    apart, out = unlike_calls.split(book), ran_out(book)
    few = {entry.signal.rank for entry in apart.few} if apart is not None else ()
    return out if out is not None and {*out.ranks} == few else None


def _lines(book: casebook.Casebook, words: tuple[bytes, ...]) -> Iterator[tuple[int, str, str | None, int]]:
    """The lines of ranks that hold one of the words: rank, text, file, offset."""
    for file, edges in book.edges.items():
        text = edges.text
        if not any(word in text for word in words):
            continue
        at = 0
        for raw in text.splitlines(keepends=True):
            if any(word in raw for word in words):
                line = raw[:_LINE].decode("utf-8", "replace")
                front = prefixes.on(prefixes.split(line), edges.node)
                rank = front.rank if front.rank is not None else book.voices.rank(front.voice)
                rank = book.rank_of_file(file) if rank is None else rank
                if rank is not None:
                    place = at if at < len(edges.head) else at + edges.size - len(text)
                    yield rank, line, file, place
            at += len(raw)
