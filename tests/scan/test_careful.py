import re

from runward.scan import careful

SLOW = re.compile(rb"foo.*?bar.*?baz.*?qux")
HOSTILE = b"foobarbaz" * 450
CALM = b"foo stands here, and nothing else"


def waste(watched):
    """Tries on one bad line after another, until the window is at its narrowest."""
    for number in range(100_000):
        watched.look(b"%d" % number + HOSTILE, len(b"%d" % number))
        if watched.width == careful.NARROWEST:
            return
    raise AssertionError(watched.width)


def calm(watched):
    """Tries on calm lines until the window is at its widest: one that a busy machine slows down begins the count anew."""
    for number in range(careful.QUICK * 200):
        watched.look(CALM + b"%d" % number, 0)
        if watched.width == careful.WIDEST:
            return
    raise AssertionError(watched.width)


def test_a_pattern_that_wastes_time_sees_less_until_it_is_quick_again():
    watched = careful.Careful(SLOW, fixed=True)
    waste(watched)
    late = b"foo bar baz" + b" " * 1000 + b"qux"
    assert watched.look(late, 0) is None
    calm(watched)
    assert watched.look(late, 0)


def test_on_one_line_a_failing_pattern_is_left_alone_after_some_tries():
    watched = careful.Careful(SLOW, fixed=True)
    line = b"foo " * 20 + b"foo bar baz qux"
    found = [watched.look(line, at) for at in range(0, 80, 4)]
    assert all(match and match.end() == len(line) for match in found)
    line = b"foo " * 20
    assert [watched.look(line, at) for at in range(0, 80, 4)] == [None] * 20
    assert watched.look(b"foo bar baz qux", 0)
