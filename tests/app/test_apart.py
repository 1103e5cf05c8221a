"""Logs read by several processes give the casebook that one process gives; a child that dies is said, not waited for."""

import os
import signal

import pytest

from runward.app import apart, diagnose
from runward.core import context, log_names, rules, signals
from runward.wiring import diagnose as wired
from runward.wiring import log_paths


@pytest.fixture(scope="module")
def engine():
    return wired.engine()


def text(rank):
    step = "[2026-11-02 10:00:{:02d}] iteration {}/ 5000 | lm loss: 2.1 | grad norm: 0.5 |\n"
    lines = [step.format(n % 60, n) for n in range(3000)]
    lines[1000] = f"[rank{rank}]: UserWarning: something is deprecated\n"
    lines[2000:2000] = [
        "Traceback (most recent call last):\n",
        '  File "a.py", line 3, in f\n',
        "KeyError: 7\n",
    ]
    if rank == 5:
        lines += [
            "Traceback (most recent call last):\n",
            '  File "train.py", line 9, in step\n',
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB. é \n",
        ]
    return "".join(lines).encode() + b"\xff unfinished"


@pytest.fixture
def paths(tmp_path):
    for rank in range(7):
        (tmp_path / f"rank{rank}.log").write_bytes(text(rank))
    return [str(tmp_path / f"rank{rank}.log") for rank in range(7)]


def logs(paths):
    opened = [
        log_paths.open_log(path, [], owner)
        for path, owner in zip(paths, log_names.owners_of(paths), strict=True)
    ]
    return [*opened, wired.text_log(signals.Source("elsewhere"), b"step 1/5 loss 0.1\nKilled\n")]


def state(book):
    kept = {name: value for name, value in vars(book).items() if name not in ("rules", "samples")}
    return kept | {"samples": [(one.order, one.step, one.loss) for one in book.samples]}


@pytest.mark.parametrize("workers", [2, 3, 9])
def test_the_casebook_is_the_same_however_many_processes_read(engine, paths, workers):
    alone = diagnose.book_of(engine, logs(paths), context.Context())
    together = diagnose.book_of(engine, logs(paths), context.Context(), None, apart.reader(workers))
    assert state(together) == state(alone)
    tracebacks = [seen.count for (rule, _), seen in alone.buckets.items() if rule == rules.TRACEBACK]
    assert sum(tracebacks) == 8


def test_what_a_files_reader_met_comes_back(engine, paths, tmp_path):
    (tmp_path / "cut.log.gz").write_bytes(b"\x1f\x8b\x08\0\0\0\0\0\0\0garbage")
    opened = []
    read = [log_paths.open_log(path, opened) for path in (*paths, str(tmp_path / "cut.log.gz"))]
    diagnose.book_of(engine, read, context.Context(), None, apart.reader(2))
    assert "damaged" in opened[-1].notes[0]
    assert all(not file.notes for file in opened[:-1])


def test_a_child_that_dies_is_said_and_the_others_are_read(engine, paths):
    def dies():
        os.kill(os.getpid(), signal.SIGKILL)
        yield

    read = logs(paths)
    read[2] = diagnose.Log(read[2].source, dies(), notes=[])
    book = diagnose.book_of(engine, read, context.Context(), None, apart.reader(3))
    assert read[2].notes == ["reading stopped: the process that read it ended"]
    assert read[5].notes == ["reading stopped: the process that read it ended"]  # of the same child's share
    assert not read[3].notes
    assert paths[3] in book.progress


def test_a_parent_that_stops_reading_waits_for_no_child(engine, paths, monkeypatch):
    monkeypatch.setattr(apart, "_retold", lambda *_: 1 / 0)
    many = [diagnose.Log(signals.Source(str(n)), (), notes=[]) for n in range(2)]
    with pytest.raises(ZeroDivisionError):
        diagnose.book_of(engine, [*many, *logs(paths)], context.Context(), None, apart.reader(2))
