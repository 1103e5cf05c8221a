"""Units that systemd itself finds right, and a tmux session that really runs."""

import os
import shutil

import pytest
from click.testing import CliRunner

from runward.cli import entry
from runward.cli.service import service
from runward.core import errors, service_units
from runward.wiring import service_states, services, serving_pages
from waiting import wait_until


@pytest.mark.parametrize("user", [False, True], ids=["system", "user"])
@pytest.mark.parametrize("verb", ["record", "serve", "watch"])
def test_systemd_finds_nothing_wrong_with_the_units(verb, user) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    around = (("RUNWARD_STATE_DIR", '/var/lib/a "b%c$d\\'), ("PATH", "/usr/bin"))
    wanted = service_units.Service(verb, (shutil.which("true"),), user, ("--x", "a b%c$d"), around)
    assert services.verify(wanted) == ""
    broken = service_units.Service(verb, ("/nonesuch/program",), user)
    assert "nonesuch" in services.verify(broken)


def test_ending_the_watcher_spares_what_it_started_and_a_frozen_one_is_started_again() -> None:
    text = service_units.unit(service_units.Service("watch", ("/usr/bin/runward",)))
    for line in ("KillMode=process", "Type=notify", "WatchdogSec=3min", "Restart=always"):
        assert line in text.splitlines()
    for word in ("ProtectHome", "PrivateTmp", "NoNewPrivileges"):
        assert word not in text, "a training that it starts would inherit it"


@pytest.mark.parametrize("verb", ["record", "serve", "watch"])
def test_a_unit_is_written_seen_and_removed(verb, tmp_path) -> None:
    def call(*argv: str) -> str:
        done = CliRunner().invoke(service, [*argv, "--unit-dir", str(tmp_path)], catch_exceptions=False)
        return done.stdout

    call("install", verb, "--no-start", "--user")
    assert os.listdir(tmp_path) == [f"runward-{verb}.service"]
    shown = CliRunner().invoke(service, ["status", verb, "--user", "--unit-dir", str(tmp_path)])
    assert ("not installed" in shown.stdout, "user" in shown.stdout, shown.exit_code != 3) == (
        False,
        True,
        True,
    )
    call("uninstall", verb, "--user") if not services.has_systemd() else os.unlink(
        tmp_path / f"runward-{verb}.service"
    )
    assert os.listdir(tmp_path) == []
    assert "not installed" in call("status", "--user").splitlines()[1]
    with pytest.raises(errors.NotFound):
        call("uninstall", verb, "--user")


def test_what_shows_pages_is_the_first_to_go_and_may_ask_for_locks_in_a_home() -> None:
    lines = service_units.unit(service_units.Service("serve", ("/usr/bin/runward",))).splitlines()
    assert {"OOMScoreAdjust=200", "NoNewPrivileges=yes", "ProtectSystem=full", "KillMode=mixed"} <= {*lines}
    assert not [line for line in lines if line.startswith(("ProtectHome", "ReadOnlyPaths", "PrivateTmp"))]


def test_a_service_whose_extra_is_missing_is_not_installed(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(serving_pages, "_NEEDED", ("uvicorn", "nonesuch_package"))
    with pytest.raises(
        errors.UsageError, match=r"not installed: nonesuch_package. pip install 'runward\[serve\]'"
    ):
        CliRunner().invoke(service, ["install", "serve", "--unit-dir", str(tmp_path)], catch_exceptions=False)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("verb", ["record", "serve", "watch"])
def test_every_unit_is_watched_by_the_progress_of_its_verb(verb) -> None:
    lines = service_units.unit(service_units.Service(verb, ("/usr/bin/runward",))).splitlines()
    assert {"Type=notify", "NotifyAccess=main", "WatchdogSec=3min"} <= {*lines}


def test_every_verb_that_can_be_a_service_is_a_verb() -> None:
    assert {*service_units.VERBS} <= {*entry.VERBS}


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["record", "--", "--interval", "soon"], "soon"),
        (["watch", "--", "--nonesuch"], "--nonesuch"),
        (["wach"], "no verb of Runward's; did you mean 'watch'? Services: record, serve, watch."),
        (["serve", "--", "--port", "eighty"], "eighty"),
        (["top"], "needs a terminal. Services: record, serve, watch."),
        (["record", "--account", "rooot"], "no account 'rooot'; did you mean 'root'?"),
        (["record", "--account", "root", "--user"], "--account is for units of the system"),
    ],
    ids=[
        "duration",
        "option",
        "no verb",
        "port",
        "no service",
        "no account",
        "account of the user's manager",
    ],
)
def test_what_would_be_started_again_and_again_is_not_installed(argv, said, tmp_path) -> None:
    done = CliRunner().invoke(service, ["install", "--unit-dir", str(tmp_path), *argv])
    told = done.stderr + str(done.exception)
    assert (said in told, os.listdir(tmp_path)) == (True, []), told
    assert done.exit_code == 2 or isinstance(done.exception, errors.UsageError)


