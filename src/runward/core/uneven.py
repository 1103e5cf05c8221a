"""The rank that has fewer batches than the others: they wait for it in calls that it does not make any more."""

from collections import Counter
from collections.abc import Iterator

from runward.core import candidates, casebook, failures, missed, prefixes, regexes, unlike_calls

_DATA = (
    r"(?:(?:[a-z]{1,12}_)?(?:data(?:set|loader)?|loader|stream|iterator)|batch(?:es)?|samples?|shards?|examples?|records?"
    r"|items?)"
)
_OUT = (
    rf"(?i)\b{_DATA}\b.{{0,24}}\b(?:exhausted|depleted|ran out|used up|is empty|at its end)\b"
    rf"|\bend of (?:(?:the|its|my|this) )?(?:\w{{1,12}} )?{_DATA}\b"
    rf"|\b{_DATA}\b (?:has )?ended (?:early )?(?:at|after) (?:batch|step|iteration|\d)"
    rf"|\b(?:exhausted|ran out of|no more|out of|nothing left (?:in|of))\b.{{0,24}}\b{_DATA}\b"
)
"""Words of a rank that has no more data."""
_OF_ELSE = (
    r"(?i)\b(?:retr(?:y|ies)|attempts?|memory|skip\w*|patience|quota|budget|prefetch\w*|buffer|range|bounds|order"
    r"|more than)\b"
)
"""What else runs out beside data, or data that are left out."""
_ENDED = (
    b"exhausted",
    b"ran out",
    b"no more",
    b"out of",
    b"used up",
    b"is empty",
    b"nothing left",
    b"at its end",
    b" ended ",
    b"depleted",
    b"end of ",
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
    told = _out(book)
    if len(told) != 1 or 0 in told:
        return None
    ((rank, proof),) = told.items()
    return missed.Suspects((rank,), "it alone ran out of data", proven=False, proof=(proof,))


def left_early(book: casebook.Casebook, found: list[candidates.Candidate]) -> missed.Suspects | None:
    """Those that said that their data came to an end, or that they are done, before others waited for them in vain.

    Who waits did not say so; who went on behind it did not leave.
    """
    waited = [one for one in found if one.cause in failures.TIMEOUTS and one.rank is not None]
    if not waited:
        return None
    told = {rank: proof for rank, proof in _out(book).items() if not _went_on(rank, proof, book)}
    told = told or _done_unlike(book)
    waiting = {one.rank for one in waited}
    first = min((one.entry.signal.offset or 0, one.file) for one in waited if one.entry is not None)
    behind = any(proof.file == first[1] and (proof.offset or 0) > first[0] for proof in told.values())
    if not told or behind or waiting & told.keys():
        return None
    alone = tuple(told) if len(told) == 1 else ()
    why = "its data came to an end before" if alone else "some ranks have fewer batches than others"
    return missed.Suspects(
        alone, why, proven=False, proof=tuple(told.values())[:2], helps=failures.Action.CHANGE
    )


def _went_on(rank: int, proof: failures.Evidence, book: casebook.Casebook) -> bool:
    """Whether a rank tells a step behind a line of its own; what nobody signs is the first rank's."""
    own = (rank, None) if rank == 0 else (rank,)
    return any(
        one.rank in own and one.file == proof.file and one.offset > (proof.offset or 0)
        for one in book.advances
    )


def _out(book: casebook.Casebook) -> dict[int, failures.Evidence]:
    """The ranks that say that their data came to an end."""
    told: dict[int, failures.Evidence] = {}
    for rank, text, file, offset in _lines(book, _ENDED, _OUT):
        if not regexes.ready(_OF_ELSE).search(text):
            told[rank] = failures.Evidence(text.strip(), file=file, offset=offset, rank=rank, source="log")
    return told


_DONE = (
    r"(?i)\b(?:finish(?:ed|es)?|done|end(?:ed|s)?|complete[ds]?|leav(?:es|ing)|exit(?:s|ing|ed)?"
    r"|stop(?:s|ped|ping)?)\b"
)


def _done_unlike(book: casebook.Casebook) -> dict[int, failures.Evidence]:
    """The ranks that say in the same words, as often, that they are done, where not all made as many batches."""
    told: dict[str, dict[int, list[tuple[int, failures.Evidence]]]] = {}
    for rank, text, file, offset in _lines(book, _COUNTED, _DONE, _COUNT):
        body = prefixes.split(text).body
        found = regexes.ready(_COUNT).search(body)
        if found is not None and regexes.ready(_DONE).search(body):
            proof = failures.Evidence(text.strip(), file=file, offset=offset, rank=rank, source="log")
            number = int(found["before"] or found["behind"])
            key = regexes.ready(_NUMBER).sub("", body).strip()
            told.setdefault(key, {}).setdefault(rank, []).append((number, proof))
    for own in told.values():
        last = {rank: rows[-1] for rank, rows in own.items()}
        as_often = len({len(rows) for rows in own.values()}) == 1
        if as_often and len({number for number, _ in last.values()}) > 1:
            return {rank: proof for rank, (_, proof) in last.items()}
    return {}


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


def _lines(
    book: casebook.Casebook, words: tuple[bytes, ...], *patterns: str
) -> Iterator[tuple[int, str, str | None, int]]:
    """The lines of ranks that hold one of the words and all of the patterns: rank, text, file, offset."""
    for file, edges in book.edges.items():
        text = edges.text
        if not any(word in text for word in words):
            continue
        at = 0
        for raw in text.splitlines(keepends=True):
            if any(word in raw for word in words):
                line = raw[:_LINE].decode("utf-8", "replace")
                if not all(regexes.ready(pattern).search(line) for pattern in patterns):
                    at += len(raw)
                    continue
                front = prefixes.on(prefixes.split(line), edges.node)
                rank = front.rank if front.rank is not None else book.voices.rank(front.voice)
                rank = book.rank_of_file(file) if rank is None else rank
                if rank is not None:
                    place = at if at < len(edges.head) else at + edges.size - len(text)
                    yield rank, line, file, place
            at += len(raw)
