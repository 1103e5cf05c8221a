"""Data that one rank prepares for all while the others wait: the bar of its work, which did not come to its end."""

from collections.abc import Iterator

from runward.core import candidates, casebook, failures, missed, prefixes, regexes

_BAR = r"\b\d{1,2}%\|.{0,200}?\d(?:\.\d+)?[kKMGT]?/\d+(?:\.\d+)?[kKMGT]? \[[\d:]{4,12}<[\d:?]{1,12},"
_UNIT = (
    r"(?i)(?:examples?|samples?|files?|docs?|documents?|lines?|rows?|records?|shards?|tokens?|[kmg]?i?b)/s\b"
)
_WORK = (
    r"(?i)\b(?:map|tokeni[sz]\w*|index\w*|pre-?process\w*|filter\w*|pack(?:ing|s)|group\w* texts|shuffl\w*"
    r"|cach(?:e|ing)|convert\w*|extract\w*|encod(?:e|ing)|prepar\w*|scan\w*|flatten\w*|generating \w+ split"
    r"|running tokenizer\w*|build\w* (?:\w+ )?(?:data|vocab|index|cache))\b"
)
"""What is done with data before a training begins."""
_MARK, _LINE, _NEAR = b"%|", 400, 40


def work(book: casebook.Casebook, found: list[candidates.Candidate]) -> missed.Suspects | None:
    """The rank that still prepares data for a training that made no step, where it does not wait itself.

    What nobody signs is the first rank's, if others are known to wait.
    """
    waited = {one.rank for one in found if one.cause in failures.TIMEOUTS}
    if book.advances or not waited:
        return None
    bars = dict(_bars(book))
    if len(bars) != 1:
        return None
    ((rank, proof),) = bars.items()
    signer = 0 if rank is None and waited - {None} else rank
    if signer in waited - {None}:
        return None
    why = "it still prepares data, longer than the others wait"
    ranks = () if signer is None else (signer,)
    told = why if ranks else "data are still prepared, longer than ranks wait for it"
    return missed.Suspects(ranks, told, proven=False, proof=(proof,), helps=failures.Action.CHANGE)


def _bars(book: casebook.Casebook) -> Iterator[tuple[int | None, failures.Evidence]]:
    """The ranks whose last bar is one of such a work and not at its end."""
    for file, edges in book.edges.items():
        if _MARK not in edges.tail:
            continue
        last: dict[int | None, tuple[str, str, int]] = {}
        before: dict[int | None, str] = {}
        for text, offset in _lines(edges.tail, edges.cut):
            front = prefixes.on(prefixes.split(text), edges.node)
            rank = front.rank if front.rank is not None else book.rank_of_file(file)
            if "%|" in text:
                last[rank] = text, before.get(rank, ""), offset
            else:
                before[rank] = text
        for rank, (text, above, offset) in last.items():
            bar = regexes.ready(_BAR).search(text)
            of_data = regexes.ready(_UNIT).search(text) or regexes.ready(_WORK).search(
                text.partition("%|")[0]
            )
            if bar and (of_data or regexes.ready(_WORK).search(above)):
                yield rank, failures.Evidence(text.strip(), file=file, offset=offset, rank=rank, source="log")


def _lines(data: bytes, at: int) -> Iterator[tuple[str, int]]:
    """The last lines of a text, and what was written over them in a terminal, with their offsets."""
    rows = data.splitlines(keepends=True)
    for raw in rows[:-_NEAR]:
        at += len(raw)
    for raw in rows[-_NEAR:]:
        yield raw[:_LINE].decode("utf-8", "replace"), at
        at += len(raw)
