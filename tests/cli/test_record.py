"""`runward record` as a person uses it, on this machine."""

import json
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from runward.cli.diagnose import diagnose
from runward.cli.record import record
from runward.core import box, errors
from runward.ui import text, text_box
from runward.wiring import box_records, looking
from waiting import wait_until

MIB = 1 << 20


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("RUNWARD_STATE_DIR", str(tmp_path / "state"))


def call(*argv: str) -> str:
    done = CliRunner().invoke(record, list(argv), catch_exceptions=False)
    return done.stdout


def snapshot(**more) -> box.Snapshot:
    values = {
        "at": 1769829125.0,
        "host": "box",
        "memory": box.Memory(1000 * MIB, 100 * MIB, 900 * MIB, 10 * MIB, 5 * MIB),
        "cpu": 50.0,
        "load": (1.0, 2.0, 3.0),
        "cores": 8,
        "pressures": (box.Pressure("memory", 1.5, 0.5),),
        "processes": (box.Process(7, "python", 99.0, 100 * MIB, "python train.py"),),
        "gpus": (box.Gpu(0, "H100", 87.0, 40.0, 70000.0, 81559.0, 61.0), box.Gpu(1, "H100")),
        "containers": (box.ContainerUse("a" * 64, "job", "img", "Up 2 minutes", 12.5, 10 * MIB, 20 * MIB),),
        "disks": (box.Disk("/", 1000, 900, 100, 50, 5),),
        "oom_total": 4,
        "oom_new": 2,
        "oom_lines": ("Killed process 7 (python)",),
    }
    return box.Snapshot(**(values | more))


def test_a_snapshot_survives_its_record() -> None:
    one = snapshot()
    assert box.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_two_looks_are_kept_in_both_forms_and_found_by_time(tmp_path) -> None:
    call(
        "--interval",
        "100ms",
        "--count",
        "2",
        "--dir",
        str(tmp_path),
        "--quiet",
        "--no-containers",
        "--no-gpus",
    )
    (lines,) = tmp_path.glob("*.jsonl")
    (text,) = tmp_path.glob("*.log")
    kept = [json.loads(line) for line in lines.read_text().splitlines()]
    assert len(kept) == 2
    assert kept[1]["cpu"] is not None
    assert text.read_text().count("memory   ") == 2
    shown = json.loads(call("--show", str(lines), "--at", "0s", "--json"))
    assert shown["epoch"] == kept[1]["epoch"]
    day = time.strftime("%H:%M:%S", time.localtime(kept[0]["epoch"] + 3600))
    assert json.loads(call("--show", str(lines), "--at", day, "--json"))["epoch"] in {
        k["epoch"] for k in kept
    }
    assert "memory" in call("--show", str(lines))


def test_the_classic_sections_come_in_their_order() -> None:
    text = text_box.classic(snapshot())
    places = [
        text.index(words)
        for words in (
            "===== Monitoring Snapshot =====", "--- System Memory ---", "--- CPU Usage (top 5 processes) ---",
            "--- GPU Status ---", "GPU: 0, H100, 87, 40, 70000, 81559, 61", "--- Docker Containers ---",
            "--- Docker Resource Usage ---", "--- Disk Space ---", "--- Recent Docker Errors (last 1 min) ---",
            "No Docker errors found", "OOM KILLER DETECTED! 2 new kills", "===== End Snapshot =====",
        )
    ]  # fmt: skip
    assert places == sorted(places)
    blind = text_box.classic(snapshot(blind=("daemon log: no right",)))
    assert "No Docker errors found" not in blind
    assert "not observable: daemon log: no right" in blind
    whys = ("GPUs: no tool", "daemon log: no right", "disk /x: gone")
    lines = [line[22:] for line in text_box.classic(snapshot(blind=whys, gpus=())).splitlines()]
    assert lines[lines.index("--- GPU Status ---") + 1] == "not observable: GPUs: no tool"
    errors_at = lines.index("--- Recent Docker Errors (last 1 min) ---")
    assert lines[errors_at + 1] == "not observable: daemon log: no right"
    assert lines[lines.index("===== End Snapshot =====") - 1] == "not observable: disk /x: gone"


def test_the_classic_record_begins_with_what_it_watches(tmp_path) -> None:
    argv = ["--format", "classic", "--count", "1", "--quiet", "--no-gpus", "--dir", str(tmp_path)]
    lines = CliRunner().invoke(record, argv, catch_exceptions=False).stderr.splitlines()
    assert lines[0] == "GPU Runner Real-Time Monitoring"
    assert [line.split(":")[0] for line in lines[1:5]] == ["Host", "Started", "Log file", "Monitoring"]
    assert [line[:4] for line in lines[5:10]] == ["  - "] * 5
    assert lines[10] == "Press Ctrl+C to stop monitoring"


def test_what_is_not_known_is_not_shown_as_zero() -> None:
    assert "gpu      1 H100: N/A %, memory N/A of N/A MiB" in text_box.plain(snapshot())


