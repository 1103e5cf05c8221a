"""Which lines of a log are looked at for who is who: by their words, and once for each shape."""

import pytest

from runward.core import repeats, worth


def _kinds(*lines: bytes, known: dict[bytes, worth.Kind] | None = None) -> list[worth.Kind]:
    low = [line.lower() for line in lines]
    wanted = worth.Worth(b"\n".join(low), {} if known is None else known)
    return [wanted.kind(line, repeats.shape(line)) for line in low]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b"rank 3 runs as pid 71", worth.Kind.RANK),
        (b"torchrun: --nproc_per_node=8", worth.Kind.RANK),
        (b"rank 3 has begun", worth.Kind.SIGNED),
        (b"x" * 90 + b" rank 3 has begun", worth.Kind.NOTHING),
        (b"GPU 0000:9B:00.0 is in use", worth.Kind.DEVICE),
        (b"GPU 2 (UUID: GPU-1f-2a)", worth.Kind.DEVICE),
        (b"n1:7:8 [0] NCCL INFO Channel 00/0 : 3[3] -> 4[4] via P2P", worth.Kind.CHANNEL),
        (b"layer 3[3] -> 4[4]", worth.Kind.NOTHING),
        (b"node12: task 3: exited", worth.Kind.TASK),
        (b"iteration 71/900 | loss 2.1", worth.Kind.NOTHING),
    ],
)
def test_a_line_is_told_by_its_words(line: bytes, kind: worth.Kind):
    assert _kinds(line) == [kind]


def test_a_source_without_such_words_needs_no_look():
    assert not worth.Worth(b"iteration 1\niteration 2\n", {})
    assert worth.Worth(b"iteration 1\nrank 1 on gpu 2\n", {})


def test_what_one_source_taught_holds_for_the_next():
    known: dict[bytes, worth.Kind] = {}
    _kinds(b"rank 3 runs as pid 71", known=known)
    assert _kinds(b"rank 4 runs as pid 72", known=known) == [worth.Kind.RANK]
    assert len(known) == 1


def test_a_bus_is_told_apart_from_another_number_of_the_same_shape():
    assert _kinds(b"at 0000:9b:10.2", b"at 0000:9b:00.0") == [worth.Kind.NOTHING, worth.Kind.DEVICE]
