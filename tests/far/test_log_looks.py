"""What a wait sees in a log that is read on: markers, failed cells, crashes, steps, a log written anew."""

import pytest

from runward.core import errors
from runward.wiring import log_looks

CASES = [
    ("done", "QUEUE DONE\n", "met"),
    ("done", "Epoch 3\nTraining completed\n", "met"),
    ("done", "Epoch 3\n", "later"),
    ("done", "=== QUEUE DONE on b -- all 2 cell(s) exited 0 ===\n", "met"),
    ("done", "=== QUEUE DONE on b -- 2 cell(s) FAILED: a b ===\n", "ended"),
    ("done", "QUEUE DONE -- 1 cell(s) FAILED: a\nQUEUE DONE -- all 1 cell(s) exited 0\n", "met"),
    ("done", "QUEUE DO", "later"),
    ("failed", "Epoch 3\nTraceback (most recent call last):\n", "met"),
    ("failed", "Traceback (most recent call last):\nEpoch 3\n", "later"),
    ("failed", "val Error: 0.12\nError rate 3\n", "later"),
    ("failed", "torch.OutOfMemoryError: CUDA out of memory. Tried\n", "met"),
    ("failed", "Killed\n", "met"),
    ("failed", "=== QUEUE DONE on b -- 2 cell(s) FAILED: a b ===\n", "met"),
    ("failed", "Training completed\n", "ended"),
    ("step>=20", "step 19/100\n", "later"),
    ("step>=20", "step 5\nglobal_step=20\nstep 7\n", "met"),
    ("step >= 20", "Iteration 25: loss 1\n", "met"),
    ("step>=20", "", "later"),
    ("failed", "ValueErrors are fun\nmy CUDA out of paper\n", "later"),
    ("failed", "x " * 5000 + "ValueError: y\n", "later"),
    ("it's (a|b)", "so it's b\n", "met"),
    ("a|b", "c\n", "later"),
    ("done", "runward chain: begins: 2\nTraining completed\nQUEUE DONE\n", "later"),
    ("done", "runward chain: begins: 2\nTraining completed\nrunward chain: all 2 stages done\n", "met"),
    ("done", "runward chain: begins: 2\nrunward chain: stopped by [eval], exit 1\n", "ended"),
    ("done", "runward chain: stopped by [eval], exit 1\nrunward chain: begins: 1\n", "later"),
    ("failed", "runward chain: begins: 2\nTraining completed\n", "later"),
    ("failed", "runward chain: begins: 2\nrunward chain: stopped by [eval], exit 1\n", "met"),
    ("failed", "runward chain: begins: 2\nQUEUE DONE\nrunward chain: all 2 stages done\n", "ended"),
]


@pytest.mark.parametrize(("condition", "text", "word"), CASES)
def test_each_condition_of_a_log(condition, text, word):
    data = text.encode()
    log = log_looks.Log(lambda at, n: data[at : at + n], condition)
    assert log.look()[0] == word
    assert log.look()[0] == word


@pytest.mark.parametrize(("condition", "text", "word"), CASES)
def test_reading_on_says_the_same_as_reading_at_once(condition, text, word):
    data, there = text.encode(), 0
    log = log_looks.Log(lambda at, n: data[at : min(at + n, there)], condition)
    for there in [*range(0, len(data), 1 + len(data) // 100), len(data)]:  # noqa: B007 -- the log grows under the reader
        log.look()
    assert log.look()[0] == word


def test_a_last_line_that_is_being_written_is_not_judged():
    data = b"QUEUE DONE on b"
    log = log_looks.Log(lambda at, n: data[at : at + n], "done")
    assert log.look()[0] == "later"
    data += b" -- 2 cell(s) FAILED: a\n"
    assert log.look()[0] == "ended"


def test_a_marker_across_two_windows_is_found_and_a_log_written_anew_is_read_from_its_begin():
    data = b"x" * ((1 << 20) - 4) + b"QUEUE DONE\n" + b"y\n" * 100
    log = log_looks.Log(lambda at, n: data[at : at + n], "done")
    assert log.look()[0] == "met"
    length = len(data)
    data = b"Epoch 1\n"
    assert log.look()[0] == "later"
    data = b"z" * length
    assert log.look()[0] == "later"


def test_only_new_bytes_are_read_again():
    asked = []
    data = b"Epoch 1\n" * 1_000_000
    log = log_looks.Log(lambda at, n: asked.append(at) or data[at : at + n], "done")
    log.look()
    asked.clear()
    log.look()
    assert len(asked) == 1
    assert asked[0] > len(data) - 10_000


def test_what_is_no_pattern_is_refused():
    with pytest.raises(errors.UsageError):
        log_looks.Log(lambda at, n: b"", "(")
