"""`runward diagnose` and what users hand to it: many files, pipes, times, attempts, and what is no log."""

import gzip
import json
import os
import subprocess
import sys
import threading

import pytest

from runward.app import diagnose as app
from runward.cli import entry
from runward.core import errors
from runward.scan import reading
from runward.wiring import diagnose as wired
from runward.wiring import log_paths, runs

STEPS = "".join(f"step {number}0 | loss 2.0\n" for number in range(1, 9))
OOM = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB.\n"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Compiled rules of all tests here, where the package holds none."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch, cache):
    monkeypatch.setenv("RUNWARD_CACHE_DIR", str(cache))
    for name in ("CONFIG", "STATE"):
        monkeypatch.setenv(f"RUNWARD_{name}_DIR", str(tmp_path / name))


@pytest.fixture
def asked(tmp_path, capsys):
    """The JSON of one question about `text` as `train.log`, or its exit code and what was said."""

    def ask(*words, text=None, name="train.log"):
        if text is not None:
            (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        code = entry.run(["diagnose", str(tmp_path / name), "--json", *words])
        told = capsys.readouterr()
        return json.loads(told.out) if code == 0 else (code, told.err)

    return ask


def cause(body):
    return body["verdict"]["cause"]


def test_of_more_files_than_can_be_open_at_once_none_is_left_out(tmp_path):
    for number in range(600):
        (tmp_path / f"rank{number}.log").write_text(OOM if number == 599 else "step 10 | loss 2.0\n")
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (560, 560))\n"
        "from runward.cli import entry; sys.exit(entry.run(['diagnose', sys.argv[1], '--json']))"
    )
    for target in (str(tmp_path), str(tmp_path / "rank*.log")):
        done = subprocess.run([sys.executable, "-c", code, target], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        body = json.loads(done.stdout)
        assert cause(body) == "gpu_oom"
        assert body["evidence"][0]["file"].endswith("rank599.log")


def test_more_paths_than_were_ever_meant_are_refused_and_not_cut(tmp_path, monkeypatch, asked):
    for number in range(4):
        (tmp_path / f"{number}.log").write_text(STEPS)
    monkeypatch.setattr(log_paths, "MOST", 3)
    assert asked(name="*.log") == (2, f"runward: {tmp_path}/*.log: 4 files are too many.\n")


def test_what_a_glob_holds_and_cannot_be_read_is_told_and_a_named_file_must_be_there(tmp_path, asked):
    (tmp_path / "rank0.log").write_text(STEPS + OOM)
    os.symlink(tmp_path / "gone", tmp_path / "rank1.log")
    os.mkdir(tmp_path / "rank2.log")
    body = asked(name="rank*.log")
    assert cause(body) == "gpu_oom"
    assert [note for note in body["notes"] if "rank1.log: no such file" in note]
    assert [note for note in body["notes"] if "rank2.log: is a directory" in note]
    assert asked(name="rank1.log")[0] == 3


def test_a_file_that_goes_away_meanwhile_costs_its_line_numbers_or_is_told(tmp_path, monkeypatch):
    path = tmp_path / "rank0.log"
    path.write_text(STEPS + OOM)
    judge = app.concluded

    def late(*words):
        path.unlink()
        return judge(*words)

    monkeypatch.setattr(app, "concluded", late)
    found = wired.answer(wired.Question((str(path),))).diagnosis
    assert (str(found.verdict.cause), found.evidence[0].line) == ("gpu_oom", None)
    path.write_text(OOM)
    file = reading.LogFile(str(path), held=False)
    path.unlink()
    assert list(file.chunks()) == []
    assert "went away" in file.notes[0]


def test_a_folder_without_logs_a_word_that_is_nothing_and_a_terminal_say_so(tmp_path, asked, capsys):
    (tmp_path / "empty").mkdir()
    assert "a folder without files named like logs" in asked(name="empty")[1]
    assert entry.run(["diagnose", "no-such-run"]) == 3
    assert "no-such-run: no such file, and as a run" in capsys.readouterr().err


def test_what_is_wrong_with_an_option_is_not_said_of_the_name_of_a_run(monkeypatch, capsys):
    def none(_name, _attempt):
        raise errors.NotFound(errors.Problem("run 'mine' has attempts 1 to 1, not 3", "--attempt"))

    monkeypatch.setattr(runs, "diagnosable", none)
    assert entry.run(["diagnose", "mine", "--attempt", "3"]) == 3
    assert capsys.readouterr().err == "runward: --attempt: run 'mine' has attempts 1 to 1, not 3.\n"


def diagnosed(*words, feed=b"", **more):
    argv = [sys.executable, "-m", "runward", "diagnose", *words, "--json"]
    return subprocess.run(argv, input=feed, capture_output=True, check=False, timeout=120, **more)


def test_a_log_comes_through_a_pipe_with_the_lines_of_its_evidence():
    text = b"step 10 | loss 2.0\n" * 60_000 + OOM.encode()
    for name in ("-", "/dev/stdin"):
        body = json.loads(diagnosed(name, feed=text).stdout)
        assert (cause(body), body["target"]) == ("gpu_oom", name)
        assert (body["evidence"][0]["file"], body["evidence"][0]["line"]) == (name, 60_001)


def test_a_pipe_that_is_packed_or_a_device_is_refused_with_the_way_out():
    done = diagnosed("-", feed=gzip.compress(OOM.encode()))
    assert (done.returncode, b"zcat" in done.stderr) == (2, True)
    with open("/dev/zero", "rb") as zeros:
        done = subprocess.run(
            [sys.executable, "-m", "runward", "diagnose", "-"],
            stdin=zeros,
            capture_output=True,
            check=False,
            timeout=120,
        )
    assert (done.returncode, b"nothing is piped" in done.stderr) == (2, True)


def test_a_named_pipe_is_read_to_its_end_and_one_that_nobody_writes_into_is_empty(tmp_path, asked):
    os.mkfifo(tmp_path / "pipe")
    assert asked(name="pipe")["notes"][-1].endswith("pipe: is empty")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)  # so that the writer need not wait
    writer = os.open(tmp_path / "pipe", os.O_WRONLY)
    pipe = reading.Pipe(str(tmp_path / "pipe"))
    os.close(reader)

    def write():
        with os.fdopen(writer, "wb") as file:
            file.write(STEPS.encode() * 10_000)
            file.write(OOM.encode())

    thread = threading.Thread(target=write)
    thread.start()
    text = b"".join(chunk.data for chunk in pipe.chunks())
    thread.join()
    assert text == STEPS.encode() * 10_000 + OOM.encode()


