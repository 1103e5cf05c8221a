"""The start condition, the signs of an end and the silence of a monitoring configuration."""

import json
import select
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import waiting
from fakes import clock as clocks
from runward import ports
from runward.app import gating, signalling, silence_watch
from runward.config import policy_files
from runward.core import binding, events, log_signals, observations, planning, run
from runward.runners import local
from runward.scan import tailer

CREATED = events.RunCreated(at=0, run="demo", backend="slurm", policy="default")
PLANNED = events.AttemptPlanned(at=0, attempt=1, token="t")
STARTED = events.AttemptStarted(at=0, attempt=1, job="7", handle="7@0")
LIVE = run.fold([CREATED, PLANNED, STARTED])


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


# -- start condition -----------------------------------------------------------------------------------------


@dataclass
class Gate:
    folder: Path
    command: tuple[str, ...]
    clock: clocks.FakeClock = field(default_factory=clocks.FakeClock)

    def __post_init__(self) -> None:
        means = gating.Means(
            self.command,
            10.0,
            local.Local(),
            self.clock,
            str(self.folder / "actions"),
            str(self.folder),
            timeout_s=60.0,
        )
        self.gate = gating.StartGate(means)

    def answer(self, state: run.RunState) -> list[str]:
        """Notes of the next answer."""
        notes = [one.text for one in self.gate.look(state)]
        waiting.wait_until(lambda: not self.gate.wait_fds(state), "an answer")
        return notes + [one.text for one in self.gate.look(state)]


def test_an_attempt_waits_until_the_condition_says_yes_and_is_told_of_every_change(tmp_path):
    code = "import os, sys; sys.exit(0 if os.path.exists('open') else 1)"
    made, state = Gate(tmp_path, python(code)), run.fold([CREATED])
    assert made.gate.holds(state), "before anybody asked"
    assert made.answer(state) == ["attempt 1 waits for its start condition (exit code 1)"]
    made.clock.advance(11)
    assert made.answer(state) == [], "the same answer once more"
    assert made.gate.holds(state)
    (tmp_path / "open").touch()
    assert made.gate.look(state) == (), "not asked more often than its interval"
    made.clock.advance(11)
    assert made.answer(state) == ["attempt 1 may start (exit code 0)"]
    assert not made.gate.holds(state)
    assert made.gate.holds(LIVE), "the next attempt is asked about anew"


def test_the_answer_of_a_condition_is_kept_with_its_words(tmp_path):
    made = Gate(tmp_path, python("import sys; print(0); print('disk is full', file=sys.stderr)"))
    made.answer(run.fold([CREATED]))
    body = json.loads((tmp_path / "actions" / "0001_start_condition.json").read_text())
    assert (body["met"], body["outcome"]["stdout"], body["outcome"]["stderr"]) == (
        False,
        "0\n",
        "disk is full\n",
    )


def test_a_condition_that_cannot_be_asked_is_told_and_opens_nothing(tmp_path):
    made, state = Gate(tmp_path, ("no-such-program-at-all",)), run.fold([CREATED])
    (said,) = made.answer(state)
    assert said.startswith("attempt 1 waits: the start condition could not be asked (")
    assert made.gate.holds(state)


@pytest.mark.parametrize(
    "more",
    [
        [events.Paused(at=1, by="ann")],
        [PLANNED, STARTED],
        [events.RunEnded(at=1, state="stopped", code=None)],
    ],
)
def test_nobody_is_asked_while_nothing_is_due(tmp_path, more):
    made = Gate(tmp_path, python("open('asked', 'w')"))
    state = run.fold([CREATED, *more])
    assert made.gate.look(state) == ()
    assert made.gate.wait_fds(state) == ()


NO = "attempt 1 waits for its start condition (exit code 1)"
ASKED = events.Noted(at=1, topic=run.START_CONDITION, text=NO)


