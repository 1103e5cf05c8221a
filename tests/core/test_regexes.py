"""Regexes that are tried only where a word stands: the word must stand in every match."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runward.core import identities, node_ranks, regexes, roster, tracebacks

GATED = [
    (tracebacks._READING, tracebacks._READING_WORDS),
    (identities._IDENTITY, identities._HOLDERS),
    *((pattern, words) for _, pattern, words in node_ranks._LAYOUT),
    (node_ranks._LISTS, ("_ranks=[",)),
    (node_ranks._NAMED_NODE, ("node", "host")),
    (roster._WORLD, ("world", "member")),
    (roster._LOCAL, ("local",)),
    (roster._OF_RANKS, ("pid",)),
    (roster._PID, ("pid", "process ")),
    (roster._AT, ("ip=", "ip:", "pid")),
]


@pytest.mark.parametrize(("pattern", "words"), GATED)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_each_match_holds_one_of_the_words_without_which_none_is_looked_for(pattern, words, data):
    text = data.draw(st.from_regex(pattern, alphabet=st.characters(max_codepoint=126)))
    assert regexes.find(pattern, text, text.lower(), *words)


@pytest.mark.parametrize(
    ("pattern", "before"), [(node_ranks._SPANS, node_ranks._SPAN_OF), (roster._LISTED, roster._LISTED_RANK)]
)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_each_match_holds_one_of_what_is_looked_for_before(pattern, before, data):
    text = data.draw(st.from_regex(pattern, alphabet=st.characters(max_codepoint=126)))
    assert regexes.ready(before).search(text)


@pytest.mark.parametrize("pattern", node_ranks._RANKS_ON)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_each_list_of_ranks_names_them_by_that_word(pattern, data):
    text = data.draw(st.from_regex(pattern, alphabet=st.characters(max_codepoint=126)))
    assert regexes.ready(node_ranks._RANKS).search(text.lower())