@pytest.mark.parametrize("text", [b"", b"\x00\x01\x02\x05\x88\xff" * 4000], ids=["empty", "binary"])
def test_what_is_no_log_is_told(text, asked):
    assert asked(text=text)["notes"][-1].endswith(("is empty", "does not look like text"))


def test_an_empty_log_among_others_and_a_hole_of_zeros_are_nothing_to_tell(tmp_path, asked):
    (tmp_path / "a.log").write_bytes(b"\0" * 8192 + (STEPS + OOM).encode())
    (tmp_path / "b.log").write_text("")
    body = asked(name="*.log")
    assert (cause(body), body["notes"]) == ("gpu_oom", ["the exit status is not known"])


def test_what_a_log_was_cut_off_by_is_part_of_the_answer(asked):
    packed = gzip.compress(os.urandom(3000).hex().encode() + (STEPS + OOM).encode())
    body = asked(text=packed[: len(packed) // 2], name="a.log.gz")
    assert [note for note in body["notes"] if "cut off" in note]


def test_a_terminal_gets_nothing_from_a_log_that_it_would_obey(tmp_path, capsys):
    (tmp_path / "a.log").write_bytes(b"RuntimeError: \x1b bo\x07om \x9b2J \xc2\x9b5n\n")
    assert entry.run(["diagnose", str(tmp_path / "a.log"), "--explain"]) == 0
    shown = capsys.readouterr().out
    assert "RuntimeError" in shown
    assert all(letter.isprintable() or letter == "\n" for letter in shown)


def test_a_line_that_does_not_fit_says_so(tmp_path, capsys):
    (tmp_path / "a.log").write_text("RuntimeError: " + "far too long " * 40 + "\n")
    assert entry.run(["diagnose", str(tmp_path / "a.log")]) == 0
    evidence = [line for line in capsys.readouterr().out.splitlines() if "a.log:1 " in line]
    assert [line[-1] for line in evidence] == ["…"]


TIMED = (
    "2031-05-01T09:00:00Z INFO nothing that a rule knows\n"
    "RuntimeError: morning\n"
    "2031-05-01T12:00:00Z INFO nothing that a rule knows\n"
    "ValueError: noon\n"
)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--since", "2031-05-01T11:00:00"], "ValueError: noon"),
        (["--since", "2031-05-01 13:00:00+02:00"], "ValueError: noon"),
        (["--since", "1935399600"], "ValueError: noon"),
        (["--until", "2031-05-01T11:00:00Z"], "RuntimeError: morning"),
        (["--since", "2031-05-01T08:00:00", "--until", "2031-05-01T09:30:00"], "RuntimeError: morning"),
    ],
)
def test_a_line_without_a_stamp_goes_with_the_line_before_it_that_has_one(words, said, asked):
    body = asked(*words, text=TIMED)
    assert said in body["verdict"]["summary"]


