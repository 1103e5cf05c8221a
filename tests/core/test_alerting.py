import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.core import alerting, events, notices, run

SETTINGS = alerting.Settings()
DIAGNOSIS = {
    "verdict": {"cause": "killed", "rank": 1, "summary": "rank 1 was killed by SIGKILL"},
    "evidence": [{"text": f"line {n}"} for n in range(5)],
}
CREATED = events.RunCreated(at=0.0, run="demo", backend="process", policy="default")


def planned(n, at):
    return events.AttemptPlanned(at=at, attempt=n, token=f"demo-{n}-x")


def started(n, at):
    return events.AttemptStarted(at=at, attempt=n, job=str(n))


def ended(n, at):
    return events.AttemptEnded(
        at=at,
        attempt=n,
        exit={"code": None, "signum": 9, "seen": True},
        first_step=1,
        last_step=25,
        total=60,
        diagnosis=DIAGNOSIS,
    )


STALL = events.StallDetected(
    at=20.0, attempt=1, phase="step", silent_s=600.0, budget_s=600.0, votes=("cpu: still",)
)
BEGUN = (CREATED, planned(1, 1.0), started(1, 2.0))


class Life:
    def __init__(self, settings=SETTINGS, name="demo"):
        self.board, self.state, self.settings, self.now, self.name = (
            alerting.Board(),
            run.RunState(),
            settings,
            0.0,
            name,
        )
        self.sent = []

    def see(self, *history, board=None):
        for event in history:
            self.state = run.apply(self.state, event)
            self.board = alerting.observe(self.board, event, self.state, self.settings, self.now)
        return self

    def wait(self, seconds):
        end = self.now + seconds
        while True:
            self.board, sent = alerting.due(self.board, self.settings, self.now)
            self.sent += sent
            if sent:
                continue
            if self.now >= end:
                return [message.title for message in self.sent]
            self.now = min(
                end, *(alert.due_at for alert in self.board.alerts if alert.due_at > self.now), end
            )

    @property
    def words(self):
        return [(str(m.word), str(m.state)) for m in self.sent]


def test_a_held_run_is_told_once_with_cause_evidence_and_the_next_command():
    life = Life().see(
        *BEGUN, ended(1, 50.0), events.RunEnded(at=51.0, state="held", code=None, why="third end")
    )
    assert life.wait(60) == ["demo held: killed (rank 1), attempt 1, step 25 of 60"]
    text = life.sent[0].text
    assert "rank 1 was killed by SIGKILL" in text
    assert text.count("  line ") == 3
    assert "runward restart demo" in text
    assert life.sent[0].payload["verdict"]["cause"] == "killed"
    json.dumps(dict(life.sent[0].payload))


def test_what_a_person_did_is_not_told_to_a_person():
    life = Life().see(*BEGUN, ended(1, 50.0), events.RunEnded(at=51.0, state="stopped", code=0))
    assert life.wait(60) == []


def test_a_hang_that_ends_the_run_is_one_page():
    life = Life().see(*BEGUN, STALL, ended(1, 21.0), events.RunEnded(at=22.0, state="failed", code=1))
    life.wait(3600)
    assert life.words == [("failed", "firing")]


def test_a_stall_is_told_resolved_and_told_again():
    life = Life().see(*BEGUN, STALL)
    life.wait(60)
    life.see(events.StallCleared(at=100.0, attempt=1, silent_s=700.0))
    life.wait(60)
    life.see(events.StallDetected(at=900.0, attempt=1, phase="step", silent_s=600.0, budget_s=600.0))
    life.wait(60)
    assert life.words == [("stalled", "firing"), ("stalled", "resolved"), ("stalled", "firing")]
    assert len({message.id for message in life.sent}) == 3


def test_an_alert_that_ends_before_it_was_told_is_never_told():
    life = Life().see(*BEGUN, events.ContactLost(at=20.0, why="ssh: timed out"))
    life.wait(800)
    life.see(events.ContactRegained(at=820.0, blind_s=800.0))
    assert life.wait(7200) == []


def test_blindness_is_told_after_its_time_and_claims_no_death():
    life = Life().see(*BEGUN, events.ContactLost(at=20.0, why="ssh: timed out"))
    assert life.wait(899) == []
    assert life.wait(2) == ["demo cannot be seen: ssh: timed out"]
    life.see(events.ContactRegained(at=5000.0, blind_s=4980.0))
    life.wait(10)
    assert life.words[-1] == ("blind", "resolved")


def test_a_restart_that_recovers_is_told_with_what_it_recovered_from():
    life = Life().see(*BEGUN, ended(1, 50.0), planned(2, 51.0), started(2, 52.0))
    life.see(events.Recovered(at=56.0, attempt=2, step=21, after_s=6.0))
    assert life.wait(60) == ["demo recovered at step 21, 6.0 s after its end"]
    assert "killed by SIGKILL" in life.sent[0].text
    assert life.sent[0].payload["step"] == 21


def test_a_loss_that_is_not_finite_is_told_and_resolved():
    life = Life().see(*BEGUN, events.NonfiniteLoss(at=30.0, attempt=1, step=7, since=29.0))
    life.wait(60)
    life.see(events.LossFiniteAgain(at=90.0, attempt=1, step=10))
    life.wait(60)
    assert life.words == [("alert", "firing"), ("alert", "resolved")]


