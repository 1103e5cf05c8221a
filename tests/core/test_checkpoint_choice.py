import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.core import checkpoints, repairs
from runward.core.checkpoints import Checkpoint, Form, Listing, Pointer, State


def one(step, state=State.COMPLETE, at=0.0, **more):
    return Checkpoint(f"/c/step_{step}", step, at or float(step or 0), state, **more)


def test_the_newest_complete_one_is_chosen_by_step_not_by_time():
    older_by_step = one(20, at=900.0)
    assert checkpoints.choose([older_by_step, one(30, at=100.0), one(40, State.PARTIAL)]).step == 30


def test_nothing_that_is_not_complete_or_was_set_aside_is_chosen():
    others = [one(i, state) for i, state in enumerate(State) if state is not State.COMPLETE]
    assert checkpoints.choose([*others, one(99, quarantined="failed to load")]) is None


def test_previous_of_is_older_than_that_one():
    rows = [one(10), one(20), one(30)]
    assert checkpoints.choose(rows, previous_of="/c/step_20").step == 10
    assert checkpoints.choose(rows, previous_of="/c/step_10") is None
    assert checkpoints.choose(rows, previous_of="/c/gone").step == 30


def test_a_trainer_follows_its_pointer_before_the_highest_step():
    rows = (one(20), one(30))
    tag = Pointer("/c/latest", Form.TAG, "step_20", "/c/step_20")
    assert checkpoints.would_load(Listing("/c", rows, (tag,))).path == "/c/step_20"
    assert checkpoints.would_load(Listing("/c", rows)).path == "/c/step_30"
    assert checkpoints.would_load(Listing("/c")) == checkpoints.Load(None, "no checkpoint is there")


def test_broken_or_disagreeing_pointers_make_it_unknown():
    rows = (one(20), one(30))
    tag = Pointer("/c/latest", Form.TAG, "step_20", "/c/step_20")
    other = Pointer("/c/last", Form.LINK, "step_30", "/c/step_30")
    gone = Pointer("/c/last", Form.LINK, "step_40", None, "step_40 does not exist")
    assert not checkpoints.would_load(Listing("/c", rows, (tag, other))).known
    assert not checkpoints.would_load(Listing("/c", rows, (tag, gone))).known


def test_what_was_renamed_is_not_found_by_a_trainer_and_what_was_marked_is():
    renamed = Checkpoint("/c/step_40.quarantined", 40, 40.0, State.DAMAGED, quarantined="renamed")
    marked = one(30, State.DAMAGED, quarantined="marked")
    assert checkpoints.would_load(Listing("/c", (one(20), marked, renamed))).path == "/c/step_30"


rows = st.lists(
    st.builds(
        one,
        st.integers(0, 9),
        st.sampled_from(State),
        quarantined=st.sampled_from([None, "why"]),
    ),
    max_size=8,
    unique_by=lambda row: row.path,
)
forms = st.sampled_from(Form)


@given(rows, st.lists(st.tuples(forms, st.integers(0, 9)), max_size=2))
def test_after_its_repairs_a_trainer_that_looks_for_itself_loads_the_chosen_one(found, named):
    paths = {row.path for row in found}
    pointers = tuple(
        Pointer(f"/c/p{i}", form, f"step_{step}", f"/c/step_{step}" if f"/c/step_{step}" in paths else None)
        for i, (form, step) in enumerate(named)
    )
    before = Listing("/c", tuple(found), pointers)
    chosen = checkpoints.choose(found)
    after = _mended(before, repairs.needed(before, chosen))
    load = checkpoints.would_load(after)
    assert load.known
    assert load.path == (chosen.path if chosen else None)


def _mended(before, deeds):
    renamed = {deed.path: deed.to for deed in deeds if isinstance(deed, repairs.Rename)}
    repointed = {deed.path: deed.after for deed in deeds if isinstance(deed, repairs.Repoint)}
    rows_after = tuple(
        Checkpoint(renamed.get(row.path, row.path), row.step, row.at, row.state) for row in before.checkpoints
    )
    pointers = []
    for pointer in before.pointers:
        if pointer.path in renamed:
            continue
        value = repointed.get(pointer.path, pointer.value)
        step = value if value.isdigit() else value.removeprefix("step_")
        there = any(row.path == f"/c/step_{step}" for row in rows_after)
        pointers.append(Pointer(pointer.path, pointer.form, value, f"/c/step_{step}" if there else None))
    return Listing("/c", rows_after, tuple(pointers))


@pytest.mark.parametrize(
    ("at", "instant", "since"),
    [
        (100.5, 100.4, True),
        (100.5, 100.52, True),  # the kernel's stamp is up to a tick behind
        (100.5, 100.6, False),
        (100.0, 100.9, True),  # a file system that knows whole seconds only
        (99.0, 100.1, False),
    ],
)
def test_a_stamp_tells_as_much_as_the_file_system_keeps(at, instant, since):
    one = checkpoints.Checkpoint("/c/step_1", 1, at, checkpoints.State.COMPLETE)
    assert one.written_since(instant) is since