def test_lines_go_with_the_stamp_before_them_across_the_pieces_of_a_large_log(asked):
    filler = "words that no rule knows, and no stamp\n" * 40_000
    text = "2031-05-01T09:00:00Z INFO begin\n" + filler + "2031-05-01T12:00:00Z INFO late\n" + filler[:8000]
    assert cause(asked("--since", "2031-05-01T11:00:00", text=text + OOM)) == "gpu_oom"
    assert cause(asked("--until", "2031-05-01T11:00:00", text=text + OOM)) == "none"


@pytest.mark.parametrize(
    "words", [["--since", "2031-05-01T13:00:00"], ["--until", "1h ago", "--since", "2h"]]
)
def test_a_time_of_which_the_log_says_nothing_is_refused_with_the_time_of_the_log(words, asked):
    code, said = asked(*words, text=TIMED)
    assert code == 2
    assert "no line lies in that time: the stamps go from 2031-05-01T09:00:00 to 2031-05-01T12:00:00" in said


def test_a_time_cannot_be_asked_of_a_log_without_stamps(asked):
    code, said = asked("--since", "2031-05-01T11:00:00", text=STEPS + OOM)
    assert (code, "no line has a time stamp" in said) == (2, True)


def test_beside_a_log_with_stamps_one_without_counts_whole_and_that_is_told(tmp_path, asked):
    (tmp_path / "kernel.log").write_text(
        "[  100.5] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
    )
    body = asked("--kernel-log", str(tmp_path / "kernel.log"), "--since", "2031-05-01T11:00:00", text=TIMED)
    assert cause(body) == "gpu_hardware"
    assert [
        note
        for note in body["notes"]
        if note.endswith("kernel.log: no line has a time stamp, so all of it counts")
    ]


def test_an_attempt_that_the_log_does_not_hold_is_not_a_clean_one(asked):
    code, said = asked("--attempt", "2", text=STEPS + OOM)
    assert (code, "holds one attempt" in said) == (3, True)
    assert cause(asked("--attempt", "1")) == "gpu_oom"


@pytest.mark.parametrize("word", ["300", "-65", "1.5", "256:0", "0:65", "SIGKILL", ""])
def test_how_nothing_can_end_is_refused(word, asked):
    code, said = asked(f"--exit-code={word}", text=STEPS)
    assert (code, "is no exit code" in said) == (2, True)


def test_a_word_that_no_scheduler_says_is_told_with_the_nearest(asked):
    body = asked("--scheduler-state", "TIMOUT", text=STEPS)
    assert body["notes"][-1] == "the scheduler's word 'TIMOUT' is not known (TIMEOUT?)"
    assert cause(asked("--scheduler-state", "timeout")) == "time_limit"


@pytest.mark.parametrize(
    ("text", "said"),
    [(TIMED, b"the stamps go from 2031-05-01T09:00:00 to"), (STEPS + OOM, b"no line has a time stamp")],
    ids=["another time", "no stamps"],
)
def test_what_comes_through_a_pipe_is_asked_for_its_time_too(text, said):
    done = diagnosed("-", "--since", "2031-05-01T13:00:00", feed=text.encode())
    assert (done.returncode, said in done.stderr) == (2, True)
