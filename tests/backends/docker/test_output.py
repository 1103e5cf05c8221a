"""The follower of a container's output against a real engine."""

import json
import os
import signal
from collections.abc import Iterator

import pytest

from backends.docker import engine as engines
from runward import ports
from runward.backends import intake
from runward.backends.docker import output

pytestmark = pytest.mark.docker
until = engines.until


class Reader:
    """Reads a stream as a watcher does; being blind for a while is no end."""

    def __init__(self, stream: ports.LogStream) -> None:
        self.stream, self.text, self.blind = stream, b"", 0

    def has(self, words: bytes) -> bool:
        try:
            for chunk in self.stream.read_new(1 << 16):
                assert chunk.offset == len(self.text)
                self.text += chunk.data
        except ports.ContactLost:
            self.blind += 1
        return words in self.text

    def wait_for(self, words: bytes) -> None:
        until(lambda: self.has(words), 60, self.text[-300:].decode)


@pytest.fixture
def follow(engine: engines.RealEngine) -> Iterator:
    opened = []

    def make(container: str) -> Reader:
        (stream,) = engine.backend().logs(container)
        opened.append(stream)
        return Reader(stream)

    yield make
    for stream in opened:
        stream.close()


def test_both_outputs_come_in_the_order_of_their_writing(engine, follow) -> None:
    script = "for i in 1 2 3; do echo out $i; sleep 0.05; echo err $i >&2; sleep 0.05; done"
    reader = follow(engine.run(command=("sh", "-c", script), wait=False))
    reader.wait_for(b"err 3\n")
    assert reader.text == b"out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n"


def test_a_terminals_output_is_read_as_well(engine, follow) -> None:
    reader = follow(engine.run("--tty", command=("sh", "-c", "echo one; echo two"), wait=False))
    reader.wait_for(b"two")
    assert reader.text.replace(b"\r", b"") == b"one\ntwo\n"


def test_a_line_longer_than_the_engines_pieces_stays_one_line(engine, follow) -> None:
    script = "head -c 50000 /dev/zero | tr '\\0' x; echo; echo end"
    reader = follow(engine.run(command=("sh", "-c", script), wait=False))
    reader.wait_for(b"end\n")
    assert reader.text == b"x" * 50000 + b"\nend\n"


def test_the_log_is_followed_across_a_restart_of_the_container_without_a_line_twice(engine, follow) -> None:
    script = 'echo "start $(cat /out/n 2>/dev/null)"; echo 2 > /out/n; exec sleep 1000'
    container = engine.run("--stop-timeout", "1", command=("sh", "-c", script), wait=False)
    reader = follow(container)
    reader.wait_for(b"start \n")
    engine.docker("restart", "-t", "0", container)
    reader.wait_for(b"start 2\n")
    assert reader.text == b"start \nstart 2\n"


def test_many_lines_of_one_instant_are_given_once_after_a_reconnect(engine, follow) -> None:
    script = "seq 1 2000; exec sleep 1000"
    container = engine.run("--stop-timeout", "0", command=("sh", "-c", script), wait=False)
    reader = follow(container)
    reader.wait_for(b"\n2000\n")
    engine.docker("restart", "-t", "0", container)
    until(lambda: reader.has(b"\n2000\n") and reader.text.count(b"\n2000\n") == 2)
    assert reader.text == b"".join(b"%d\n" % n for n in range(1, 2001)) * 2


def test_a_reader_that_does_not_read_does_not_hold_the_whole_log(engine, follow) -> None:
    script = (
        "yes 'a line of a log that is written fast and read slowly' | head -c 12000000; echo; echo the end"
    )
    container = engine.run(command=("sh", "-c", script))
    reader = follow(container)
    reader.has(b"x")
    until(lambda: len(reader.stream._intake._waiting) >= intake._ROOM)
    assert len(reader.stream._intake._waiting) < intake._ROOM + (1 << 17)
    reader.stream.read_new(1 << 16)
    until(lambda: reader.stream.read_new(1 << 20) == [] and not reader.stream._thread.is_alive())