def test_a_service_that_could_not_be_started_is_no_success(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(services, "has_systemd", lambda: False)
    with pytest.raises(errors.Unreachable, match="--tmux"):
        CliRunner().invoke(
            service, ["install", "record", "--unit-dir", str(tmp_path)], catch_exceptions=False
        )


def test_without_systemd_a_tmux_session_keeps_it_and_ends_it(tmp_path, monkeypatch) -> None:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    monkeypatch.setenv("TMUX_TMPDIR", str(tmp_path))
    monkeypatch.delenv("TMUX", raising=False)
    verb = tmp_path / "it's"  # as a watcher, it goes on when its terminal hangs up
    verb.write_text('trap "" HUP; trap "echo left >>$2; kill \\$!; exit" TERM; echo $$ >$2; sleep 600 & wait')
    told = tmp_path / "told"
    wanted = service_units.Service("record", ("/bin/sh", str(verb)), args=(str(told),))
    assert services.install_tmux(wanted)
    (seen,) = service_states.states(("record",), (services.place(user=True, folder=str(tmp_path)),))
    assert (seen.word, seen.place, seen.to_json()["tmux"]) == ("running", "tmux", True)
    with pytest.raises(errors.Unreachable, match="runs already"):
        services.install_tmux(wanted)
    wait_until(lambda: told.exists() and told.read_text().strip(), "it runs")
    assert services.uninstall("record", services.place(user=True, folder=str(tmp_path)))
    wait_until(lambda: told.read_text().splitlines()[1:] == ["left"], "it ends with the session")


def test_in_tmux_it_has_its_variables_and_a_shell_that_knows_while() -> None:
    around = (("RUNWARD_STATE_DIR", "/a b"),)
    wanted = service_units.Service("record", ("/bin/sleep",), args=("it's",), environment=around)
    *session, shell, flag, loop = service_units.tmux(wanted)
    assert session == ["tmux", "new-session", "-d", "-s", "runward-record"]
    assert (shell, flag) == ("/bin/sh", "-c")
    assert (
        """while :; do env 'RUNWARD_STATE_DIR=/a b' /bin/sleep record 'it'"'"'s' & p=$!; wait $p; sleep 10 &"""
        in loop
    )


SHELL = {
    "PATH": "/opt/slurm/bin:.:/usr/bin:/opt/slurm/bin",
    "KUBECONFIG": "/home/a/kube",
    "RAY_AUTH_TOKEN": "secret",
    "DOCKER_HOST": "unix:///run/user/7/docker.sock",
    "RUNWARD_STATE_DIR": "/home/a/state",
    "HF_TOKEN": "secret",
}


def test_a_service_reaches_what_the_shell_that_installs_it_reaches_and_carries_no_secret() -> None:
    found = dict(service_units.carried(SHELL, same_account=True))
    assert found == {
        "PATH": "/opt/slurm/bin:/usr/bin",
        "DOCKER_HOST": "unix:///run/user/7/docker.sock",
        "KUBECONFIG": "/home/a/kube",
        "RUNWARD_STATE_DIR": "/home/a/state",
    }
    other = dict(service_units.carried(SHELL, same_account=False))
    assert {*found} - {*other} == {"KUBECONFIG", "RUNWARD_STATE_DIR"}, (
        "another account has folders of its own"
    )
    text = service_units.unit(
        service_units.Service("watch", ("/usr/bin/runward",), environment=(*found.items(),))
    )
    assert "Environment=PATH=/opt/slurm/bin:/usr/bin" in text.splitlines()


@pytest.mark.parametrize(
    ("words", "named", "code"),
    [
        ([], False, 0),
        (["not installed", "running"], False, 0),
        (["not installed", "running"], True, 3),
        (["running", "stopped"], False, 1),
        (["failed"], True, 1),
        (["restarting"], False, 1),
        (["starting"], False, 0),
        (["unknown", "running"], False, 75),
        (["unknown", "failed"], False, 1),
    ],
)  # fmt: skip
def test_the_exit_code_of_status_says_whether_what_is_installed_runs(words, named, code) -> None:
    found = [service_states.State("watch", word) for word in words]
    assert service_states.exit_code(found, named=named) == code
