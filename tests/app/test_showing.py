import os

from runward import ports
from runward.app import showing


class Stream:
    rank = None

    def __init__(self, name, *pieces):
        self.name, self.pieces, self.asked = name, list(pieces), 0

    def read_new(self, budget):
        self.asked += 1
        return (ports.Chunk(0, self.pieces.pop(0)),) if self.pieces else ()


def test_the_rest_of_an_earlier_attempt_is_shown_first_and_then_let_go():
    read, write = os.pipe()
    old, new = Stream("1/output.log", b"old 1\n", b"old 2\n"), Stream("2/output.log", b"new\n")
    listed = [old]
    show = showing.Showing(lambda: listed, write)
    assert show()
    listed[:] = [new]
    assert show()
    assert os.read(read, 100) == b"old 1\nold 2\nnew\n"
    assert not show()
    asked = old.asked
    assert not show()
    assert old.asked == asked
    os.close(read)
    os.close(write)


def test_a_terminal_that_is_gone_ends_the_showing_and_nothing_else():
    read, write = os.pipe()
    os.close(read)
    stream = Stream("1/output.log", b"lost\n", b"lost too\n")
    show = showing.Showing(lambda: [stream], write)
    assert show()
    assert show()
    assert not show()
    os.close(write)
