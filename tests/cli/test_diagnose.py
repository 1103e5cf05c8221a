"""`runward diagnose`, `rules` and the bench of diagnosis, from outside."""

import json

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


def test_one_log_a_rank_takes_the_rank_from_the_name(tmp_path, capsys):
    (tmp_path / "rank0.log").write_text("step 10 | loss 2.0\n")
    (tmp_path / "rank1.log").write_text("step 10 | loss 2.0\nKeyError: 'x'\n")
    assert (
        entry.run(["diagnose", str(tmp_path / "rank*.log"), "--exit-code", "1", "--json", "--explain"]) == 0
    )
    body = json.loads(capsys.readouterr().out)
    assert (body["verdict"]["cause"], body["verdict"]["rank"]) == ("exception", 1)
    assert body["considered"][0]["why"] == "chosen"


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
