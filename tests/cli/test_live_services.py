"""Our units under a systemd that really runs, as process 1: what they start, see, survive and leave behind."""

import json
import os
import re
import sys

import pytest

import livesystem
from waiting import until, wait_until

pytestmark = [pytest.mark.root, pytest.mark.e2e]

TRAIN = """
import time
for step in range(1, 3000):
    print(f"step {step}/3000 loss 0.5", flush=True)
    time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def system():
    if why := livesystem.why_not():
        assert os.environ.get("CI") != "true", why
        pytest.skip(why)
    made = livesystem.System()
    try:
        if why := made.up():
            pytest.skip(why)
        yield made
    finally:
        made.close()


def shown(system, verb, name):
    return system.sh(f"systemctl show -P {name} runward-{verb}").stdout.strip()


def test_a_watcher_is_restarted_and_stopped_and_the_training_that_it_started_goes_on(system, tmp_path):
    script, state = tmp_path / "train.py", tmp_path / "state"
    script.write_text(TRAIN)

    def runward(words, code=0):
        done = system.sh(f"runward {words}", RUNWARD_STATE_DIR=str(state))
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout

    def told(kind):
        """What the run's journal says of such an event, last."""
        lines = (state / "runs/demo/journal.ndjson").read_text().splitlines()
        found = [one for one in map(json.loads, filter(None, lines)) if one["kind"] == kind]
        return found[-1] if found else {}

    def watched_by_the_service():
        return str(told("watcher_started").get("pid")) == shown(system, "watch", "MainPID")

    def training():
        begun = told("attempt_started")
        return int(begun["job"]) if begun.get("attempt") == 2 else 0

    assert "it watches the runs of root, below " + str(state) in runward("service install watch")
    assert (shown(system, "watch", "Type"), shown(system, "watch", "ActiveState")) == ("notify", "active")
    assert re.search(
        r"^watch +running +system +pid \d+.*watching 0 runs", runward("service status watch"), re.MULTILINE
    )

    runward(f"run --detach --name demo -- {sys.executable} {script}")
    own = json.loads(runward("status demo --json"))["watcher"]["pid"]
    system.sh(f"kill -9 {own}")
    wait_until(watched_by_the_service, "the service takes the run up")
    system.sh(f"kill -9 {told('attempt_started')['job']}")
    pid = until(training, "a second attempt")
    group = system.sh(f"cat /proc/{pid}/cgroup; cat /proc/{pid}/oom_score_adj").stdout.splitlines()
    assert any("runward-watch.service" in line for line in group[:-1]), group
    assert group[-1] == "0", "a training is not to be spared for its watcher's sake"

    system.sh(
        "mkdir -p /run/systemd/system/runward-watch.service.d; printf '[Service]\\nWatchdogSec=4s\\nRestartSec=100ms\\n'"
        " >/run/systemd/system/runward-watch.service.d/soon.conf; systemctl daemon-reload"
    )
    runward("service install watch")
    wait_until(watched_by_the_service, "a watcher that was installed again takes the run up")
    frozen = shown(system, "watch", "MainPID")
    system.sh(f"kill -STOP {frozen}")
    wait_until(lambda: shown(system, "watch", "NRestarts") != "0", "the watchdog has it started again")
    wait_until(lambda: shown(system, "watch", "MainPID") not in (frozen, "0"), "another one")
    wait_until(watched_by_the_service, "a watcher that was started again takes the run up")
    if system.sh("systemctl is-active systemd-journald").returncode == 0:
        stood = system.sh(f"journalctl -o cat -u runward-watch _PID={frozen}").stdout
        assert re.search(r"Fatal Python error: Aborted.*looping\.py", stood, re.DOTALL), stood

    system.sh("systemctl stop runward-watch")
    assert re.search(r"^watch +stopped +system", runward("service status watch", 1), re.MULTILINE)
    assert f"/{pid}/" in system.sh(f"ls -d /proc/{pid}/").stdout, "the training was not hurt"
    log = state / "runs/demo/attempt_2/output.log"
    before = log.stat().st_size
    wait_until(lambda: log.stat().st_size > before, "it goes on")
    runward("service uninstall watch")
    assert "runward-watch" not in system.sh("find /etc/systemd/system").stdout
    system.sh(f"kill -9 {pid}")


def test_a_recorder_sees_through_its_hardening_and_one_that_cannot_write_says_why(system, tmp_path):
    home = tmp_path / "home"

    def runward(words, code=0):
        done = system.sh(f"runward {words}", RUNWARD_STATE_DIR=str(tmp_path / "state"))
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    runward(f"service install record -- --dir {home}/one --interval 1s")
    runward(f"service install record -- --dir {home}/two --interval 1s")
    files = until(lambda: list(home.glob("two/*.jsonl")), "a record in the folder of the newer unit")
    first = json.loads(until(lambda: files[0].read_text().splitlines(), "a snapshot")[0])
    assert {1, int(shown(system, "record", "MainPID"))} <= {one["pid"] for one in first["processes"]}, first
    assert not any("kernel" in line or "OOM" in line for line in first["blind"]), first["blind"]
    assert "/usr/nowhere" in runward("service install record -- --dir /usr/nowhere --interval 1s", 75)
    assert re.search(r"^record +(restarting|starting) +system", runward("service status", 1), re.MULTILINE)
    runward("service uninstall record")
    assert system.sh("systemctl is-failed runward-record").stdout.strip() == "inactive"


ASK = """
import sys, urllib.request
print(urllib.request.urlopen("http://127.0.0.1:8642" + sys.argv[1], timeout=60).read().decode())
"""


def test_pages_show_the_state_through_their_hardening_and_come_again_when_they_hang(system, tmp_path):
    ask = tmp_path / "ask.py"
    ask.write_text(ASK)

    def runward(words, code=0):
        done = system.sh(f"runward {words}", RUNWARD_STATE_DIR=str(tmp_path / "state"))
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout

    def asked(path):
        return system.sh(f"ip link set lo up; exec {sys.executable} {ask} {path}").stdout

    runward(
        f"run --detach --name demo -- {sys.executable} -c 'import time; print(\"step 1/2\", flush=True); time.sleep(600)'"
    )
    system.sh(
        "mkdir -p /run/systemd/system/runward-serve.service.d; printf '[Service]\\nWatchdogSec=8s\\nRestartSec=100ms\\n'"
        " >/run/systemd/system/runward-serve.service.d/soon.conf"
    )
    said = runward("service install serve")
    assert f"it shows the runs of root, below {tmp_path / 'state'}" in said
    assert re.search(
        r"^serve +running +system +pid \d+.*showing 1 runs", runward("service status serve"), re.MULTILINE
    )
    row = until(lambda: json.loads(asked("/api/runs"))["runs"][0], "its runs")
    assert row["watcher"]["pid"] == json.loads(runward("status demo --json"))["watcher"]["pid"], (
        "locks are seen"
    )
    page = asked("/box")
    assert ("<main>" in page, "kernel log" in page) == (True, False), page
    frozen = shown(system, "serve", "MainPID")
    system.sh(f"kill -STOP {frozen}")
    wait_until(lambda: shown(system, "serve", "NRestarts") != "0", "the watchdog has it started again")
    wait_until(lambda: "ok" in asked("/healthz"), "the next one answers")
    system.sh("systemctl stop runward-serve")
    assert json.loads(runward("status demo --json"))["state"] == "running", "the run noticed nothing"
    runward("service uninstall serve")
    runward("stop demo --now")
