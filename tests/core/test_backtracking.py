import re

import pytest

from runward.core import backtracking


@pytest.mark.parametrize(
    "pattern",
    [
        rb"(a+)+b",
        rb"(\w+\s?)*failed",
        rb"(?:(?:\d+),?)+end",
        rb"(.*)*x",
        rb"((a*)*)*c",
        rb"(?:\s*\w+)*!",
        rb"(?:[^,]*,?)*;",
    ],
)
def test_a_repetition_of_what_can_be_divided_in_many_ways_is_a_fault(pattern):
    assert "repeats a repetition" in backtracking.fault(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        rb"(?:[A-Za-z_]\w*\.)*[A-Z]\w*Error",
        rb"([^,]*,)*end",
        rb"(?:ab|ac)*d",
        rb"(?:x+y)+",
        rb"(?:a++)+b",
        rb"(?>a+)+b",
        rb"\S+\.py: error:",
        rb"(?:a{1,3})*b",
    ],
)
def test_a_repetition_with_a_fixed_separator_is_fine(pattern):
    assert backtracking.fault(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "gaps"),
    [
        (rb"plain text", 0),
        (rb"out of memory.*?allocate (\d+)", 1),
        (rb"one.*two.*three.*four.*five", 4),
        (rb"step(?:.*?loss=(\d+))?(?:.*?lr=(\d+))?(?:.*?norm=(\d+))?", 0),
        (rb"(?:.*?loss=(\d+))?.*?end", 2),
        (rb"^.{0,40}?step \d+ of", 0),
        (rb"(?:one.*two.*three.*four|five)six", 3),
        (rb"\S+\.py: error", 1),
    ],
)
def test_open_gaps_that_must_be_filled_are_counted(pattern, gaps):
    assert backtracking.gaps(pattern) == gaps
    assert re.compile(pattern)
