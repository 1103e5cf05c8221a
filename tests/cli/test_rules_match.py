"""`runward rules match`: the same signals however a log is cut, and at once when it comes through a pipe."""

import json
import subprocess
import sys

import pytest

from runward.cli import entry, rules_match

STEP = " [2026-11-02 10:00:00] iteration {n:8d}/     100 | elapsed time per iteration (ms): 503.1 | lm loss: 2.3E+00 |"
LINES = [
    STEP.format(n=1),
    "words that mean nothing",
    "",
    "progress 1\rprogress 2\rRuntimeError: behind a bar\r",
    "x" * 200_000 + " ValueError: far out " + "y" * 70_000,
    STEP.format(n=2),
    "RuntimeError: the last line has no end",
]
FOUND = [
    ("training_iteration", 1),
    ("python_exception", 4),
    ("python_exception", 8),
    ("training_iteration", 10),
    ("python_exception", 11),
]


def found(out):
    return [(one["name"], one["line"]) for one in map(json.loads, out.splitlines())]


@pytest.mark.parametrize("at_once", [97, 4096, 1 << 20])
def test_cutting_the_file_anywhere_changes_nothing(at_once, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(rules_match, "_AT_ONCE", at_once)
    (tmp_path / "a.log").write_text("\n".join(LINES))
    assert entry.run(["rules", "match", str(tmp_path / "a.log")]) == 0
    assert found(capsys.readouterr().out) == FOUND


def test_a_line_that_comes_through_a_pipe_is_matched_before_the_next_one_comes():
    argv = [sys.executable, "-u", "-m", "runward", "rules", "match", "-"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for n in (1, 2):
            process.stdin.write(STEP.format(n=n).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["line"] == n
        process.stdin.close()
        assert process.stdout.read() == b""
