"""Wrong words, broken files, full disks and strange logs: a clear error or a degraded mode that says so."""

import contextlib
import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.conftest import Box, attempts
from waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
LONG = 100_000


def test_a_script_whose_interpreter_is_missing_is_said_before_anything_is_made(box: Box):
    script = box.work / "train"
    script.write_text("#!/no/such/python3\nprint(1)\n")
    script.chmod(0o755)
    done = box.cli("run", "--name", "demo", "--", "./train", rc=127)
    assert "the interpreter of ./train is not there: /no/such/python3" in done.stderr
    assert not (box.state / "runs" / "demo").exists()


def test_a_missing_command_is_127_and_makes_no_run(box: Box):
    done = box.cli("run", "--name", "demo", "--", "no-such-command-at-all", rc=127)
    assert "command not found: no-such-command-at-all" in done.stderr
    assert box.cli("status", "demo", rc=3).stdout == ""


def test_a_command_that_cannot_be_executed_is_126(box: Box):
    script = box.work / "train.sh"
    script.write_text("echo hello\n")
    done = box.cli("run", "--", "./train.sh", rc=126)
    assert "chmod +x" in done.stderr


def test_every_mistake_of_a_policy_file_is_said_at_once(box: Box):
    policy = box.work / "mine.yaml"
    policy.write_text(
        "kind: policy\nversion: 1\nbudgt: {per_day: 3}\nbackoff: {base: soon}\n"
        "rules:\n  - {cause: [gpu_om], action: restart}\n  - {action: restrt}\n"
    )
    done = box.cli("run", "--policy", str(policy), "--", "true", rc=2)
    for words in (
        "budgt",
        "did you mean 'budget'",
        "backoff.base",
        "gpu_oom",
        "restart",
        "mine.yaml:3",
        "mine.yaml:7",
    ):
        assert words in done.stderr, f"{words!r} is missing in:\n{done.stderr}"


def test_all_wrong_options_of_a_run_are_said_at_once(box: Box):
    done = box.cli("run", "--name", "a b", "--resume-arg", "--load {pth}", "--resume", "--", "true", rc=2)
    assert "'a b' is no name" in done.stderr
    assert "needs --checkpoints" in done.stderr
    assert "{pth}" in done.stderr or "pth" in done.stderr


def test_what_can_never_work_is_refused_before_anything_is_made(box: Box):
    (box.work / "file").write_text("")
    wrong = ["--checkpoints", "file", "--resume-arg", "--load {path", "--max-runtime", "0s"]
    done = box.cli("run", *wrong, "--", "true", rc=2)
    assert "--max-runtime: run.max_runtime: '0s' is not between 0.1 s and 3650 d" in done.stderr
    done = box.cli("run", *wrong[:4], "--name", "", "--notify", "/no/such 1", "--", "true", rc=2)
    assert f"--checkpoints: {box.work}/file is no directory" in done.stderr
    assert "--resume-arg: {path is not closed: {path}" in done.stderr
    assert "--name: '' is no name" in done.stderr
    assert "--notify: no such command: /no/such." in done.stderr
    assert not (box.state / "runs").exists() or not list((box.state / "runs").iterdir())


def test_the_name_of_a_live_run_is_refused_and_that_of_an_ended_one_is_given_on(box: Box):
    first = box.start(*box.usual(), "--", *box.demo(steps=LONG))
    box.wait_output("step 3/")
    again = box.cli("run", "--name", "demo", "--", "true", rc=2)
    assert "runward stop demo" in again.stderr
    box.cli("stop", "demo")
    box.ended(first, 143)
    second = box.start("--name", "demo", "--", "true")
    box.ended(second, 0)
    assert box.status("demo")["state"] == "succeeded"
    assert box.status("demo~1")["state"] == "stopped"
    assert "step 3/" in box.cli("logs", "demo~1").stdout


def test_two_live_runs_never_share_a_checkpoint_directory(box: Box):
    first = box.start(*box.usual(), "--", *box.demo(steps=LONG))
    box.wait_output("step 3/")
    refused = box.cli("run", *box.usual("other"), "--", *box.demo(), rc=2)
    assert "demo" in refused.stderr
    box.cli("stop", "demo")
    box.ended(first, 143)
    allowed = box.start(*box.usual("other"), "--", *box.demo(steps=12))
    box.ended(allowed, 0)
    box.nothing_left()


