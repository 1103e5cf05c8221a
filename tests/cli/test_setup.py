"""`runward setup docker-logging` on files of all kinds."""

import json
import os

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from runward.cli.setup import setup
from runward.core import daemon_json, errors
from runward.store import settled_files

OURS = {"log-driver", "log-opts", "live-restore", "runtimes"}


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    return tmp_path / "docker" / "daemon.json"


def call(*argv: object, answer: str | None = None):
    words = ["docker-logging", *map(str, argv)]
    return CliRunner().invoke(setup, words, input=answer, catch_exceptions=False)


def test_a_new_file_has_bounded_packed_logs_and_live_restore(config) -> None:
    call("--config", config, "--yes")
    written = json.loads(config.read_text())
    assert written["log-opts"] == {"max-size": "100m", "max-file": "5", "compress": "true"}
    assert written["live-restore"] is True
    assert not {"storage-driver", "data-root", "userland-proxy", "default-runtime"} & set(written)


def test_other_keys_and_the_file_mode_stay_and_undo_brings_the_old_file_back(config) -> None:
    config.parent.mkdir()
    old = '{"registry-mirrors": ["https://m"], "data-root": "/data", "log-opts": {"labels": "a"}}'
    config.write_text(old)
    config.chmod(0o600)
    call("--config", config, "--yes", "--max-size", "20m", "--max-file", "3")
    written = json.loads(config.read_text())
    assert written["registry-mirrors"] == ["https://m"]
    assert written["data-root"] == "/data"
    assert written["log-opts"] == {"labels": "a", "max-size": "20m", "max-file": "3", "compress": "true"}
    assert config.stat().st_mode & 0o777 == 0o600
    assert len(list(config.parent.glob("daemon.json.backup-*"))) == 1
    call("--config", config, "--undo")
    assert config.read_text() == old


def test_options_of_another_log_driver_are_not_kept() -> None:
    merged = daemon_json.merged({"log-driver": "syslog", "log-opts": {"tag": "x"}}, daemon_json.Wish())
    assert "tag" not in merged["log-opts"]


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": 1,}', "\x00"])
def test_a_broken_file_is_refused_and_not_touched(config, text) -> None:
    config.parent.mkdir()
    config.write_text(text)
    with pytest.raises(errors.UsageError, match="not touched"):
        call("--config", config, "--yes")
    assert config.read_text() == text
    assert os.listdir(config.parent) == ["daemon.json"]


@pytest.mark.parametrize(
    "argv",
    [("--max-size", "lots"), ("--max-size", "-1"), ("--max-size", "0"), ("--default-runtime", "nonesuch")],
)
def test_what_the_engine_would_refuse_is_refused_before_it_is_written(config, argv) -> None:
    with pytest.raises(errors.UsageError):
        call("--config", config, "--yes", *argv)
    assert not config.exists()


def test_the_only_file_of_a_log_is_not_packed_which_the_engine_refuses(config) -> None:
    config.parent.mkdir()
    config.write_text('{"log-opts": {"compress": "true", "labels": "a"}}')
    call("--config", config, "--yes", "--max-file", "1", "--max-size", "1.5g")
    options = json.loads(config.read_text())["log-opts"]
    assert options == {"labels": "a", "max-size": "1.5g", "max-file": "1"}


def test_the_file_behind_a_link_is_written_and_the_link_stays(config, tmp_path) -> None:
    config.parent.mkdir()
    kept = tmp_path / "kept.json"
    kept.write_text('{"data-root": "/x"}')
    config.symlink_to(kept)
    call("--config", config, "--yes")
    assert config.is_symlink()
    assert json.loads(kept.read_text())["live-restore"] is True
    call("--config", config, "--undo")
    assert config.is_symlink()
    assert kept.read_text() == '{"data-root": "/x"}'


def test_a_link_to_a_device_is_replaced_and_the_device_left_alone(tmp_path) -> None:
    masked = tmp_path / "runward-record.service"
    masked.symlink_to("/dev/null")
    settled_files.replace(str(masked), "[Unit]\n")
    assert masked.read_text() == "[Unit]\n"
    assert not os.path.isfile("/dev/null")


def test_an_undo_of_a_file_that_was_not_there_says_how(config) -> None:
    call("--config", config, "--yes")
    with pytest.raises(errors.NotFound, match=f"rm {config}"):
        call("--config", config, "--undo")


def test_a_dry_run_and_a_no_write_nothing(config) -> None:
    shown = call("--config", config, "--dry-run")
    assert '+    "live-restore": true' in shown.stdout
    assert "from the next restart on" in shown.stderr
    assert "nothing was written" in shown.stderr
    with pytest.raises(errors.UsageError, match="nothing was written"):
        call("--config", config, answer="n\n")
    assert not config.exists()


def test_saying_it_twice_changes_nothing_the_second_time(config) -> None:
    call("--config", config, "--yes")
    done = call("--config", config, "--yes", "--json")
    assert json.loads(done.stdout) == {"schema_version": 1, "changed": False, "same": True, "diff": ""}
    assert os.listdir(config.parent) == ["daemon.json"]


@given(
    st.dictionaries(
        st.text(max_size=8).filter(lambda key: key not in OURS), st.integers() | st.text(max_size=5)
    )
)
def test_no_key_of_the_user_is_ever_lost(current) -> None:
    merged = daemon_json.merged(current, daemon_json.Wish(nvidia=True))
    assert {key: merged[key] for key in current} == current
    assert set(merged) - set(current) <= OURS


def test_a_restart_that_fails_says_that_the_file_is_written_and_where_the_old_one_is(
    config, tmp_path, monkeypatch
) -> None:
    config.parent.mkdir()
    config.write_text('{"data-root": "/x"}')
    tool = tmp_path / "systemctl"
    tool.write_text("#!/bin/sh\necho 'Job for docker.service failed.' >&2; exit 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    argv = ["docker-logging", "--config", str(config), "--yes", "--restart"]
    done = CliRunner().invoke(setup, argv)
    assert isinstance(done.exception, errors.Unreachable), done.output
    told = str(done.exception)
    assert "the engine not restarted: Job for docker.service failed" in told
    assert f"{config} is written (backup {config}.backup-" in told