def test_the_tail_of_a_large_log_is_bounded(engine) -> None:
    script = "yes 'a line of a large log' | head -c 8000000; echo; echo last"
    container = engine.run(command=("sh", "-c", script))
    got = output.tail(engine.client(), container, 1000, 5000, tty=False)
    assert len(got) <= 5000
    assert got.endswith(b"last\n")


def test_the_tail_of_the_file_is_what_the_engine_would_send(engine, tmp_path) -> None:
    script = "for i in $(seq 300); do echo out $i; echo err $i >&2; done; head -c 40000 /dev/zero | tr '\\0' x; echo"
    container = engine.run(command=("sh", "-c", script))
    path = engine.inspect(container).log_path
    for lines, limit in ((50, 1 << 20), (1000, 1 << 20), (1000, 30000)):
        asked = output.tail(engine.client(), container, lines, limit, tty=False)
        assert output.tail_of_file(path, lines, limit) == asked
    assert output.tail_of_file(str(tmp_path / "none.log"), 5, 100) is None


def test_a_file_that_does_not_hold_enough_or_is_none_of_ours_is_left_to_the_engine(tmp_path) -> None:
    path = tmp_path / "c-json.log"
    path.write_text('{"log":"a\\n"}\n{"log":"torn')
    assert output.tail_of_file(str(path), 5, 100) == b"a\n"
    (tmp_path / "c-json.log.1").write_text("older")
    assert output.tail_of_file(str(path), 5, 100) is None
    path.write_text("2026-01-01T00:00:00Z stdout F not json\n")
    assert output.tail_of_file(str(path), 1, 100) is None


@pytest.mark.parametrize("last", ['"time":"t"}', '"attrs":{"log":"no"},"time":"t"}', '"time":"t"'])
def test_a_text_that_looks_like_the_drivers_own_words_is_text(tmp_path, last) -> None:
    said = [
        "plain",
        'quoted ","stream":"stderr","log":"',
        "back\\",
        '\\"',
        "\u2028\x00é",
        '{"log":"x","stream":"s"}',
    ]
    rows = [f'{{"log":{json.dumps(text)},"stream":"stdout",{last}\n' for text in said]
    path = tmp_path / "c-json.log"
    path.write_text("".join(rows))
    whole = last.endswith("}")
    for lines in (2, 6, 9):
        told = "".join(said[-lines:]).encode() if whole else None
        assert output.tail_of_file(str(path), lines, 1 << 16) == told


def test_a_file_of_many_megabytes_is_read_at_its_end_only(tmp_path, monkeypatch) -> None:
    path = tmp_path / "c-json.log"
    with path.open("wb") as file:
        file.truncate(3 << 30)  # a hole: reading it all would take gigabytes
        file.seek(0, os.SEEK_END)
        file.write(b'\n{"log":"last\\n"}\n')
    assert output.tail_of_file(str(path), 1, 1 << 16) == b"last\n"


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_the_engine_restarted_under_the_watcher_loses_no_line_and_ends_no_job(signum) -> None:
    reason = engines.why_not()
    if reason:
        assert os.environ.get("CI") != "true", reason
        pytest.skip(reason)
    engine = engines.RealEngine()
    try:
        engine.start(live_restore=True)
        engine.import_image()
        script = "i=0; while :; do i=$((i+1)); echo n$i; sleep 0.1; done"
        container = engine.run(command=("sh", "-c", script), wait=False)
        docker = engine.backend()
        (stream,) = docker.logs(container)
        reader = Reader(stream)
        reader.wait_for(b"n5\n")
        engine.stop(signum)
        assert type(docker.poll([container])[container]).__name__ == "Unseen"
        until(lambda: reader.has(b"\0") or reader.blind)
        engine.start(live_restore=True)
        assert docker.poll([container])[container].state.value == "running"
        last = reader.text.count(b"\n")
        reader.wait_for(b"n%d\n" % (last + 20))
        numbers = [int(line[1:]) for line in reader.text.splitlines()]
        assert numbers == list(range(1, len(numbers) + 1))
        stream.close()
    finally:
        engine.destroy()
