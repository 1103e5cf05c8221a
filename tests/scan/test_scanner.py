import random
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runward import scan
from runward.core import errors, literals, vocabulary
from runward.scan import engines, keyed
from scan import samples

ENGINES = list(engines.ENGINES)
COMPILED = {
    name: scan.compile(samples.SOURCES, names=samples.NAMES, options=scan.Options(engine=name))
    for name in ENGINES
}


def found(compiled, text, sizes=(1 << 20,), *, offset=0):
    scanner = scan.LineScanner(compiled)
    hits, at, turn = [], 0, 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        hits += scanner.feed(text[at : at + size], offset + at)
        at += size
        turn += 1
    return hits + scanner.flush()


def summary(hits):
    return sorted(((samples.NAMES[hit.pattern], hit.found.groups(), hit.offset) for hit in hits), key=repr)


NEEDS = [literals.required(source) for source in samples.SOURCES]
KEYED = {
    name: scan.compile(
        samples.SOURCES,
        names=samples.NAMES,
        known=scan.Known(NEEDS, words=vocabulary.with_parts(vocabulary.of(NEEDS))),
        options=scan.Options(engine=name),
    )
    for name in ENGINES
}


def test_every_engine_of_the_tests_is_really_there():
    assert {name: compiled.engine.name for name, compiled in COMPILED.items()} == {
        name: name for name in ENGINES
    }


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", samples.NAMES)
def test_each_example_is_found_with_its_groups(engine, name):
    place = samples.NAMES.index(name)
    line = samples.LINES[place]
    text = b"first\n" + line + b"\nlast\n"
    hits = [hit for hit in found(COMPILED[engine], text) if hit.pattern == place]
    match = re.search(samples.SOURCES[place].encode(), line, re.MULTILINE)
    assert hits
    assert hits[0].offset == 6 + match.start()
    assert hits[0].line_offset == 6
    assert hits[0].line == line
    assert hits[0].groups == {k: v.decode() for k, v in match.groupdict().items() if v is not None}


@pytest.mark.parametrize("engine", ENGINES)
@given(seed=st.integers(0, 2**32), sizes=st.lists(st.integers(1, 3000), min_size=1, max_size=5))
@settings(max_examples=40)
def test_what_is_found_is_what_finditer_finds_on_each_line_however_the_text_is_cut(engine, seed, sizes):
    chance = random.Random(seed)
    text = (
        b"".join(samples.noise(chance) + chance.choice((b"\n", b"\r\n", b"\r")) for _ in range(25)) + b"tail"
    )
    assert summary(found(COMPILED[engine], text, sizes)) == samples.brute(text)


@pytest.mark.parametrize("engine", ENGINES)
@given(seed=st.integers(0, 2**32), sizes=st.lists(st.integers(1, 3000), min_size=1, max_size=5))
@settings(max_examples=25)
def test_an_engine_that_looks_for_parts_of_the_literals_finds_the_same(engine, seed, sizes):
    chance = random.Random(seed)
    text = b"".join(samples.noise(chance) + chance.choice((b"\n", b"\r\n")) for _ in range(25)) + b"tail"
    assert type(KEYED[engine].engine) is keyed.Keyed
    assert summary(found(KEYED[engine], text, sizes)) == summary(found(COMPILED[engine], text))


_WORDS = st.binary(min_size=1, max_size=12) | st.text("aAbB ", min_size=1, max_size=12).map(str.encode)


