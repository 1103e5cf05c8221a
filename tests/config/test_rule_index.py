"""Rules are compiled once: when the package is built, or by the first look where its index does not fit."""

import dataclasses
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from runward.config import rulesets
from runward.core import errors, rules, vocabulary

ROOT = Path(__file__).parents[2]
OWN = "family: own\nrules:\n- {name: own_word, pattern: our own words, role: root, cause: data_error}\n"
NEW = "family: new\nrules:\n- {name: new_word, pattern: quite new words, role: benign}\n"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Some of the shipped families at a place of their own, without an index, and nothing kept of them."""
    place = tmp_path / "rulesets"
    place.mkdir()
    for name in ("memory.yaml", "slurm.yaml"):
        shutil.copy(os.path.join(rulesets.folder(), name), place)
    monkeypatch.setattr(rulesets, "folder", lambda: str(place))
    monkeypatch.setenv("RUNWARD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("RUNWARD_CONFIG_DIR", str(tmp_path / "config"))
    return place


@pytest.fixture
def made(package):
    return rulesets.compiled()


def same(one, other):
    """Whether two sets hold the same rules, wherever they were read from."""
    return rulesets.encoded(one) == rulesets.encoded(other)


@pytest.fixture
def parsed(monkeypatch, made):
    """Names of the files whose rules were compiled."""
    seen: list[str] = []
    parse = rules.parse_family

    def noted(raw, source):
        seen.append(os.path.basename(source))
        return parse(raw, source)

    monkeypatch.setattr(rules, "parse_family", noted)
    return seen


def test_the_index_of_a_package_is_what_its_files_say_and_saves_every_compilation(
    made, package, parsed, tmp_path
):
    (package / rulesets.INDEX).write_bytes(rulesets.encoded(made))
    assert same(rulesets.load(), made)
    assert parsed == []
    assert not (tmp_path / "cache").exists()
    assert [rule.name for rule in made.rules] == [rule.name for rule in rulesets.full().rules]
    assert made.index.words.texts == vocabulary.of(rule.need for rule in made.rules).texts


def test_an_index_of_other_contents_is_left_alone(made, package, parsed):
    (package / rulesets.INDEX).write_bytes(rulesets.encoded(made))
    (package / "zz_new.yaml").write_text(NEW)
    assert "new_word" in rulesets.load().by_name
    assert "zz_new.yaml" in parsed


@pytest.mark.parametrize("broken", ["half", "empty", "list", "rules", "line", "other", "deep"])
def test_a_damaged_index_or_cache_costs_a_compilation_and_nothing_else(broken, made, package, parsed):
    whole = rulesets.encoded(made)
    data = {
        "half": whole[: len(whole) // 2],
        "empty": b"",
        "list": b"[]",
        "rules": whole.replace(b'"name":', b'"none":'),
        "line": whole.rpartition(b"\n")[0],
        "other": rulesets.encoded(dataclasses.replace(made, fingerprint="0")),
        "deep": b"[" * 100_000,
    }[broken]
    (package / rulesets.INDEX).write_bytes(data)
    for _ in range(2):
        assert same(rulesets.load(), made)
    assert len(parsed) == len(rulesets.shipped()), "compiled once, then kept"
    (kept,) = Path(rulesets.cache_folder()).iterdir()
    kept.write_bytes(data)
    assert same(rulesets.load(), made)


def test_of_a_users_rules_only_these_are_compiled_and_all_are_found(made, package, parsed, tmp_path):
    (package / rulesets.INDEX).write_bytes(rulesets.encoded(made))
    folder = tmp_path / "config" / "rules"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(OWN)
    extra = tmp_path / "extra.yaml"
    extra.write_text(NEW)
    loaded, again = rulesets.load([str(extra)]), rulesets.load([str(extra)])
    assert parsed == ["mine.yaml", "extra.yaml"]
    assert same(loaded, again)
    assert tuple(loaded.rules[: len(made.rules)]) == made.rules
    assert loaded.index.words.begins[: len(made.index.words.begins)] == made.index.words.begins
    assert [rule.name for rule in loaded.rules[len(made.rules) :]] == ["own_word", "new_word"]
    assert loaded.index.words.texts == vocabulary.of(rule.need for rule in loaded.rules).texts
    assert not loaded.problems


def test_a_file_that_was_named_must_be_there(tmp_path, package):
    with pytest.raises(errors.NotFound, match="cannot be read: No such file"):
        rulesets.load([str(tmp_path / "gone.yaml")])


def test_the_cache_holds_few_sets(made, package):
    assert same(rulesets.load(), made)
    folder = Path(rulesets.cache_folder())
    (kept,) = folder.iterdir()
    for number in range(20):
        (folder / f"rules-{number}.jsonl").write_text("old")
        os.utime(folder / f"rules-{number}.jsonl", (number, number))
    kept.write_text('{"rules": [], "words": [[1]], "problems": []}')
    assert same(rulesets.load(), made)
    assert kept in list(folder.iterdir())
    assert len(list(folder.iterdir())) <= 8


def test_a_wheel_brings_the_index_of_its_rules(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in ("pyproject.toml", "README.md", ".gitignore"):
        shutil.copy(ROOT / name, tree)
    shutil.copytree(ROOT / "tools", tree / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    skipped = shutil.ignore_patterns("__pycache__", rulesets.INDEX)
    shutil.copytree(ROOT / "src", tree / "src", ignore=skipped)
    (tree / "src" / "runward" / "rulesets" / rulesets.INDEX).write_text("of an earlier build")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(build, cwd=tree, env=bare, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"runward/rulesets/{rulesets.INDEX}") == rulesets.encoded(rulesets.compiled())
