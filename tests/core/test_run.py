"""Run state is the fold of its events, whatever comes in whatever order."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.core import events, run

SMALL = st.integers(1, 4)
NUMBER = st.floats(0, 1e9)


def _strategy(cls):
    values = {}
    for field in dataclasses.fields(cls):
        text = str(field.type)
        if "Mapping" in text:
            values[field.name] = st.just({})
        elif "tuple" in text:
            values[field.name] = st.just(())
        elif field.name == "state":
            values[field.name] = st.sampled_from(["succeeded", "failed", "held", "stopped", "cancelled"])
        elif "int" in text:
            values[field.name] = SMALL
        elif "float" in text:
            values[field.name] = NUMBER
        elif "bool" in text:
            values[field.name] = st.booleans()
        else:
            values[field.name] = st.text(max_size=3)
    return st.builds(cls, **values)


ANY_EVENT = st.one_of([_strategy(cls) for cls in events.KINDS.values()])
HISTORY = st.lists(ANY_EVENT, max_size=30)


@given(HISTORY)
def test_no_event_makes_the_fold_raise_and_json_keeps_it(history):
    state = run.fold(history)
    assert run.fold(events.from_json(events.to_json(e)) for e in history) == state
    assert isinstance(state.state, run.State)


@given(HISTORY, st.integers(0, 30))
def test_folding_in_two_parts_is_folding_at_once(history, cut):
    assert run.fold(history[cut:], run.fold(history[:cut])) == run.fold(history)


@given(HISTORY)
def test_there_is_never_more_than_one_live_attempt(history):
    state = run.RunState()
    for event in history:
        state = run.apply(state, event)
        assert [a for a in state.attempts if a.live] in ([], [state.attempts[-1]] if state.attempts else [])
        assert [a.n for a in state.attempts] == list(range(1, len(state.attempts) + 1))


def test_a_newer_programs_event_is_kept_as_unexpected():
    assert events.from_json({"kind": "from_the_future", "at": 3.0}) == events.Unexpected(
        at=3.0, what="unknown kind 'from_the_future'"
    )


@pytest.mark.parametrize(
    ("history", "word"),
    [
        ([], "pending"),
        ([events.AttemptPlanned(at=1, attempt=1, token="t")], "pending"),
        (
            [
                events.AttemptPlanned(at=1, attempt=1, token="t"),
                events.AttemptStarted(at=2, attempt=1, job="7"),
            ],
            "running",
        ),
    ],
)
def test_the_state_word_follows_from_the_facts(history, word):
    assert run.fold(history).state == word