@given(
    words=st.lists(st.tuples(_WORDS, st.booleans()), min_size=1, max_size=40),
    text=st.lists(st.integers(0, 39) | st.binary(max_size=5), max_size=30),
    before=st.integers(0, 9),
)
@settings(max_examples=150)
def test_the_parts_of_literals_give_back_each_literal_where_it_stands(words, text, before):
    wanted = list(dict.fromkeys(engines.Literal(w.lower() if nocase else w, nocase) for w, nocase in words))
    data = b"".join(wanted[one % len(wanted)].text if isinstance(one, int) else one for one in text)
    made = vocabulary.with_parts(
        vocabulary.Vocabulary(
            [word.text.decode("utf-8", "surrogateescape") for word in wanted],
            [int(word.nocase) for word in wanted],
            [[place] for place in range(len(wanted))],
        )
    )
    short = keyed.Keyed(made)
    engine = short.over(engines.Stdlib(short.parts))
    assert made.literals() == wanted
    assert sorted(place for row in made.members for place in row) == list(range(len(wanted)))
    assert all(
        wanted[place].text.lower()[made.begins[place] :].startswith(part.text.lower())
        for part, row in zip(short.parts, made.members, strict=True)
        for place in row
    )
    expected = sorted(
        (at + len(word), place)
        for place, (word, nocase) in enumerate(wanted)
        for at in range(len(data) - len(word) + 1)
        if (data.lower() if nocase else data).startswith(word, at)
    )
    assert engine.stops(b"x" * before + data + b"xyz", before, before + len(data)) == expected
    some = engine.only([place % 3 > 0 for place in range(len(wanted))])
    assert some.stops(data, 0, len(data)) == [stop for stop in expected if stop[1] % 3]
    other = keyed.Keyed(made.beside(data[: len(data) // 2]))
    beside = other.over(engines.Stdlib(other.parts))
    assert beside.stops(b"x" * before + data + b"xyz", before, before + len(data)) == expected
    again = keyed.Keyed(made.beside(data).wanted().beside(data[len(data) // 3 :]))
    twice = again.over(engines.Stdlib(again.parts))
    assert twice.stops(b"x" * before + data + b"xyz", before, before + len(data)) == expected


def test_parts_that_a_log_is_full_of_are_replaced_where_the_literals_have_others():
    made = vocabulary.with_parts(
        vocabulary.Vocabulary(["stream lost", "strea", "ok"], [1, 1, 0], [[0], [1], [2]])
    )
    made = made._replace(begins=[0, 0, 0])
    beside = vocabulary._parted(made).beside(b"Stream 0x7f of 8\n" * 9)
    assert [(part.text, beside.members[at]) for at, part in enumerate(beside.looked_for())] == [
        (b"eam l", [0]),
        (b"strea", [1]),
        (b"ok", [2]),
    ]


def test_a_literal_whose_parts_all_stand_there_but_for_their_case_is_looked_for_with_its_case():
    words = vocabulary.Vocabulary(["[Rank ", "[rank "], [0, 1], [[0], [1]])
    made = vocabulary.with_parts(words).beside(b"[rank3]: comm 0x7f rank 3 nranks 8\n" * 9)
    for one in (made, made.wanted(), made.wanted().beside(b"no ranks here\n")):
        parts = [(part.text, part.nocase, one.members[at]) for at, part in enumerate(one.looked_for())]
        assert (b"[Rank", False, [0]) in parts
        assert not any(nocase and 0 in members for _, nocase, members in parts)


@given(
    text=st.lists(
        st.sampled_from([*samples.LINES, b"\n", b"\r", b"\x1b[31m", b"\x1b[0m", b"\x1b", b"x" * 300])
    ).map(b"".join),
    cut=st.integers(0, 4000),
)
@settings(max_examples=150)
def test_one_cut_anywhere_changes_nothing(text, cut):
    compiled = COMPILED["pyperscan"]
    assert summary(found(compiled, text, (max(1, cut), 1 << 20))) == summary(found(compiled, text))


@given(st.lists(st.tuples(st.integers(0, 900), st.integers(1, 400)), min_size=1, max_size=40))
@settings(max_examples=60)
def test_bytes_that_come_twice_are_found_once(feeds):
    text = b"\n".join(samples.LINES) + b"\n"
    scanner = scan.LineScanner(COMPILED["pyperscan"])
    hits, seen = scanner.feed(text[:1], 0), 1
    for back, size in feeds:
        start = max(0, seen - back)
        hits += scanner.feed(text[start : start + size], start)
        seen = max(seen, min(len(text), start + size))
    hits += scanner.feed(text, 0) + scanner.flush()
    assert summary(hits) == samples.brute(text)


def test_offsets_stay_true_through_colours_carriage_returns_and_cuts():
    text = (
        b"\x1b[1mstart\x1b[0m\r 10%\r 20%\r\x1b[31mtorch.OutOfMemoryError\x1b[0m: CUDA \x1b[1mout of memory\x1b[0m."
        b" Tried to allocate \x1b[33m1.50 GiB\x1b[0m.\r\n\x1b[31mValueError: red\x1b[0m\nplain\n"
    )
    for size in (1, 2, 3, 7, 50, 1000):
        hits = found(COMPILED["pyperscan"], text, (size,), offset=1000)
        got = {
            samples.NAMES[hit.pattern]: hit
            for hit in hits
            if not hit.line.startswith(b"torch.OutOf") or hit.pattern == 0
        }
        assert got["oom"].groups == {"size": "1.50 GiB"}
        assert text[got["oom"].offset - 1000 :].startswith(b"CUDA ")
        assert got["oom"].line_offset - 1000 == text.index(b"\x1b[31mtorch")
        assert got["exception"].groups == {"exc": "ValueError", "msg": "red"}
        assert text[got["exception"].offset - 1000 :].startswith(b"ValueError")
        assert got["exception"].line_offset - 1000 == text.index(b"\x1b[31mValue")


def test_a_gap_ends_the_carried_line_and_text_after_it_is_read_from_there():
    scanner = scan.LineScanner(COMPILED["stdlib"])
    assert scanner.feed(b"ValueError: one", 0) == []
    hits = scanner.feed(b"ValueError: two\n", 500)
    assert [(hit.offset, hit.groups["msg"]) for hit in hits] == [(0, "one"), (500, "two")]


def test_flush_gives_the_last_line_and_lets_the_log_begin_again():
    scanner = scan.LineScanner(COMPILED["stdlib"])
    assert scanner.feed(b"ok\nValueError: last words", 0) == []
    assert [hit.groups["msg"] for hit in scanner.flush()] == ["last words"]
    assert scanner.flush() == []
    assert [hit.offset for hit in scanner.feed(b"KeyError: x\n", 0)] == [0]


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"\d+/\d+", "3 fixed characters"),
        (r"ab|.+", "3 fixed characters"),
        ("two\nlines", "one line"),
        (r"two\nlines", "one line"),
        (r"broken (group", "does not compile"),
        (r"(?<=a+)behind", "does not compile"),
    ],
)
def test_a_pattern_that_cannot_be_searched_for_is_refused_by_name_with_the_reason(pattern, reason):
    with pytest.raises(errors.UsageError) as caught:
        scan.compile(["fine enough", pattern], names=["good", "bad one"])
    assert [problem.where for problem in caught.value.problems] == ["bad one"]
    assert reason in str(caught.value)


def test_the_slow_lane_takes_patterns_without_a_literal():
    compiled = scan.compile([r"(?P<a>\d+)/(?P<b>\d+)", "fixed text"], options=scan.Options(slow_lane=True))
    hits = found(compiled, b"step 3/10\nfixed text 1/2 and 2/2\n", (5,))
    assert [(hit.pattern, hit.offset, dict(hit.groups)) for hit in hits] == [
        (0, 5, {"a": "3", "b": "10"}),
        (1, 10, {}),
        (0, 21, {"a": "1", "b": "2"}),
        (0, 29, {"a": "2", "b": "2"}),
    ]


@pytest.mark.parametrize("engine", ENGINES)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_an_engine_reports_exactly_what_find_finds(engine, seed):
    chance = random.Random(seed)
    wanted = [
        engines.Literal(b"abc", False),
        engines.Literal(b"bca", True),
        engines.Literal(b"\x00\xff.*", False),
    ]
    wanted += [
        engines.Literal(line[: chance.randrange(3, len(line))].lower(), True) for line in samples.LINES[:6]
    ]
    wanted = list(dict.fromkeys(wanted))
    text = b"".join(
        chance.choice([*samples.LINES, b"abcabca", b"\x00\xff.*", b"BCA", b"\n"])[chance.randrange(3) :]
        for _ in range(40)
    )
    expected = sorted(
        (at + len(word), place)
        for place, (word, nocase) in enumerate(wanted)
        for at in range(len(text))
        if (text.lower() if nocase else text).startswith(word, at)
    )
    start = chance.randrange(50)
    got = engines.ENGINES[engine](wanted).stops(b"\xfe" * start + text + b"abcabc", start, start + len(text))
    assert list(got) == expected


class _Forgetful:
    name = "pyperscan"

    def __init__(self, wanted):
        self._inner = engines.Stdlib(wanted)

    def stops(self, data, start, end):
        return self._inner.stops(data, start, end)[:-1]


def _broken(wanted):
    raise RuntimeError("no such instruction")


def test_an_engine_that_answers_wrongly_or_not_at_all_is_stepped_over_and_said(monkeypatch):
    monkeypatch.setattr(
        engines, "ENGINES", {"pyperscan": _Forgetful, "ahocorasick": _broken, "stdlib": engines.Stdlib}
    )
    compiled = scan.compile(["out of memory"])
    assert compiled.engine.name == "stdlib"
    assert compiled.engine_notes == (
        "pyperscan: wrong answer in its test: literal b'out of memory' at byte "
        + compiled.engine_notes[0].split()[-1],
        "ahocorasick: cannot be used: RuntimeError: no such instruction",
    )
    assert scan.LineScanner(compiled).engine_notes == list(compiled.engine_notes)


def test_an_engine_that_is_not_installed_is_no_fault_to_tell_of(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyperscan", None)
    scanner = scan.LineScanner(scan.compile(["out of memory"]))
    assert (scanner.engine, scanner.engine_notes) == ("ahocorasick", [])


class _Eager(_Forgetful):
    def stops(self, data, start, end):
        return [*self._inner.stops(data, start, end), (end - start, 0)]


class _Unsorted(_Forgetful):
    def stops(self, data, start, end):
        return self._inner.stops(data, start, end)[::-1]


@pytest.mark.parametrize(
    ("engine", "words"), [(_Forgetful, "at byte"), (_Eager, "is not at byte"), (_Unsorted, "not in order")]
)
def test_each_kind_of_wrong_answer_is_noticed(engine, words):
    wanted = [engines.Literal(b"out of memory", nocase=False), engines.Literal(b"nccl warn", nocase=True)]
    assert engines.differs(engines.Stdlib(wanted), wanted) is None
    assert words in engines.differs(engine(wanted), wanted)
