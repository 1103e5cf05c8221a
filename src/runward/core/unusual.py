"""The lines of a log's end that its own beginning does not know, when nothing better is to be had."""

from collections import Counter

from runward.core import casebook, prefixes, regexes

_MASKS = [
    (r"0x[0-9a-fA-F]+", "<hex>"),
    (r"(?<!\w)(?:/[\w.@+-]+){2,}/?", "<path>"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>"),
    (r"[-+]?\d+(?:[.,:]\d+)*(?:[eE][-+]?\d+)?", "<n>"),
]
_NOISE = r"^[\s=\-*_#.~|+<>]*$"
_ANSI = r"\x1b\[[0-9;?]*[A-Za-z]"
_BAD_WORDS = r"(?i)error|fail|fatal|exception|abort|kill|denied|refus|timed? ?out|cannot|unable|lost|corrupt"


def shape(line: str) -> str:
    """A line with numbers, hex, paths and ids masked: equal for lines of one kind."""
    text = prefixes.split(line[:400]).body
    for pattern, mask in _MASKS:
        text = regexes.ready(pattern).sub(mask, text)
    return text.strip()[:200]


def pick(book: casebook.Casebook, count: int = 3) -> list[tuple[str, str | None, int]]:
    """The `count` most unusual lines of the ends of all sources: (text, file, offset), in order of their place."""
    known: Counter[str] = Counter()
    met: list[tuple[str, str | None, int, str]] = []
    for name, edges in list(book.edges.items())[:64]:
        cut = edges.cut
        head = edges.head if cut > 0 else b""
        for text, _ in lines(head, 0):
            known[shape(text)] += 1
        for text, offset in lines(edges.tail, cut)[-400:]:
            form = shape(text)
            known[form] += 1
            if form and not regexes.ready(_NOISE).match(form):
                met.append((text, name, offset, form))
    seen: set[str] = set()
    ranked = sorted(
        enumerate(met),
        key=lambda item: (known[item[1][3]], not regexes.ready(_BAD_WORDS).search(item[1][0]), -item[0]),
    )
    chosen = []
    for place, (text, name, offset, form) in ranked:
        if form not in seen:
            seen.add(form)
            chosen.append((place, (text, name, offset)))
        if len(chosen) == count:
            break
    return [line for _, line in sorted(chosen)]


def lines(data: bytes, offset: int) -> list[tuple[str, int]]:
    """The lines of a text that begins at `offset`, each with its own; without colours and empty ones."""
    found = []
    for raw in data.replace(b"\r", b"\n").split(b"\n"):
        if raw.strip():
            found.append((regexes.ready(_ANSI).sub("", raw[:2000].decode("utf-8", "replace")), offset))
        offset += len(raw) + 1
    return found
