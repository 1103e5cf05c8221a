import itertools

from hypothesis import given
from hypothesis import strategies as st

from runward.core import whole_lines

TEXT = st.text(alphabet="ab\n\r é", max_size=60).map(lambda text: text.encode())


def lines(pieces: list[bytes]) -> list[tuple[int, str]]:
    reader = whole_lines.WholeLines()
    return [line for piece in pieces for line in reader.feed(piece)] + list(reader.flush())


@given(TEXT, st.lists(st.integers(0, 60), max_size=5))
def test_lines_are_the_same_wherever_the_log_is_cut(text, cuts):
    at = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [text[a:b] for a, b in itertools.pairwise(at)]
    assert lines(pieces) == lines([text])


def test_a_log_that_begins_anew_is_counted_anew_and_a_line_without_end_is_passed_over():
    reader = whole_lines.WholeLines()
    assert list(reader.feed(b"x" * (whole_lines.LONGEST + 1))) == []
    assert list(reader.feed(b"tail\nnext\n")) == [
        (whole_lines.LONGEST + 1, "tail"),
        (whole_lines.LONGEST + 6, "next"),
    ]
    assert list(reader.feed(b"new\n", restarted=True)) == [(0, "new")]