def test_runs_that_begin_at_once_share_neither_name_nor_checkpoint_directory(box: Box):
    for name in ("one", "one", "other"):
        box.start("--name", name, "--checkpoints", "ckpt", "--", *box.demo(steps=LONG))
    wait_until(
        lambda: sum(process.poll() is None for process in box.started) == 1, "two of three are refused", 120
    )
    (living,) = [process for process in box.started if process.poll() is None]
    assert [process.returncode for process in box.started if process is not living] == [2, 2]
    ran = [run["run"] for run in json.loads(box.cli("ps", "--json").stdout)["runs"]]
    assert ran in (["one"], ["other"]), "a refused one leaves nothing"
    box.cli("stop", ran[0], "--now")
    box.ended(living, 137)
    box.nothing_left()


def test_a_run_between_two_attempts_keeps_its_checkpoint_directory(box: Box):
    policy = box.work / "slow.yaml"
    policy.write_text("kind: policy\nversion: 1\nbackoff: {first: 10m}\nrules:\n  - {action: restart}\n")
    words = ["--checkpoints", "ckpt", "--policy", str(policy), "--", "sh", "-c", "exit 3"]
    first = box.start("--name", "demo", *words)
    box.wait_state("waiting")
    refused = box.cli("run", "--name", "other", *words, rc=2)
    assert "run 'demo' is waiting and writes into it" in refused.stderr
    refused = box.cli("run", "--name", "other", *words, rc=2, env={"RUNWARD_STATE_DIR": str(box.root / "b")})
    assert "run 'demo' of " in refused.stderr, "one of another state directory"
    box.cli("stop", "demo")
    box.ended(first, 3)
    taker = box.start("--name", "other", *words)
    box.wait_state("waiting", name="other")
    refused = box.cli("restart", "demo", rc=2)
    assert "run 'other' is waiting and writes into it" in refused.stderr
    box.cli("stop", "other")
    box.ended(taker, 3)


def test_a_dry_run_says_what_would_be_done_and_makes_nothing(box: Box):
    done = box.cli("run", *box.usual(), "--dry-run", "--", "python3", "train.py", "--lr", "1")
    assert "would start: python3 train.py --lr 1" in done.stdout
    assert json.loads(box.cli("ps", "--json").stdout)["runs"] == []


def test_a_damaged_database_is_moved_aside_and_rebuilt_from_the_runs_own_files(box: Box):
    box.train(command=box.demo("--fault", "kill"))
    before = box.status()
    for path in box.state.glob("state.db*"):
        path.unlink()
    (box.state / "state.db").write_bytes(b"this is no database" * 500)
    process = box.start("--name", "next", "--", "true")
    box.ended(process, 0)
    assert "rebuilt" in box.said(1)
    after = box.status()
    assert after["state"] == before["state"]
    assert attempts(after) == attempts(before)


def test_garbage_and_a_line_of_50_mb_in_the_log_hide_neither_steps_nor_the_end(box: Box):
    code = (
        "import os, sys, random\n"
        "out = sys.stdout.buffer\n"
        "def step(n): out.write(b'step %d/6 loss 0.5\\n' % n); out.flush()\n"
        "step(1); out.write(random.Random(1).randbytes(1 << 20)); out.write(b'\\n'); step(2)\n"
        "[out.write(b'x' * (1 << 20)) for _ in range(50)]; out.write(b'\\n'); step(3)\n"
        "out.write(b'\\r'.join(b'%d' % n for n in range(20000))); out.write(b'\\n\\0\\0\\0\\n'); step(4)\n"
        "raise KeyError('labels')\n"
    )
    process = box.start("--name", "demo", "--policy", "observe", "--", sys.executable, "-c", code)
    box.ended(process, 1)
    box.nothing_left()
    one = box.status()["attempts"][0]
    assert (one["first_step"], one["last_step"]) == (1, 4)
    assert one["verdict"]["cause"] == "exception"


def test_a_log_that_cannot_be_read_is_said_and_harms_nothing(box: Box):
    process = box.start(*box.usual(), "--", *box.demo("--fault", "kill", steps=100, step_time=0.05))
    box.wait_output("step 3/")
    folder = box.state / "runs" / "demo" / "attempt_1"
    os.rename(folder / "output.log", folder / "elsewhere")
    (folder / "output.log").mkdir()
    wait_until(lambda: len(box.page()["attempts"]) == 2, "the second attempt has begun")
    box.ended(process, 0)
    status = box.status()
    assert attempts(status)[0][:2] == ("killed", "restart")
    assert status["attempts"][1]["resumed_from"]["step"] == 20


