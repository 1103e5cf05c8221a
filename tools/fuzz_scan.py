"""What the scanner promises on any bytes: engines agree, cuts and repetitions change nothing, literals stand where they
are said to. Targets of fuzz.py."""

import functools
import random
import re


@functools.cache
def rules():
    from runward.config import rulesets

    return rulesets.load(user=False)


@functools.cache
def compiled(engine):
    from runward import scan

    found = rules().rules
    known = scan.Known([rule.need for rule in found], [rule.effort for rule in found], rules().index.words)
    options = scan.Options(
        engine=engine, sparse=frozenset(i for i, r in enumerate(found) if r.role == "progress")
    )
    return scan.compile([rule.pattern for rule in found], known=known, options=options)


def engines(data):
    """All engines report what `find` finds."""
    from runward.scan import engines as made

    wanted = compiled("stdlib").words.literals()
    low = data.lower()
    expected = sorted(
        (match.start() + len(word), place)
        for place, (word, nocase) in enumerate(wanted)
        if word in (low if nocase else data)
        for match in re.finditer(b"(?=" + re.escape(word) + b")", low if nocase else data)
    )
    for name in made.ENGINES:
        got = list(compiled(name).engine.stops(b"\xff\0" + data, 2, 2 + len(data)))
        assert got == expected, f"{name}: {sorted(set(got) ^ set(expected))[:5]}"


def scanner(data):
    """Cut anywhere, given twice, by any engine: the same hits, each of them true."""
    from runward import scan
    from runward.scan import careful

    careful.PATIENCE_S = float("inf")  # what a slow pattern sees depends on the clock otherwise
    whole = scan.LineScanner(compiled("pyperscan"))
    expected = [hit[:4] for hit in whole.feed(data, 0) + whole.flush()]
    chance = random.Random(data)
    for engine in ("pyperscan", "ahocorasick", "stdlib"):
        one, got, at = scan.LineScanner(compiled(engine)), [], 0
        while at < len(data):
            size, back = chance.choice((1, 7, 100, 5000, 70_000)), chance.choice((0, 0, 3, 200))
            start = max(0, at - back)
            got += one.feed(data[start : at + size], start)
            at += size
        got += one.flush()
        assert [hit[:4] for hit in got] == expected, f"{engine}, cut: differs"
    bulk = scan.LineScanner(compiled("pyperscan"))
    some = [hit[:4] for hit in bulk.feed(data, 0, bulk=True) + bulk.flush()]
    sparse = compiled("pyperscan").sparse
    assert set(some) <= set(expected), "bulk: invents"
    assert [h for h in some if h[0] not in sparse] == [h for h in expected if h[0] not in sparse], (
        "bulk: loses"
    )


def regexes(data):
    """Of any pattern, the literals stand in every match, where they are said to."""
    _pattern(data)
    chance = random.Random(data)
    for _ in range(20):
        _pattern(pattern_and_text(chance))


def _pattern(data):
    from runward.core import backtracking, literals

    source, _, subject = data.partition(b"\n")
    try:
        regex = re.compile(source[:60])
    except (re.error, RecursionError, OverflowError):
        return
    if backtracking.fault(source[:60]):
        return
    need = literals.required(source[:60])
    if need is None:
        return
    for match in regex.finditer(subject[:200]):
        found = match[0].lower() if need.nocase else match[0]
        places = [at for word in need.as_bytes() if (at := found.find(word)) >= 0]
        assert places, f"{source[:60]!r}: no literal in {match[0]!r}"
        assert need.hi is None or min(places) <= need.hi, f"{source[:60]!r}: literal at {min(places)}"


def pattern_and_text(chance):
    """Mostly a small pattern made of known parts, and a text of the same letters."""
    atoms = [
        b"ab",
        b"c",
        b"[ab]",
        b"(?:a|bc)",
        b"(?P<x>c+)",
        b"\\w",
        b".",
        b"abc",
        b" +",
        b"(?i:aB)",
        b"\xc3\xbc",
        b"a{2}",
    ]
    source = b"".join(
        chance.choice(atoms) + chance.choice((b"", b"", b"", b"*", b"+?", b"?", b"{2,3}")) for _ in range(6)
    )
    if chance.random() < 0.3:
        source = b"(?:" + source + b"|" + chance.choice(atoms) * 3 + b")" + chance.choice((b"", b"+", b"{2}"))
    if chance.random() < 0.2:
        source = b"(?i)" + source
    return source.replace(b"?P<x>", b"?:") + b"\n" + bytes(chance.choices(b"aabbccAB \xc3\xbc1", k=120))
