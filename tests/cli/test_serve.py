"""`runward serve` over a state that real runs left: what the command line says, and how it begins and ends."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import uvicorn

import commands
from fakes import browser
from runward.cli import entry
from runward.core import errors, events, run
from runward.store import sqlite
from runward.ui import view
from runward.ui.web import app, connections
from runward.wiring import log_ends, looking, page_looks, page_tokens, serving_pages

TRAINER = """
import sys
for step in range(1, 4):
    print(f"step {step}/3 loss 0.5")
print("<script>alert(1)</script> HF_TOKEN=hf_abcdefghijklmnopqrstuv", "\\x1b[31mred\\x1b[0m")
print("50%\\r100% done")
sys.exit(3)
"""


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    (folder / "train.py").write_text(TRAINER)
    made = {**os.environ, "RUNWARD_STATE_DIR": str(folder / "state"), "HOME": str(folder)}
    commands.runward(
        made,
        "run",
        "--name",
        "bad",
        "--policy",
        "none",
        "--",
        sys.executable,
        str(folder / "train.py"),
        code=3,
    )
    return made


@pytest.fixture
def served(env, monkeypatch):
    monkeypatch.setenv("RUNWARD_STATE_DIR", env["RUNWARD_STATE_DIR"])
    return app.build(page_looks.looks())


@pytest.mark.parametrize(
    ("path", "argv"),
    [
        ("/api/runs", ("ps",)),
        ("/api/runs/bad", ("status", "bad")),
        ("/api/runs/bad/events", ("events", "bad")),
    ],
)
def test_json_is_word_for_word_that_of_the_command_line(served, path, argv, capsys):
    assert entry.run([*argv, "--json"]) == 0
    said = capsys.readouterr().out
    got = browser.ask(served, path)
    assert [json.loads(line) for line in got.text.splitlines()] == [
        json.loads(line) for line in said.splitlines()
    ]


def test_the_pages_of_real_runs_have_their_verdict_their_log_and_no_secret(served):
    page = browser.ask(served, "/runs/bad").text
    for part in (
        "step 3/3 loss 0.5",
        "&lt;script&gt;alert(1)",
        "HF_TOKEN=***",
        "exit code 3",
        "red",
        "100% done",
    ):
        assert part in page
    assert "hf_abc" not in page
    assert "\x1b" not in page
    assert browser.ask(served, "/metrics").text.count('runward_run_attempts{run="') == 1
    assert browser.ask(served, "/healthz").text == "ok: 1 runs\n"


def test_the_end_of_a_log_is_read_without_what_stands_before_it(env, monkeypatch, tmp_path):
    monkeypatch.setenv("RUNWARD_STATE_DIR", env["RUNWARD_STATE_DIR"])
    path = Path(env["RUNWARD_STATE_DIR"], "runs", "bad", "attempt_1", "output.log")
    kept = path.read_bytes()
    try:
        with path.open("wb") as file:
            file.seek(3 << 30)  # what the keeper cut out reads as zeros
            file.write(b"half\nlast but one\nlast")
        assert log_ends.end("bad", None, 2)["lines"] == ["last but one", "last"]
        assert log_ends.end("bad", 1, 50)["lines"] == ["last but one", "last"]
        assert log_ends.end("bad", 1, 2)["cut"] is True
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(errors.Unreachable, match="no regular file"):
            log_ends.end("bad", 1, 2)
    finally:
        path.unlink()
        path.write_bytes(kept)
    with pytest.raises(errors.NotFound, match="attempts 1 to 1, not 7"):
        log_ends.end("bad", 7, 2)


def test_runs_are_folded_on_from_where_the_last_look_ended(served, env, monkeypatch):
    del served
    kept = page_looks.Standings()
    first = kept.statuses(1e9)
    read = []
    monkeypatch.setattr("runward.core.run.fold", lambda events, state: read.extend(events) or state)
    again = kept.statuses(1e9)
    assert read == []
    assert [one["run"] for one in again] == ["bad"]
    assert [one["attempts"] for one in again] == [one["attempts"] for one in first]
    assert kept.statuses(-10.0) == []


def test_a_run_without_news_for_days_is_told_while_it_lives_and_an_older_one_by_the_name_that_it_has(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("RUNWARD_STATE_DIR", str(tmp_path))
    long_ago = 1e9
    with contextlib.closing(sqlite.SqliteStore(str(tmp_path))) as store:
        for over in (True, False):
            row = store.create("again", long_ago)
            made = [events.RunCreated(at=long_ago, run="again", backend="process", policy="default")]
            made += [events.RunEnded(at=long_ago, state="held", code=1, why="x")] if over else []
            store.append(row.id, made, 0, view.row(run.fold(made), view.Look(0.0, {}, None)))
    assert [one["run"] for one in page_looks.Standings().statuses(86_400.0)] == ["again"]
    assert (
        [one["run"] for one in looking.rows()]
        == [one["run"] for one in page_looks.rows()]
        == ["again~1", "again"]
    )
    assert looking.status("again~1")["run"] == "again~1"


# -- a server of its own -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def server(env, *argv):
    argv = [sys.executable, "-m", "runward", "serve", "--port", "0", "--json", *argv]
    child = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = child.stdout.readline()
        assert line, child.stderr.read()
        yield child, json.loads(line)
    finally:
        child.kill()
        child.communicate()


def test_beyond_this_machine_a_token_is_asked_for_and_a_signal_ends_it_with_0(env):
    with server(env, "--host", "0.0.0.0") as (child, said):
        name, port = said["url"].split("/")[2].split(":")
        assert name == socket.gethostname()
        address = f"127.0.0.1:{port}"
        token = Path(said["token_file"]).read_text().strip()
        assert os.stat(said["token_file"]).st_mode & 0o777 == 0o600
        assert said["token_file"].startswith(env["RUNWARD_STATE_DIR"])
        assert browser.get(address).code == 401
        assert browser.get(address, Authorization=f"Bearer {token}").code == 200
        assert browser.get(address, Authorization=f"Bearer {token}", Host="evil.example").code == 421
        assert browser.get(address, Authorization=f"Bearer {token}", Host=name).code == 200
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 0
        err = child.stderr.read()
        assert token not in err, "it would stand in a service's journal"
        assert "the token is in" in err


def test_clients_that_bring_nothing_hold_up_nobody(env):
    with server(env) as (child, said):
        address = said["url"].split("/")[2]
        host, port = address.split(":")
        idle = [socket.create_connection((host, int(port)), timeout=60) for _ in range(100)]
        for one in idle[::2]:
            one.send(b"GET / HTTP/1.1\r\nHost: local")
        health = browser.get(address, "/healthz")
        assert (health.code, health.text) == (200, "ok: 1 runs\n")
        big = idle[0]
        with contextlib.suppress(ConnectionError):  # it does not read to the end of what it refuses
            big.send(b"host\r\nX-Long: " + b"x" * (64 << 10))
            assert b" 400 " in big.recv(1000)
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 0
        for one in idle:
            one.close()


def test_a_connection_lives_no_longer_than_an_answer_may_take(served, monkeypatch):
    monkeypatch.setattr(connections, "LIFE_S", 0.2)

    async def one():
        config = uvicorn.Config(served, http=connections.Connection, lifespan="off", log_config=None)
        running = connections.Server(config)
        listener = serving_pages.listen("127.0.0.1", 0)
        task = asyncio.ensure_future(running.serve([listener]))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
        running.leave()
        await task

    asyncio.run(one())


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (("--host", "box..example"), 2, "'box..example' is no address"),
        (("--host", "192.0.2.1", "--port", "0"), 2, "cannot listen on 192.0.2.1:0"),
        (("--port", "70000"), 2, "--port"),
        (("--port", "0", "--token-file", "/dev/null"), 2, "is no regular file"),
    ],
    ids=["no host", "another box", "no port", "no token"],
)
def test_what_cannot_be_served_is_said_in_a_line(argv, code, said, capsys):
    assert entry.run(["serve", *argv]) == code
    words = capsys.readouterr()
    assert (words.out, said in words.err, words.err.count("\n")) == ("", True, 1)


def test_a_port_that_is_taken_is_said_with_the_way_out(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert entry.run(["serve", "--port", port]) == 75
    said = f"runward: --port: port {port} of 127.0.0.1 is taken. --port 0 takes one that is free.\n"
    assert capsys.readouterr().err == said


def test_without_its_extra_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(serving_pages, "_NEEDED", ("nonesuch_package",))
    with pytest.raises(errors.UsageError, match=r"pip install 'runward\[serve\]'"):
        serving_pages.serve(serving_pages.Options("127.0.0.1", 0), lambda _: None)


def test_a_state_that_is_damaged_is_refused_at_the_begin(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RUNWARD_STATE_DIR", str(tmp_path))
    (tmp_path / "state.db").write_text("this is no database of ours, but it is longer than a header " * 20)
    assert entry.run(["serve", "--port", "0"]) == 75
    assert "state cannot be used now" in capsys.readouterr().err


def test_a_state_that_is_not_there_yet_is_shown_as_such_and_not_made(tmp_path, monkeypatch):
    monkeypatch.setenv("RUNWARD_STATE_DIR", str(tmp_path / "none"))
    empty = app.build(page_looks.looks())
    page, health = browser.ask(empty, "/"), browser.ask(empty, "/healthz")
    assert (page.code, f"No runs in {tmp_path / 'none'}" in page.text) == (200, True)
    assert (health.code, health.text.startswith("no state in")) == (503, True)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("mode", "text", "said"),
    [
        (0o644, "0123456789abcdefghij", "can be read by others"),
        (0o600, "short", "holds no token"),
        (0o600, "x" * 600, "holds no token"),
        (0o600, "0123456789 abcdefghij", "holds no token"),
        (0o600, "\xe9" * 20, "holds no token"),
    ],
    ids=["mode", "short", "long", "blank", "letters"],
)
def test_a_token_that_protects_nothing_is_refused(tmp_path, mode, text, said):
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(errors.UsageError, match=said):
        page_tokens.load(str(path))


def test_a_token_is_made_once_and_never_through_a_link(tmp_path):
    token, made = page_tokens.load(str(tmp_path / "new" / "token"))
    assert (page_tokens.load(str(tmp_path / "new" / "token")), made) == ((token, False), True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(errors.UsageError, match="cannot be written"):
        page_tokens.load(str(tmp_path / "link"))
    assert not (tmp_path / "elsewhere").exists()
