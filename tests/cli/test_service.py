"""Units that systemd itself finds right, and a tmux session that really runs."""

import os
import shutil

import pytest
from click.testing import CliRunner

from runward.cli import entry
from runward.cli.service import service
from runward.core import errors, service_units
from runward.wiring import services


@pytest.mark.parametrize("user", [False, True], ids=["system", "user"])
@pytest.mark.parametrize("verb", ["record", "watch"])
def test_systemd_finds_nothing_wrong_with_the_units(verb, user) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    wanted = service_units.Service(
        verb, (shutil.which("true"),), user, ("--x", "a b%c$d"), "/var/lib/runward"
    )
    assert services.verify(wanted) == ""
    broken = service_units.Service(verb, ("/nonesuch/program",), user)
    assert "nonesuch" in services.verify(broken)


def test_ending_the_watcher_spares_what_it_started_and_a_frozen_one_is_started_again() -> None:
    text = service_units.unit(service_units.Service("watch", ("/usr/bin/runward",)))
    for line in ("KillMode=process", "Type=notify", "WatchdogSec=3min", "Restart=always"):
        assert line in text.splitlines()
    for word in ("ProtectHome", "PrivateTmp", "NoNewPrivileges"):
        assert word not in text, "a training that it starts would inherit it"


def test_a_unit_is_written_seen_and_removed(tmp_path) -> None:
    def call(*argv: str) -> str:
        done = CliRunner().invoke(service, [*argv, "--unit-dir", str(tmp_path)], catch_exceptions=False)
        return done.stdout

    call("install", "record", "--no-start", "--user")
    assert os.listdir(tmp_path) == ["runward-record.service"]
    assert "unit" in call("status", "--user").splitlines()[0]
    call("uninstall", "record", "--user") if not services.has_systemd() else os.unlink(
        tmp_path / "runward-record.service"
    )
    assert os.listdir(tmp_path) == []
    with pytest.raises(errors.NotFound):
        call("uninstall", "record", "--user")


@pytest.mark.parametrize("verb", ["record", "watch"])
def test_every_unit_is_watched_by_the_progress_of_its_verb(verb) -> None:
    lines = service_units.unit(service_units.Service(verb, ("/usr/bin/runward",))).splitlines()
    assert {"Type=notify", "NotifyAccess=main", "WatchdogSec=3min"} <= {*lines}


def test_every_verb_that_can_be_a_service_is_a_verb() -> None:
    assert {*service.commands["install"].params[0].type.choices} <= {*entry.VERBS}


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["record", "--", "--interval", "soon"], "soon"),
        (["watch", "--", "--nonesuch"], "--nonesuch"),
        (["serve"], "no verb of Runward's: record and watch"),
        (["top"], "needs a terminal: record and watch"),
    ],
    ids=["duration", "option", "no verb", "no service"],
)
def test_what_would_be_started_again_and_again_is_not_installed(argv, said, tmp_path) -> None:
    done = CliRunner().invoke(service, ["install", "--unit-dir", str(tmp_path), *argv])
    assert (done.exit_code, said in done.stderr, os.listdir(tmp_path)) == (2, True, [])


def test_a_service_that_could_not_be_started_is_no_success(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(services, "has_systemd", lambda: False)
    with pytest.raises(errors.Unreachable, match="--tmux"):
        CliRunner().invoke(
            service, ["install", "record", "--unit-dir", str(tmp_path)], catch_exceptions=False
        )


def test_without_systemd_a_tmux_session_starts_it_again_when_it_ends(tmp_path, monkeypatch) -> None:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    monkeypatch.delenv("TMUX", raising=False)
    wanted = service_units.Service("record", ("/bin/sleep",), args=("it's",))
    assert services.install_tmux(wanted)
    assert services.status("record", services.place(user=True, folder=str(tmp_path)))["tmux"] is True
    with pytest.raises(errors.Unreachable, match="runs already"):
        services.install_tmux(wanted)
    assert services.uninstall("record", services.place(user=True, folder=str(tmp_path)))