@pytest.mark.parametrize(
    ("at", "limit_s", "held", "ends"),
    [
        (99.0, 100.0, True, False),
        (100.0, 100.0, True, True),
        (100.0, 100.0, False, False),
        (1e9, None, True, False),
    ],
)
def test_a_condition_that_never_comes_true_ends_the_run_where_a_limit_is_set(at, limit_s, held, ends):
    bound = binding.Bound(policy=policy_files.choose_any("default"), start_within_s=limit_s)
    made, _ = planning.on_tick(run.fold([CREATED, ASKED]), binding.Now(at, at, held=held), bound)
    assert [(one.state, one.code) for one in made] == ([("held", 124)] if ends else [])
    if ends:
        assert made[0].why == f"{NO}; watch.start_within: 1 min 40 s is over"


def test_nobody_waits_for_the_condition_of_a_run_that_is_paused_or_over():
    bound = binding.Bound(policy=policy_files.choose_any("default"), start_within_s=1.0)
    for more in (events.Paused(at=1, by="ann"), events.RunEnded(at=1, state="stopped", code=None)):
        state = run.fold([CREATED, ASKED, more])
        assert planning.on_tick(state, binding.Now(1e6, 1e6, held=True), bound) == binding.NOTHING


# -- the end, and silence ------------------------------------------------------------------------------------


