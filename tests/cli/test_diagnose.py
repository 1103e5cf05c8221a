"""`runward diagnose`, `rules` and the bench of diagnosis, from outside."""

import json
import os
import pickle
from pathlib import Path

import pytest

from runward.cli import bench_diagnose, entry

LOG = "step 10 | loss 2.0\nstep 20 | loss 1.9\nMemoryError\n"


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("RUNWARD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("RUNWARD_CONFIG_DIR", str(tmp_path / "config"))


def test_json_carries_the_contract(tmp_path, capsys):
    (tmp_path / "train.log").write_text(LOG)
    assert entry.run(["diagnose", str(tmp_path / "train.log"), "--exit-code", "1", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["schema_version"] == 1
    assert body["verdict"]["cause"] == "host_oom"
    assert body["evidence"][0]["line"] == 3
    assert body["progress"] == {"first_step": 10, "last_step": 20, "unit": "step", "total": None}


def test_check_says_by_exit_code_whether_something_is_wrong(tmp_path, capsys):
    (tmp_path / "bad.log").write_text(LOG)
    (tmp_path / "good.log").write_text("step 10 | loss 2.0\nTraining completed\n")
    assert entry.run(["diagnose", str(tmp_path / "bad.log"), "--exit-code", "1", "--check"]) == 1
    assert entry.run(["diagnose", str(tmp_path / "good.log"), "--exit-code", "0", "--check"]) == 0
    assert "host_oom" in capsys.readouterr().out


@pytest.mark.parametrize("folder", [[], ["reports"]], ids=["here", "in a folder"])
def test_a_report_is_saved_in_three_forms_and_in_the_summary_of_a_ci_job(
    tmp_path, monkeypatch, capsys, folder
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    (tmp_path / "train 1.log").write_text(LOG)
    assert entry.run(["diagnose", str(tmp_path / "train 1.log"), "--save", *folder]) == 0
    saved = sorted(Path(*folder).glob("diagnosis-*"))
    assert [path.suffix for path in saved] == [".html", ".json", ".txt"]
    assert json.loads(saved[1].read_text())["verdict"]["cause"] == "host_oom"
    said = capsys.readouterr().err
    assert all(path.name in said for path in saved)
    assert "host_oom" in (tmp_path / "summary.md").read_text()


@pytest.mark.parametrize(
    ("folder", "summary", "named"),
    [("taken/x", "ok.md", "taken/x/diagnosis-"), ("free", "taken/summary.md", "$GITHUB_STEP_SUMMARY")],
    ids=["folder", "summary"],
)
def test_a_report_that_cannot_be_saved_is_answered_all_the_same(
    folder, summary, named, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", summary)
    (tmp_path / "taken").write_text("a file, and no folder")
    (tmp_path / "train.log").write_text(LOG)
    assert entry.run(["diagnose", "train.log", "--save", folder]) == 2
    told = capsys.readouterr()
    assert "host_oom" in told.out
    assert named in told.err.splitlines()[-1]
    assert told.err.count("diagnosis-train.log") == (1 if folder == "taken/x" else 3)


def test_one_log_a_rank_takes_the_rank_from_the_name(tmp_path, capsys):
    (tmp_path / "rank0.log").write_text("step 10 | loss 2.0\n")
    (tmp_path / "rank1.log").write_text("step 10 | loss 2.0\nKeyError: 'x'\n")
    assert (
        entry.run(["diagnose", str(tmp_path / "rank*.log"), "--exit-code", "1", "--json", "--explain"]) == 0
    )
    body = json.loads(capsys.readouterr().out)
    assert (body["verdict"]["cause"], body["verdict"]["rank"]) == ("exception", 1)
    assert body["considered"][0]["why"] == "chosen"


TIMEOUT = "".join(
    f"[rank{rank}]:[E1127 21:12:44.405355437 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective"
    " operation timeout: WorkNCCL(SeqNum=53, OpType=ALLREDUCE, Timeout(ms)=15000) ran for 15035 milliseconds"
    " before timing out.\n"
    for rank in (0, 1)
)


def recorded(prefix, enqueued):
    """Dumps of ranks that enqueued so many collectives and completed 52, in PyTorch's own shape and order."""
    for rank, last in enumerate(enqueued):
        status = {f"last_{word}_collective": last for word in ("enqueued", "started")}
        entry = {
            "collective_seq_id": last,
            "profiling_name": "nccl:all_reduce",
            "process_group": ("0", "default_pg"),
            "state": "completed" if last == 52 else "started",
            "is_p2p": False,
        }
        body = {
            "version": "2.10",
            "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str([*range(len(enqueued))])}},
            "pg_status": {"0": {**status, "last_completed_collective": 52}},
            "entries": [entry],
        }
        Path(f"{prefix}{rank}").write_bytes(pickle.dumps(body, 2))


@pytest.mark.parametrize("named", [False, True])
def test_flight_recorder_dumps_beside_the_log_or_named_in_it_name_the_missing_rank(tmp_path, capsys, named):
    prefix = tmp_path / ("dumps" if named else ".") / "nccl_trace_rank_"
    prefix.parent.mkdir(exist_ok=True)
    recorded(prefix, (53, 54, 52, 53))
    log = tmp_path / "train.log"
    log.write_text(
        (f"TORCH_FR_DUMP_TEMP_FILE={prefix}\n" if named else "") + "step 52/100 loss 0.5\n" + TIMEOUT
    )
    assert entry.run(["diagnose", str(log), "--exit-code", "1", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    verdict, first = body["verdict"], body["evidence"][0]
    assert (verdict["cause"], verdict["rank"], verdict["certainty"]) == ("hang", 2, "proven")
    assert (os.path.realpath(first["file"]), first["rank"]) == (os.path.realpath(f"{prefix}2"), 2)
    assert (first["rule"], first["text"]) == (
        "flight_recorder",
        "group 0: last enqueued collective 52, last completed 52",
    )
    assert body["extra"]["flight_recorder"]["missing"] == [2]
    os.utime(f"{prefix}2", (1000, 1000))  # left over from another run: then nobody is proven to be behind
    assert entry.run(["diagnose", str(log), "--exit-code", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"]["certainty"] != "proven"


def test_the_page_is_self_contained_and_escapes(tmp_path, capsys):
    (tmp_path / "a.log").write_text("ValueError: <script>alert(1)</script>\n")
    page = tmp_path / "a.html"
    assert entry.run(["diagnose", str(tmp_path / "a.log"), "--html", str(page)]) == 0
    text = page.read_text()
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "http" not in text.replace("https://bob", "")
    capsys.readouterr()


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["nowhere.log"], 3, "no such file"),
        (["x.log", "--exit-code", "abc"], 2, "no exit code"),
        (["x.log", "--since", "yesterday"], 2, "no time"),
        (["x.log", "--context", "missing.json"], 3, "cannot be read"),
    ],
)
def test_wrong_words_are_named(tmp_path, capsys, monkeypatch, args, code, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.log").write_text(LOG)
    assert entry.run(["diagnose", *args]) == code
    assert words in capsys.readouterr().err


def test_a_word_that_is_a_run_and_a_file_is_asked_about(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("RUNWARD_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "state/runs/demo").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").write_text(LOG)
    assert entry.run(["diagnose", "demo"]) == 2
    assert "Write run:demo or ./demo." in capsys.readouterr().err
    assert entry.run(["diagnose", "./demo"]) == 0


def test_since_and_until_leave_out_other_lines(tmp_path, capsys):
    (tmp_path / "x.log").write_text(
        "2031-05-01 10:00:00 ValueError: old\n2031-05-01 12:00:00 KeyError: 'new'\n"
    )
    args = ["diagnose", str(tmp_path / "x.log"), "--json", "--exit-code", "1"]
    assert entry.run([*args, "--until", "2031-05-01T11:00:00"]) == 0
    assert "ValueError" in json.loads(capsys.readouterr().out)["verdict"]["summary"]
    assert entry.run([*args, "--since", "2031-05-01T11:00:00"]) == 0
    assert "KeyError" in json.loads(capsys.readouterr().out)["verdict"]["summary"]


def test_context_file_is_read_whatever_its_values(tmp_path, capsys):
    (tmp_path / "x.log").write_text("step 10 | loss 2.0\n")
    (tmp_path / "c.json").write_text(json.dumps({"exit_code": "0:15", "state": "TIMEOUT", "other": [1, {}]}))
    entry.run(["diagnose", str(tmp_path / "x.log"), "--context", str(tmp_path / "c.json"), "--json"])
    assert json.loads(capsys.readouterr().out)["verdict"]["cause"] == "time_limit"


def test_users_rules_take_part_and_a_broken_one_is_said(tmp_path, capsys):
    rules = tmp_path / "config" / "rules"
    rules.mkdir(parents=True)
    (rules / "own.yaml").write_text(
        "rules:\n- {name: own, pattern: frobnicator jammed, role: root, cause: data_error, weight: 80,"
        " match: [frobnicator jammed]}\n- {name: broken, pattern: '(', role: root, cause: none}\n"
    )
    (tmp_path / "x.log").write_text("frobnicator jammed\n")
    assert entry.run(["diagnose", str(tmp_path / "x.log"), "--exit-code", "1", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["verdict"]["cause"] == "data_error"
    assert "broken" in shown.err
    assert entry.run(["rules", "test", str(rules / "own.yaml")]) == 1
    assert "does not compile" in capsys.readouterr().out


def test_shipped_rules_are_quiet_on_a_healthy_log_and_quick_on_long_lines(capsys):
    assert entry.run(["rules", "lint"]) == 0, capsys.readouterr().out


def test_explain_names_the_rules_of_a_line(capsys):
    assert entry.run(["rules", "explain", "[rank3]: KeyError: 'a'", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["rank"], body["rules"][0]["name"]) == (3, "python_exception")


def test_bench_predicts_without_looking_at_labels_and_scores(tmp_path, capsys):
    case = {
        "id": "a",
        "context": {"exit_code": 1},
        "log": LOG,
        "cause": "host_oom",
        "accept_causes": ["host_oom"],
        "action": "change",
        "accept_actions": ["change"],
        "evidence": "MemoryError",
    }
    (tmp_path / "cases.jsonl").write_text(json.dumps(case) + "\n")
    out = tmp_path / "out.jsonl"
    args = [str(tmp_path / "cases.jsonl"), "--predictions", str(out), "--score"]
    bench_diagnose.diagnose.main(args, standalone_mode=False)
    figures = json.loads(capsys.readouterr().out)
    assert (figures["both"], figures["evidence"], figures["false_alarm"]) == (1, 1, 0)
    assert set(json.loads(out.read_text())) == {"id", "cause", "action", "rank", "evidence", "ms"}
