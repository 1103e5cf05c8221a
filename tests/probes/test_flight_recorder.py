"""Flight recorder dumps: read as inert values, refused when they would run code, summed up over ranks."""

import json
import os
import pickle
import pickletools
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


def read_folder(folder, **window):
    return flight_recorder.summary(flight_recorder.find(flight_recorder.Where([str(folder)], **window)))


@pytest.mark.parametrize("status", [True, False])
@pytest.mark.parametrize("protocol", range(2, 6))
def test_the_rank_that_enqueued_less_is_missing(tmp_path, protocol, status):
    for rank, numbers in {0: (53, 52), 1: (52, 52)}.items():
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(
            pickle.dumps(dump(*numbers, status=status), protocol)
        )
    found = read_folder(tmp_path)
    assert (found.ranks, found.missing) == ((0, 1), (1,))
    assert found.text == "group 0: rank 0 in nccl:all_reduce #53; rank 1 did not join"
    assert found.to_json()["groups"][0]["last_completed"] == 52


def test_json_dumps_are_read_too(tmp_path):
    (tmp_path / "trace_0.json").write_text(json.dumps(dump(7, 6)))
    found = read_folder(tmp_path)
    assert (found.missing, "no dump of rank 1" in found.text) == ((1,), True)


def test_healthy_ranks_miss_nobody(tmp_path):
    for rank in (0, 1):
        (tmp_path / f"trace_{rank}").write_bytes(pickle.dumps(dump(9, 9)))
    found = read_folder(tmp_path)
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
    found = read_folder(tmp_path)
    assert not target.exists()
    assert "refused: it would call posix mkdir" in found.unread[str(tmp_path / "trace_0")]


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
    found = read_folder(tmp_path)
    assert why in found.unread[str(tmp_path / "trace_0")]
    assert (found.ranks, found.missing) == ((1,), (0,))


def test_too_many_values_are_refused(monkeypatch):
    monkeypatch.setattr(flight_recorder, "MAX_OPCODES", 50)
    with pytest.raises(flight_recorder.Unreadable, match="more than 50 values"):
        flight_recorder.inert(pickle.dumps(list(range(100))))


def test_being_ahead_is_no_fault_and_having_completed_all_that_the_others_wait_behind_is():
    dumps = {0: dump(105, 99, 4), 1: dump(100, 99, 4), 2: dump(103, 99, 4), 3: dump(99, 99, 4)}
    found = flight.summarise(dumps, {})
    assert (found.behind, found.silent, found.waiting()) == ((3,), (), (0,))
    assert "rank 3 did not join" in found.text
    assert [(e.rank, e.text) for e in found.evidence()] == [
        (3, "group 0: last enqueued collective 99, last completed 99"),
        (
            0,
            "group 0: last enqueued collective 105, last completed 99, waits in nccl:all_reduce #100",
        ),
    ]
    assert flight.summarise({r: d for r, d in dumps.items() if r < 3}, {}).silent == (3,)
    assert flight.summarise({r: dump(9, 8, 3) for r in range(3)}, {}).missing == ()


def test_of_many_long_dumps_only_the_counters_are_walked(tmp_path, monkeypatch):
    for rank in range(20):
        made = dump(5 if rank == 7 else 6, 5, 20)
        made["entries"] = [dict(one) for one in made.pop("entries") * 100]  # last, as PyTorch writes them
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(made, 2))
    walked = []
    step = flight_recorder._Machine.step
    monkeypatch.setattr(
        flight_recorder._Machine,
        "step",
        lambda self, name, value: (walked.append(1), step(self, name, value)),
    )
    found = read_folder(tmp_path)
    assert (found.missing, len(found.ranks)) == ((7,), 20)
    assert "rank 7 did not join" in found.text
    assert "nccl:all_reduce #6" in found.text
    whole = sum(1 for _ in pickletools.genops((tmp_path / "nccl_trace_rank_0").read_bytes()))
    assert whole < len(walked) < 1.5 * whole


def test_dumps_of_another_time_or_name_are_left_alone_and_a_pipe_is_not_waited_for(tmp_path):
    for name in ("nccl_trace_rank_0", "nccl_trace_rank_1", "elsewhere_1", "model_2.pkl", "rank3"):
        (tmp_path / name).write_bytes(pickle.dumps(dump(5, 5)))
    os.mkfifo(tmp_path / "nccl_trace_rank_4")
    os.utime(tmp_path / "nccl_trace_rank_1", (1000, 1000))
    where = flight_recorder.Where([str(tmp_path)], [str(tmp_path / "elsewhere_")], since=2000)
    assert flight_recorder.find(where) == {
        0: str(tmp_path / "nccl_trace_rank_0"),
        1: str(tmp_path / "elsewhere_1"),
    }
    assert flight_recorder.find(flight_recorder.Where([str(tmp_path / "gone")])) == {}
    with pytest.raises(flight_recorder.Unreadable, match="is no file"):
        flight_recorder.read(str(tmp_path / "nccl_trace_rank_4"))


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
    found = read_folder(folder)
    assert (found.ranks, dict(found.unread)) == ((0, 1), {})
    assert found.text == "group 0: rank 0 in gloo:all_reduce #5; rank 1 did not join"


def test_a_rank_of_the_group_that_left_no_dump_is_named():
    folder = Path(__file__).parent / "data" / "flight"
    alone = flight_recorder.read(str(folder / "trace_rank_0"))
    assert flight.summarise({0: alone}, {}).missing == (1,)