def test_the_table_of_memory_has_thirteen_columns(tmp_path) -> None:
    call(
        "--format",
        "tsv",
        "--interval",
        "100ms",
        "--count",
        "1",
        "--dir",
        str(tmp_path),
        "--quiet",
        "--no-gpus",
    )
    (table,) = tmp_path.glob("*.tsv")
    head, row = table.read_text().splitlines()
    shown = [
        "--format",
        "tsv",
        "--count",
        "1",
        "--interval",
        "100ms",
        "--dir",
        str(tmp_path / "b"),
        "--no-gpus",
    ]
    assert call(*shown).splitlines()[0] == head
    assert head.split("\t") == list(text_box.TSV_HEAD)
    assert len(row.split("\t")) == 13


@pytest.mark.parametrize("argv", [("--interval", "soon"), ("--rotate", "big"), ("--interval", "1ms")])
def test_words_that_mean_nothing_are_refused(argv) -> None:
    done = CliRunner().invoke(record, list(argv), catch_exceptions=False)
    assert (done.exit_code, argv[0] in done.stderr) == (2, True)


@pytest.mark.parametrize("argv", [("--at", "03:12"), ("--json",)], ids=["at", "json"])
def test_a_question_about_a_record_never_begins_one(argv, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(errors.UsageError, match="--show FILE"):
        call(*argv)
    assert not (tmp_path / "runner-monitoring").exists()


def test_a_folder_of_records_is_asked_as_one(tmp_path) -> None:
    for number, at in enumerate((1000.0, 3000.0)):
        looks = [snapshot(at=at), snapshot(at=at + 60)]
        text = "".join(json.dumps(look.to_json()) + "\n" for look in looks)
        (tmp_path / f"{number}.jsonl").write_text(text)
    (tmp_path / "2.jsonl").write_text("")

    def shown(at: str) -> float:
        return json.loads(call("--show", str(tmp_path), "--at", at, "--json"))["epoch"]

    instants = [datetime.fromtimestamp(at, UTC).isoformat() for at in (500, 1010, 2000, 3070)]
    assert [shown(at) for at in instants] == [1000.0, 1000.0, 1060.0, 3060.0]
    assert shown("1m") == 3000.0


def test_an_instant_may_be_given_as_the_record_has_it(tmp_path) -> None:
    (tmp_path / "r.jsonl").write_text(json.dumps(snapshot().to_json()) + "\n")
    found = json.loads(call("--show", str(tmp_path / "r.jsonl"), "--at", "1769829130.5", "--json"))
    assert found["seconds_before"] == 5.5


def test_a_record_that_is_not_there_and_a_time_that_is_none(tmp_path) -> None:
    with pytest.raises(errors.NotFound):
        call("--show", str(tmp_path / "no.jsonl"))
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(snapshot().to_json()) + "\n")
    with pytest.raises(errors.UsageError):
        call("--show", str(path), "--at", "noonish")


def test_a_record_in_a_runs_name_is_joined_to_its_timeline(tmp_path) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    script = f"touch {begun}; while [ ! -e {ended} ]; do sleep 0.05; done; exit 3"
    argv = [sys.executable, "-m", "runward", "run", "--name", "demo", "--policy", "observe", "--detach"]
    subprocess.run([*argv, "--", "sh", "-c", script], check=True, capture_output=True, timeout=120)
    wait_until(begun.exists, "the run begins")
    with pytest.raises(errors.NotFound, match="demo"):
        call("--run", "dem", "--count", "1", "--dir", str(tmp_path))
    count = ("--interval", "100ms", "--count", "2", "--dir", str(tmp_path), "--quiet", "--no-containers")
    call("--run", "demo", *count, "--no-gpus")
    ended.touch()
    wait_until(lambda: looking.status("demo")["state"] == "failed", "the run ends")
    told = looking.status("demo")["attempts"][0]["box"]
    assert told["snapshot"]["run"] == "demo"
    assert told["seconds_before"] >= 0
    kinds = [body["kind"] for body in looking.history("demo", follow=False)]
    assert kinds.index("box") == kinds.index("attempt_ended") - 1
    shown = CliRunner().invoke(diagnose, ["demo", "--json"], catch_exceptions=False)
    assert json.loads(shown.stdout)["box"]["at"] == told["at"]
    assert "before its end: memory" in text.status(looking.status("demo"), time.time())


def test_a_snapshot_of_another_time_or_machine_is_not_joined(tmp_path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(snapshot(at=time.time()).to_json()) + "\n")
    box_records.announce(str(path), None)
    now = time.time()
    assert box_records.then(now)["summary"].startswith("memory 90 %")
    assert box_records.then(now + box_records.NEAR_S + 60) is None
    assert box_records.then(now - 3600) is None
    assert box_records.then(now, "demo", here=False) is None
    path.unlink()
    assert box_records.then(now) is None


def test_each_value_of_memory_stands_under_its_own_heading() -> None:
    head, memory, _ = text_box.memory_table(snapshot())
    assert head.split() == ["total", "used", "free", "available"]
    for word, value in (("total", "1000.0 MiB"), ("used", "900.0 MiB"), ("available", "100.0 MiB")):
        assert memory[head.index(word) :].startswith(value)
