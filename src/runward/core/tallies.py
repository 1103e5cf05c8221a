"""What a program accounts for at its good end: how many of its parts failed, were tried again, or were left out."""

from runward.core import candidates, casebook, context, prefixes, regexes, tracebacks, unusual

_LATE = 2048
"""So near to the end of its log does a program tell how all went."""
_OVER = r"(?i)\b(?:complete[ds]?|finished|done|ended|over|summary|suite|results?|report|total)\b"
_LOST = (
    r"(?:fail(?:ed|ures?)|errors?|lost|miss(?:ed|ing)|crash(?:ed|es)|dead|incomplete|unfinished|aborted)\b"
)
_NOTHING_LOST = rf"(?i)\b(?:0|no|none|zero) (?:[a-z]+ )?{_LOST}|\b{_LOST}(?: \w+)? ?[:=] ?(?:0|none)\b"
_SOME_LOST = (
    rf"(?i)(?<![\d./])0*[1-9]\d{{0,8}} (?:[a-z]+ )?{_LOST}|\b{_LOST} ?[:=] ?0*[1-9]"
    r"|\bnot (?:all|complete|finished)\b"
)
_LEFT = (
    r"(?i)\b\d{1,9} (?:[a-z]+ )?(?:prun(?:ed|ings?)|skip(?:ped|s)|re-?runs?|re-?tri(?:ed|es)|left out|recover(?:ed|ies)"
    r"|discarded|ignored|requeued|passed over)\b"
)
_COUNTED = r"(?<![\w.])\d{1,9}(?:/\d{1,9})? [a-z]{2}"
"""A number of something."""
_BAD = r"(?i)\b(?:errors?|exceptions?|failed|failures?|fatal|killed|abort\w*|traceback)\b"


def unaccounted(
    found: list[candidates.Candidate], book: casebook.Casebook, ctx: context.Context
) -> list[candidates.Candidate]:
    """Without what a program that ended with 0 has counted itself, in the words of its last lines."""
    if not (found and ctx.ended_well):
        return found
    ends = {name: end for name in book.edges if (end := _tally(name, book)) is not None}
    return [one for one in found if not (ends and one.entry and _before(one.entry, ends))]


def _before(entry: casebook.Entry, ends: dict[str | None, int]) -> bool:
    offset = entry.signal.offset
    return offset is not None and offset < ends.get(entry.signal.file, 0)


def _tally(name: str | None, book: casebook.Casebook) -> int | None:
    """Where the last line of a log stands that accounts for all that the program did; None without one."""
    edges = book.edges[name]
    text = edges.tail[-_LATE:]
    found = None
    for line, offset in unusual.lines(text, edges.size - len(text)):
        body = prefixes.split(line[:400]).body
        if accounts(body):
            found = offset
        elif found is not None and (tracebacks.START in line or _is_bad(body)):
            found = None
    return found


def _is_bad(body: str) -> bool:
    return bool(regexes.ready(_BAD).search(body)) and not regexes.ready(_NOTHING_LOST).search(body)


def accounts(body: str) -> bool:
    """Whether a message says that all is over and that nothing of it is lost.

    >>> [accounts(text) for text in ("sweep finished: 5 trials, 2 pruned", "upload complete, 0 failed")]
    [True, True]
    >>> [accounts(text) for text in ("finished: 9 trials, 2 failed", "done: 90 steps, 3 epochs", "2 skipped")]
    [False, False, False]
    """
    if regexes.ready(_SOME_LOST).search(body) or not regexes.ready(_OVER).search(body):
        return False
    if regexes.ready(_NOTHING_LOST).search(body):
        return True
    several = len(regexes.ready(_COUNTED).findall(body)) > 1
    return several and regexes.ready(_LEFT).search(body) is not None
