"""Lines that repeat a shape and tell nothing new are passed over; what is new is always learnt."""

import pytest

from runward.core import repeats


def _read(lines, news=()):
    known = repeats.Repeats()
    read = []
    for place, line in enumerate(lines):
        shape = repeats.shape(line)
        if not known.worn(shape):
            read.append(place)
            known.told(shape, news=place in news)
    return known, read


def test_chatter_of_one_shape_is_read_no_more_once_it_told_nothing_for_long():
    _, read = _read([b"nccl info allreduce: opcount %d buff 0x%x [nranks=512]" % (n, n) for n in range(500)])
    assert 0 < len(read) < 100


def test_a_shape_that_goes_on_telling_news_is_read_to_its_end():
    lines = [b"rank %d runs as pid %d" % (n, 7000 + n) for n in range(500)]
    assert len(_read(lines, news=range(500))[1]) == 500


def test_each_source_has_its_first_lines_read():
    known, _ = _read([b"rank %d on gpu 1" % n for n in range(500)])
    assert known.worn(repeats.shape(b"rank 3 on gpu 1"))
    known.begin()
    assert not known.worn(repeats.shape(b"rank 3 on gpu 1"))


def test_another_shape_is_read():
    known, _ = _read([b"rank %d on gpu 1" % n for n in range(500)])
    assert not known.worn(repeats.shape(b"rank 3 uses gpu 1"))


@pytest.mark.parametrize("text", [b"", b"rank 3\n", b"ab\n\n12", b"rank 3 is 0xabc\npid 7\n0", b"\n\n9\n"])
def test_the_shapes_of_a_text_are_those_of_its_lines(text):
    assert repeats.shapes(text) == [repeats.shape(line) for line in text.split(b"\n")]