@dataclass
class Watch:
    folder: Path
    ends: bool = True
    queued: bool = False
    moved_at: float | None = None
    keys: dict = field(default_factory=dict)
    clock: clocks.FakeClock = field(default_factory=clocks.FakeClock)

    def __post_init__(self) -> None:
        self.log = self.folder / "log"
        self.log.write_text("begun\n")
        monitor = log_signals.Monitor(
            **{"inactivity_threshold_s": 60.0, "check_interval_s": 10.0, **self.keys}
        )
        runner = local.Local()
        self.heard = signalling.Signalling(
            signalling.Means(
                monitor,
                lambda _: [tailer.FileLog(str(self.log), look_s=0.0)],
                runner,
                self.clock,
                str(self.folder / "actions"),
                str(self.folder),
                state=lambda _: "pending" if self.queued else "stall" if self.watch.stalled else "running",
            )
        )
        self.watch = silence_watch.SilenceWatch(
            silence_watch.Means(
                monitor,
                self.heard,
                runner,
                self.clock,
                str(self.folder),
                lambda _: self.queued,
                lambda: self.moved_at,
                self.ends,
            )
        )

    def look(self, after: float = 0.0) -> list[observations.Observation]:
        """Looks every 10 s for `after` seconds; what the last one gave."""
        for _ in range(int(after // 10)):
            self.clock.advance(10)
            self.heard.look(LIVE)
            seen = [*self.watch.look(LIVE)]
        if not after:
            seen = [*self.heard.look(LIVE), *self.watch.look(LIVE)]
        return seen

    def write(self, text: str) -> None:
        with self.log.open("a") as file:
            file.write(text)


def test_silent_logs_are_a_stall_that_ends_the_attempt_where_the_policy_says_so(tmp_path):
    made = Watch(tmp_path)
    assert made.look() == []
    assert made.look(50) == []
    (stalled,) = made.look(10)
    assert isinstance(stalled, observations.Stalled)
    assert (stalled.end, stalled.phase, stalled.silent_s, stalled.budget_s) == (
        True,
        "inactivity",
        60.0,
        60.0,
    )
    assert stalled.why == "nothing new in its logs for 1 min (inactivity_threshold_seconds: 1 min)"
    made.write("on\n")
    (moves,) = made.look(10)
    assert isinstance(moves, observations.MovesAgain)


def test_without_such_a_policy_silence_is_an_alert(tmp_path):
    (stalled,) = Watch(tmp_path, ends=False).look(70)
    assert not stalled.end


def test_progress_of_another_witness_is_no_silence(tmp_path):
    made = Watch(tmp_path)
    made.look(30)
    made.moved_at = made.clock.mono() + 20
    assert made.look(50) == []


def test_a_job_in_the_queue_is_not_silent(tmp_path):
    made = Watch(tmp_path, queued=True)
    assert made.look(600) == []
    made.queued = False
    assert made.look(50) == []


@pytest.mark.parametrize(
    ("listed", "queued", "stalled", "read"),
    [
        (("pending", "running", "stall"), True, False, True),
        (("running", "stall"), True, False, False),
        (("running", "stall"), False, False, True),
        (("pending",), False, False, False),
        (("running",), False, True, False),
        (("running", "stall"), False, True, True),
        ((), True, False, True),
    ],
)
def test_logs_are_read_in_the_states_of_the_whitelist_only(tmp_path, listed, queued, stalled, read):
    made = Watch(tmp_path, queued=queued, keys={"state_whitelist": listed, "termination_string": "ALL DONE"})
    made.look()
    if stalled:
        made.look(70)
    made.write("ALL DONE\n")
    made.look()
    assert (made.heard.finished("7@0") is not None) is read


def test_in_a_state_that_is_not_listed_no_silence_is_counted(tmp_path):
    made = Watch(tmp_path, keys={"state_whitelist": ("pending",)})
    assert made.look(600) == []


def test_a_watcher_that_was_stopped_counts_anew(tmp_path):
    made = Watch(tmp_path)
    made.look()
    made.clock.advance(7200)
    assert made.look() == []


def test_null_switches_it_off(tmp_path):
    assert Watch(tmp_path, keys={"inactivity_threshold_s": None}).look(7200) == []


def test_a_line_that_says_done_is_kept_and_then_silence_ends_what_does_not_end(tmp_path):
    made = Watch(tmp_path, ends=False, keys={"termination_string": "ALL DONE"})
    made.write("ALL DO")
    assert made.look() == []
    made.write("NE now\n")
    (note,) = made.heard.look(LIVE)
    assert note == observations.Note("termination", f"attempt 1 is done: 'ALL DONE now' in {made.log}")
    (stalled,) = made.look(70)
    assert (stalled.end, stalled.phase) == (True, "done")
    record = json.loads((tmp_path / "actions" / "0001_termination.json").read_text())
    assert (record["event"], record["state"]) == ("termination", "success")


@pytest.mark.parametrize(("code", "done"), [("print(1)", True), ("", True), ("raise SystemExit(1)", False)])
def test_the_termination_command_is_asked_until_it_says_yes(tmp_path, code, done):
    made = Watch(tmp_path, keys={"termination_command": python(f"open('asked', 'a').write('x')\n{code}")})
    made.look()
    for _ in range(3):
        waiting.wait_until(lambda: not made.watch.wait_fds(LIVE), "an answer")
        made.look(10)
    waiting.wait_until(lambda: not made.watch.wait_fds(LIVE), "an answer")
    asked = (tmp_path / "asked").read_text()
    assert (made.heard.finished("7@0") is not None, len(asked) > 1) == (done, not done)


def test_a_termination_command_that_fails_is_told_once(tmp_path):
    made = Watch(tmp_path, keys={"termination_command": ("no-such-program-at-all",)})
    notes = []
    for _ in range(4):
        notes += made.look(10)
        waiting.wait_until(lambda: not made.watch.wait_fds(LIVE), "an answer")
    assert [note.text[:46] for note in notes] == ["no-such-program-at-all could not be asked: exi"]


def test_an_answer_wakes_the_loop(tmp_path):
    code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)"
    made, state = Gate(tmp_path, python(code)), run.fold([CREATED])
    assert made.gate.look(state) == ()
    (descriptor,) = made.gate.wait_fds(state)
    assert select.select([descriptor], [], [], 0)[0] == []
    (tmp_path / "go").touch()
    assert select.select([descriptor], [], [], 60)[0] == [descriptor]
    assert made.gate.wait_fds(state) == ()
    made.gate.look(state)
    assert not made.gate.holds(state)
    made.gate.close()


def test_a_command_that_raises_is_an_answer_too(tmp_path):
    class Broken:
        name = "broken"

        def run(self, call: ports.Call) -> ports.Completed:
            raise ports.ContactLost("no such host")

    means = gating.Means(("x",), 10.0, Broken(), clocks.FakeClock(), str(tmp_path), str(tmp_path))
    gate, state = gating.StartGate(means), run.fold([CREATED])
    notes = [*gate.look(state)]
    waiting.wait_until(lambda: not gate.wait_fds(state), "an answer")
    (note,) = [*notes, *gate.look(state)]
    assert "could not be asked" in note.text
