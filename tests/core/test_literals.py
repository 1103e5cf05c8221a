import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runward.core import literals

SHAPES = [
    rb"CUDA out of memory.*?Tried to allocate (?P<size>[\d.]+\s*[KMGT]iB)",
    rb"^(?P<exc>[A-Za-z_.]+Error): (?P<msg>.*)",
    rb"(?i)(?:hw|sw)? ?thermal slowdown",
    rb"(?i:disk) quota exceeded",
    rb"[ab]{2}cd(?:ef|gh)+",
    rb"iteration +(?P<n>\d+)/ *\d+",
    rb" \.{7,} \S",
    rb"x{2,}yz+",
    rb"(?:abc|xabcx)\d?foo",
    rb"(?:connection (?:reset|refused)|timed out|EOF occurred)",
    rb"\xc3\xbcber(?:fl\xc3\xbcssig)?",
    rb"id=[0-9a-f]{4}-done",
    rb"a(?:b(?:c|d)|e)fgh|ijkl.m",
    rb"(?:foo){2,5}bar",
    rb"(?:Error|error|ERROR)[:=] *(?P<code>\d+)",
    rb"(?P<q>['\"])key(?P=q): value",
]


def holds(pattern, text):
    """Whether the literals stand where they are said to, in each match of `pattern` in `text`."""
    need = literals.required(pattern)
    for match in re.finditer(pattern, text, re.MULTILINE):
        found = match[0].lower() if need.nocase else match[0]
        places = [at for word in need.as_bytes() for at in range(len(found)) if found.startswith(word, at)]
        if not any(need.lo <= at and (need.hi is None or at <= need.hi) for at in places):
            return False
    return True


@pytest.mark.parametrize("pattern", SHAPES)
@given(data=st.data())
@settings(max_examples=40)
def test_a_literal_stands_in_whatever_a_pattern_matches(pattern, data):
    assert holds(pattern, data.draw(st.from_regex(pattern)))


ATOMS = st.sampled_from([b"ab", b"c", b"[ab]", b"(?:a|bc)", rb"\w", b".", b"abc", b" ", b"(?i:aB)"])
WITHOUT_END = (b"*", b"+?", b"{2,}")
REPEATS = st.sampled_from([b"", b"", b"", b"?", b"{2,3}", *WITHOUT_END])
PARTS = st.tuples(ATOMS, REPEATS).map(b"".join) | st.sampled_from([b"(?:c+)", b"(?:c+)?", b"(?:c+){2,3}"])
MANY = 3
"""Repeats without end in a pattern, above which `re` itself may need minutes for a line."""


@given(st.lists(PARTS, min_size=1, max_size=7), st.sampled_from([b"", b"(?i)"]), st.data())
@settings(max_examples=200)
def test_the_same_for_patterns_that_nobody_would_write(parts, flag, data):
    pattern = flag + b"".join(parts)
    endless = sum(part.endswith(WITHOUT_END) or b"c+" in part for part in parts)
    if endless <= MANY and literals.required(pattern) is not None:
        assert holds(pattern, data.draw(st.from_regex(pattern)))


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"Xid \(PCI:(?P<bus>\S+)\): 79", ("Xid (PCI:",)),
        (r"iteration +(?P<n>\d+)/", ("iteration ",)),
        (r"(?:NaN|nan) loss", ("NaN loss", "nan loss")),
        (r"(?i)NCCL WARN", ("nccl warn",)),
        (r"foo(?:abc|abcd)bar", ("fooabcbar", "fooabcdbar")),
        (r"größe (?P<n>\d+)", ("größe ",)),
        (r"x{2,}yz", ("xxyz",)),
        (r"(?:lm loss|validation perplexity): \d", ("lm loss: ", "validation perplexity: ")),
        (r"loss: .* checkpoint is torn", (" checkpoint is torn",)),
    ],
)
def test_which_literals_are_taken(pattern, words):
    assert literals.required(pattern).alternatives == words


@pytest.mark.parametrize("pattern", [r"\d+", r"ab", r"(?:abc)?", r"abc|\w+", r"(?:abc)*x", r"[abcd]{9}", ""])
def test_a_pattern_without_three_fixed_bytes_has_none(pattern):
    assert literals.required(pattern) is None


def test_a_literal_that_healthy_text_has_seldom_goes_before_a_longer_one_that_it_has_often():
    assert literals.required(r"number of skipped iterations: .* torn").alternatives == (" torn",)


def test_only_patterns_that_must_begin_the_line_are_anchored():
    assert literals.anchored(rb"^abc|def") is False
    assert literals.anchored(rb"^(?:abc|def)") is True
    assert literals.anchored(rb"(?i)^abc") is True
    assert literals.anchored(rb"a^bc") is False


def test_without_the_parse_tree_of_re_there_are_no_literals(monkeypatch):
    monkeypatch.setattr(literals, "_p", None)
    assert literals.required("certainly long enough") is None