def test_a_log_directory_that_cannot_be_made_is_refused_before_the_start(box: Box):
    (box.work / "file").write_text("")
    done = box.cli("run", "--name", "demo", "--log-dir", str(box.work / "file" / "logs"), "--", "true", rc=2)
    assert "--log-dir" in done.stderr


class _Hook(http.server.BaseHTTPRequestHandler):
    bodies: list[dict] = []  # noqa: RUF012 -- one server a test

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.bodies.append(json.loads(self.rfile.read(length)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[tuple[str, list[dict]]]:
    _Hook.bodies = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/hook", _Hook.bodies
    server.shutdown()
    server.server_close()


def test_a_command_and_a_url_are_told_that_the_run_is_held(box: Box, hook):
    url, bodies = hook
    told = box.work / "told.jsonl"
    script = box.work / "tell.py"
    script.write_text(f"import sys\nopen({str(told)!r}, 'a').write(sys.stdin.read().strip() + '\\n')\n")
    box.train(
        "--notify", f"{sys.executable} {script}", "--notify", url,
        command=box.demo("--fault", "raise", "--always"), rc=1,
    )  # fmt: skip
    wait_until(lambda: bodies and told.exists(), "both were told")
    assert any("held" in json.dumps(body) for body in bodies)
    assert "held" in told.read_text()


def test_a_notifier_that_fails_and_one_that_hangs_do_not_stand_in_the_way(box: Box):
    hang = box.work / "hang.py"
    hang.write_text("import time; time.sleep(600)\n")
    status = box.train(
        "--notify", "false", "--notify", f"{sys.executable} {hang}", "--notify", "http://127.0.0.1:9/",
        command=box.demo("--fault", "kill"),
    )  # fmt: skip
    assert status["state"] == "succeeded"


def test_a_trainer_that_looks_for_itself_is_kept_from_a_damaged_checkpoint_by_renaming_it(box: Box):
    process = box.start(
        "--name", "demo", "--checkpoints", str(box.ckpt), "--quarantine", "rename",
        "--", *box.demo("--fault", "partial", "--look"),
    )  # fmt: skip
    box.ended(process, 0)
    status = box.status()
    assert attempts(status)[0] == ("killed", "restart", None)
    assert status["attempts"][1]["first_step"] == 21
    aside = [name for name in os.listdir(box.ckpt) if name.startswith("step_25") and "quarantined" in name]
    assert len(aside) == 1
    told = [mark["path"] for mark in status["checkpoints"]["quarantined"]]
    assert told == [str(box.ckpt / "step_25.ckpt")], "once, by the name that it had"
    box.cli("checkpoints", "restore", str(box.ckpt))
    assert (box.ckpt / "step_25.ckpt").exists()


def test_a_trainer_that_would_load_a_damaged_checkpoint_is_held_and_the_remedy_is_said(box: Box):
    process = box.start(
        "--name", "demo", "--checkpoints", str(box.ckpt), "--", *box.demo("--fault", "partial", "--look")
    )
    box.ended(process, 137)
    status = box.status()
    assert status["state"] == "held"
    assert "step_25" in status["attempts"][0]["decision"]["reason"] + box.said()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)],
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        if os.environ.get("CI") == "true":
            pytest.fail(done.stderr)
        pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.root
def test_a_full_state_disk_harms_neither_the_training_nor_its_restart(box: Box, small_disk: Path):
    logs = box.work / "logs"
    process = box.start(
        *box.usual(), "--log-dir", str(logs), "--", *box.demo("--fault", "kill", "--at", "60", steps=80, step_time=0.05),
        env={"RUNWARD_STATE_DIR": str(small_disk / "state")},
    )  # fmt: skip
    log = logs / "attempt_1" / "output.log"
    wait_until(lambda: log.exists() and "step 3/" in log.read_text(), "the training runs")
    filler = (small_disk / "filler").open("wb", buffering=0)
    with contextlib.suppress(OSError):
        while filler.write(bytes(4096)):
            pass
    assert os.statvfs(small_disk).f_bavail == 0
    wait_until(lambda: "step 60/" in log.read_text(), "the training goes on")
    filler.truncate(0)
    filler.close()
    box.ended(process, 0)
    done = box.cli("status", "demo", "--json", env={"RUNWARD_STATE_DIR": str(small_disk / "state")})
    assert attempts(json.loads(done.stdout)) == [("killed", "restart", None), ("none", None, 50)]
