import random

from hypothesis import given, settings
from hypothesis import strategies as st

from runward import scan

PATTERNS = [
    r"iteration\s+(?P<step>\d+)/",
    r"eval at (?P<step>\d+)",
    r"Traceback \(most recent",
    r"number of nan iterations:\s*[1-9]",
]
ITERATION, EVALUATION, TRACEBACK, NAN = range(4)
COMPILED = scan.compile(PATTERNS, options=scan.Options(sparse=frozenset({ITERATION, EVALUATION})))


def healthy(lines, extra=None):
    text = []
    for step in range(lines):
        text.append(
            b" iteration %8d/ 90000 | loss: 2.1 | number of nan iterations:   0 | %s\n" % (step, b"." * 90)
        )
        text += (extra or {}).get(step, [])
    return b"".join(text)


def bulk(text, size=256 << 10):
    scanner = scan.LineScanner(COMPILED)
    hits = []
    for at in range(0, len(text), size):
        hits += scanner.feed(text[at : at + size], at, bulk=True)
    return hits + scanner.flush()


def steps(hits):
    return [int(hit.groups["step"]) for hit in hits if hit.pattern == ITERATION]


def full(text):
    scanner = scan.LineScanner(COMPILED)
    return scanner.feed(text, 0) + scanner.flush()


def test_of_a_long_healthy_stretch_the_first_and_last_steps_are_given_and_few_between():
    text = healthy(20_000)
    got = steps(bulk(text))
    assert got[:4] == [0, 1, 2, 3]
    assert got[-4:] == [19996, 19997, 19998, 19999]
    assert got == sorted(got)
    assert len(got) < 200


def test_without_bulk_every_hit_is_given():
    assert steps(full(healthy(5000))) == list(range(5000))


def test_all_is_given_around_anything_else_that_stands_in_the_middle():
    text = healthy(5000, {2500: [b"Traceback (most recent call last):\n"]})
    got = bulk(text)
    assert [hit.pattern for hit in got].count(TRACEBACK) == 1
    around = [step for step in steps(got) if 2485 <= step <= 2515]
    assert around == list(range(2485, 2516))


def test_lines_of_another_sparse_pattern_in_the_middle_are_all_given():
    text = healthy(5000, {step: [b"eval at %d\n" % step] for step in range(100, 5000, 100)})
    found = [int(hit.groups["step"]) for hit in bulk(text) if hit.pattern == EVALUATION]
    assert found == list(range(100, 5000, 100))


@given(st.integers(0, 2**32))
@settings(max_examples=25)
def test_what_is_left_out_is_only_dense_progress_and_never_the_first_or_last(seed):
    chance = random.Random(seed)
    odd = [
        b"Traceback (most recent call last):\n",
        b"number of nan iterations: 3\n",
        b"eval at 7\n",
        b"x" * 5000 + b"\n",
    ]
    extra = {chance.randrange(6000): [chance.choice(odd)] for _ in range(chance.randrange(12))}
    text = healthy(6000, extra)
    everything, got = full(text), bulk(text, chance.choice((70_000, 100_000, 256 << 10)))
    rest = [hit for hit in everything if hit.pattern != ITERATION]
    assert [hit[:4] for hit in got if hit.pattern != ITERATION] == [hit[:4] for hit in rest]
    assert set(steps(got)) <= set(steps(everything))
    assert steps(got)[0] == 0
    assert steps(got)[-1] == 5999
    assert [hit.offset for hit in got] == sorted(hit.offset for hit in got)


def test_nothing_is_left_out_where_the_sparse_pattern_is_rare():
    text = b"".join(
        (b" iteration %d/ 9 |\n" % line if line % 400 == 0 else b"NCCL INFO chatter " + b"c" * 80 + b"\n")
        for line in range(9000)
    )
    assert steps(bulk(text)) == list(range(0, 9000, 400))