def test_many_runs_with_the_same_trouble_are_one_notice():
    board = alerting.Board()
    for index in range(12):
        state = run.fold(
            (events.RunCreated(at=0.0, run=f"run{index}", backend="slurm", policy="default"), *BEGUN[1:])
        )
        board = alerting.observe(
            board, events.ContactLost(at=20.0, why="login node is down"), state, SETTINGS, 0.0
        )
    board, sent = alerting.due(board, SETTINGS, 900.0)
    assert [message.title[:14] for message in sent] == ["12 runs blind:"]
    assert len(sent[0].payload["runs"]) == 12
    assert alerting.due(board, SETTINGS, 901.0)[1] == ()


def test_alerts_are_limited_to_so_many_an_hour_and_ends_are_not():
    settings = alerting.Settings(per_hour=2, group_from=100)
    board = alerting.Board()
    for index in range(5):
        state = run.fold(
            (events.RunCreated(at=0.0, run=f"run{index}", backend="slurm", policy="default"), *BEGUN[1:])
        )
        board = alerting.observe(board, STALL, state, settings, 0.0)
    board, sent = alerting.due(board, settings, 10.0)
    assert len(sent) == 2
    board, again = alerting.due(board, settings, 20.0)
    assert again == ()
    life = Life(settings)
    life.board = board
    life.now = 30.0
    life.see(*BEGUN, ended(1, 50.0), events.RunEnded(at=51.0, state="failed", code=1))
    board, end = alerting.due(life.board, settings, 31.0)
    assert [str(message.word) for message in end] == ["failed"]
    board, late = alerting.due(board, settings, 3700.0)
    assert len(late) == 2
    assert "held back" in late[0].text


def test_an_alert_is_repeated_while_it_fires_and_its_end_is_told():
    life = Life().see(*BEGUN, STALL)
    life.wait(9 * 3600)
    life.see(events.StallCleared(at=1e5, attempt=1, silent_s=1e5))
    life.wait(60)
    assert life.words == [("stalled", "firing")] * 3 + [("stalled", "resolved")]
    assert [message.title.startswith("still: ") for message in life.sent] == [False, True, True, False]


def test_a_board_rebuilt_from_a_journal_tells_what_still_fires_its_end_and_no_old_news():
    history = [*BEGUN, ended(1, 50.0), planned(2, 51.0), started(2, 52.0)]
    history += [events.Recovered(at=56.0, attempt=2, step=21, after_s=6.0)]
    history += [
        events.StallDetected(at=99_000.0, attempt=2, phase="step", silent_s=600.0, budget_s=600.0),
        events.ContactLost(at=99_990.0, why="timed out"),
    ]
    life = Life()
    life.state, life.now = run.fold(history), 1000.0
    life.board = alerting.rebuilt(history, SETTINGS, now=life.now, wall=100_000.0)
    life.wait(60)
    assert life.words == [("stalled", "firing")]
    life.see(events.StallCleared(at=100_060.0, attempt=2, silent_s=1060.0)).wait(60)
    assert life.words == [("stalled", "firing"), ("stalled", "resolved")]
    life.wait(900)
    assert life.words[-1] == ("blind", "firing")


def test_the_same_journal_gives_the_same_ids_so_that_nothing_is_delivered_twice():
    history = (*BEGUN, STALL, events.StallCleared(at=100.0, attempt=1, silent_s=700.0))
    first, second = Life(), Life()
    for life in (first, second):
        for event in history:
            life.see(event).wait(60)
    assert [m.id for m in first.sent] == [m.id for m in second.sent]


_events = st.one_of(
    st.builds(planned, st.integers(1, 3), st.floats(0, 1e6)),
    st.builds(started, st.integers(1, 3), st.floats(0, 1e6)),
    st.builds(ended, st.integers(1, 3), st.floats(0, 1e6)),
    st.just(STALL),
    st.just(events.StallCleared(at=1.0, attempt=1, silent_s=1.0)),
    st.just(events.ContactLost(at=1.0, why="x")),
    st.just(events.ContactRegained(at=1.0, blind_s=1.0)),
    st.just(events.NonfiniteLoss(at=1.0, attempt=1, step=None, since=0.0)),
    st.just(events.Decided(at=1.0, attempt=1, action="wait", reason="disk")),
    st.just(events.Recovered(at=1.0, attempt=2, step=None, after_s=1.0)),
    st.builds(
        lambda s: events.RunEnded(at=1.0, state=s, code=None),
        st.sampled_from(["held", "failed", "stopped", "odd"]),
    ),
)


@given(st.lists(st.tuples(_events, st.floats(0, 2e4)), max_size=30))
def test_no_history_makes_the_board_raise_or_say_the_same_thing_twice(history):
    life = Life().see(CREATED)
    for event, seconds in history:
        life.see(event)
        life.now += seconds
        life.board, sent = alerting.due(life.board, SETTINGS, life.now)
        ids = [message.id for message in sent]
        assert len(ids) == len(set(ids))
        for message in sent:
            json.dumps(dict(message.payload))
    assert alerting.due(life.board, SETTINGS, life.now)[1] == ()


@pytest.mark.parametrize("word", list(notices.Word))
def test_a_word_that_nobody_wants_is_not_sent(word):
    settings = alerting.Settings(words=frozenset(notices.Word) - {word})
    life = Life(settings).see(
        *BEGUN, STALL, ended(1, 50.0), events.RunEnded(at=51.0, state="held", code=None)
    )
    life.wait(3600)
    assert str(word) not in {name for name, _ in life.words}
