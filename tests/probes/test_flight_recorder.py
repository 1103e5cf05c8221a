"""Flight recorder dumps: read as inert values, refused when they would run code, summed up over ranks."""

import json
import os
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.core import flight
from runward.probes import flight_recorder


def entry(number, state, name="nccl:all_reduce", group="0"):
    return {
        "collective_seq_id": number,
        "profiling_name": name,
        "state": state,
        "process_group": [group, "default_pg"],
        "input_sizes": [[8192, 8192]],
        "is_p2p": False,
    }


def dump(enqueued, completed, size=2, status=True):
    made = {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(size)))}},
        "entries": [
            entry(n, "completed" if n <= completed else "started")
            for n in range(max(1, enqueued - 5), enqueued + 1)
        ],
    }
    if status:
        made["pg_status"] = {
            "0": {
                "last_enqueued_collective": enqueued,
                "last_started_collective": enqueued,
                "last_completed_collective": completed,
            }
        }
    return made


@pytest.mark.parametrize("status", [True, False])
@pytest.mark.parametrize("protocol", range(2, 6))
def test_the_rank_that_enqueued_less_is_missing(tmp_path, protocol, status):
    for rank, numbers in {0: (53, 52), 1: (52, 52)}.items():
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(
            pickle.dumps(dump(*numbers, status=status), protocol)
        )
    found = flight_recorder.read_folder(str(tmp_path), "nccl_trace_rank_")
    assert (found.ranks, found.missing) == ((0, 1), (1,))
    assert found.text == "group 0: rank 0 in nccl:all_reduce #53; rank 1 did not join"
    assert found.to_json()["groups"][0]["last_completed"] == 52


def test_json_dumps_are_read_too(tmp_path):
    (tmp_path / "trace_0.json").write_text(json.dumps(dump(7, 6)))
    found = flight_recorder.read_folder(str(tmp_path))
    assert (found.missing, "no dump of rank 1" in found.text) == ((1,), True)


def test_healthy_ranks_miss_nobody(tmp_path):
    for rank in (0, 1):
        (tmp_path / f"t_{rank}").write_bytes(pickle.dumps(dump(9, 9)))
    found = flight_recorder.read_folder(str(tmp_path))
    assert (found.missing, found.text) == ((), "no collective is unfinished")


class Evil:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (self.path,))


def test_a_pickle_that_would_run_code_is_refused_and_runs_nothing(tmp_path):
    target = tmp_path / "owned"
    path = tmp_path / "trace_0"
    path.write_bytes(pickle.dumps({"entries": [], "x": Evil(str(target))}))
    found = flight_recorder.read_folder(str(tmp_path))
    assert not target.exists()
    assert "refused: it would call posix mkdir" in found.unread["trace_0"]


def test_typed_lists_of_pytorchs_own_pickler_become_lists():
    data = b"\x80\x02}(X\x01\x00\x00\x00ac" + b"torch.jit._pickle\nbuild_intlist\n(](K\x01K\x02et" + b"Ru."
    assert flight_recorder.inert(data) == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty: the rank died"),
        (pickle.dumps(dump(5, 5))[:-20], "cut short"),
        (b"{'not json", "no JSON"),
        (b"\x80\x04]\x94.", "no mapping"),
        (b"garbage", "no pickle"),
        (pickle.dumps({1, 2}), "more than plain values"),
    ],
)
def test_damaged_dumps_say_why_and_do_not_stop_the_others(tmp_path, data, why):
    (tmp_path / "trace_0").write_bytes(data)
    (tmp_path / "trace_1").write_bytes(pickle.dumps(dump(5, 4)))
    found = flight_recorder.read_folder(str(tmp_path))
    assert why in found.unread["trace_0"]
    assert (found.ranks, found.missing) == ((1,), (0,))


def test_too_many_values_are_refused(monkeypatch):
    monkeypatch.setattr(flight_recorder, "MAX_OPCODES", 50)
    with pytest.raises(flight_recorder.Unreadable, match="more than 50 values"):
        flight_recorder.inert(pickle.dumps(list(range(100))))


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@given(PLAIN, st.integers(2, 5))
def test_plain_values_survive_every_protocol(value, protocol):
    assert flight_recorder.inert(pickle.dumps(value, protocol)) == value


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_fail_otherwise(data):
    try:
        flight_recorder.inert(data)
    except flight_recorder.Unreadable:
        return


def test_odd_shapes_of_a_dump_are_survived():
    odd = {"pg_status": {"0": None}, "entries": [None, {"state": 3}], "pg_config": {"0": {"ranks": 5}}}
    assert isinstance(flight.summarise({0: odd}, {}), flight.FlightSummary)


def test_dumps_that_pytorch_itself_wrote_are_read():
    folder = Path(__file__).parent / "data" / "flight"
    found = flight_recorder.read_folder(str(folder), "trace_rank_")
    assert (found.ranks, dict(found.unread)) == ((0, 1), {})
    assert found.text == "group 0: rank 0 in gloo:all_reduce #5; rank 1 did not join"


def test_a_rank_of_the_group_that_left_no_dump_is_named():
    folder = Path(__file__).parent / "data" / "flight"
    alone = flight_recorder.read(str(folder / "trace_rank_0"))
    assert flight.summarise({0: alone}, {}).missing == (1,)
