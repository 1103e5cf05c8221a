"""Nothing that lies in a directory makes the readers fail, and no change of a byte goes unnoticed that could be seen."""

import contextlib
import io
import json
import os
import pickle
import struct
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures import damages
from runward.checkpoint_readers import (
    content,
    dcp,
    files,
    hashes,
    marks,
    pickles,
    reader,
    safetensors,
    scanner,
    zips,
)
from runward.checkpoint_readers.pace import Pace

NAMES = [
    "step_1.pt",
    "step_2.safetensors",
    "step_3",
    "step_4.json",
    "step_5.npz",
    "step_6.npy",
    "step_7.pkl",
    "step_8.h5",
    "last.ckpt",
    "latest",
    "latest_checkpointed_iteration.txt",
    "step_9/.metadata",
    "step_9/__0_0.distcp",
    "step_9/__99999_7.distcp",
    "step_9/metadata.json",
    "step_10/model.safetensors.index.json",
    "step_10/model-00001-of-99999.safetensors",
    "step_10/trainer_state.json",
    "step_10/rng_state_999999.pth",
    "step_10/latest",
    "step_11/mp_rank_00_model_states.pt",
    "step_11/zero_pp_rank_9_mp_rank_00_optim_states.pt",
    "step_11/model_world_size_9999999_rank_0.pt",
    hashes.FILE,
]
MAGIC = [
    b"PK\x03\x04",
    b"PK\x05\x06" + bytes(18),
    b"\x80\x02",
    b"\x80\x04\x95",
    b"\x93NUMPY\x01\x00",
    b"\x89HDF\r\n\x1a\n",
    struct.pack("<Q", 2) + b"{}",
    struct.pack("<Q", 20) + b'{"a": {"shape": [1]}}',
    b"{",
    b'{"weight_map": ',
    b'{"weight_map": {"w": 3}}',
    b"[" * 5000,
    b"\xff" * 8,
]
blobs = st.builds(lambda magic, rest: magic + rest, st.sampled_from([b"", *MAGIC]), st.binary(max_size=80))
calm = settings(
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
WORDS = {"complete", "partial", "damaged", "uncommitted", "unreadable"}


@calm
@given(st.dictionaries(st.sampled_from(NAMES), blobs, max_size=8))
def test_no_directory_makes_a_scan_fail(tmp_path_factory, found):
    directory = tmp_path_factory.mktemp("any")
    for name, data in found.items():
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    for depth in ("names", "structure", "full"):
        report = scanner.scan(str(directory), depth=depth)
        assert {row["state"] for row in report["checkpoints"]} <= WORDS
        json.dumps(report)


@pytest.fixture(scope="module")
def genuine(tmp_path_factory):
    base = tmp_path_factory.mktemp("genuine")
    return {name: damages.unpacked(name, base) for name in damages.FORMATS}


@pytest.mark.parametrize("name", ["torch_zip", "safetensors", "lightning", "dcp", "deepspeed"])
@calm
@given(data=st.data())
def test_no_change_of_a_genuine_file_makes_a_scan_fail(genuine, name, data):
    directory = genuine[name]
    file = data.draw(st.sampled_from(sorted(path for path in directory.rglob("*") if path.is_file())))
    kept = file.read_bytes()
    at = data.draw(st.integers(0, len(kept)))
    put = data.draw(st.binary(max_size=40))
    try:
        file.write_bytes(kept[:at] + put + (kept[at + len(put) :] if data.draw(st.booleans()) else b""))
        for row in scanner.scan(str(directory), depth="full")["checkpoints"]:
            assert row["state"] in WORDS
    finally:
        file.write_bytes(kept)


@pytest.mark.parametrize("name", ["torch_zip", "lightning", "dcp"])
@calm
@given(data=st.data())
def test_a_flipped_bit_of_a_summed_file_is_found_or_touches_no_item(genuine, name, data):
    """Only the padding between items may change unnoticed."""
    directory = genuine[name]
    newest = directory / damages.newest(directory)["name"]
    file = damages.payload(newest)
    kept = file.read_bytes()
    at, bit = data.draw(st.integers(0, len(kept) - 1)), data.draw(st.integers(0, 7))
    changed = bytearray(kept)
    changed[at] ^= 1 << bit
    try:
        file.write_bytes(bytes(changed))
        state = damages.verdicts(directory)[newest.name]["state"]
    finally:
        file.write_bytes(kept)
    if state == "complete":
        with contextlib.suppress(
            zipfile.BadZipFile
        ):  # newer Pythons also check redundant fields of the zip64 record
            assert _items(bytes(changed)) == _items(kept)


def _items(data):
    """Every item of the zips that lie end to end, by Python's own reader, the last one first."""
    found = []
    while data:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            every = sorted(archive.infolist(), key=lambda one: one.header_offset)
            found.append({one.filename: archive.read(one) for one in every})
            data = data[: every[0].header_offset]
    return found


@calm
@given(st.binary(max_size=200))
def test_any_bytes_are_a_pickle_or_a_bad_pickle(data):
    with contextlib.suppress(pickles.BadPickle):
        list(pickles.atoms(data))
    assert isinstance(pickles.values(data, frozenset({"step"})), dict)


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@calm
@given(value=plain)
def test_every_word_number_and_constant_of_a_pickle_is_seen_in_order(protocol, value):
    seen = [atom for atom in pickles.atoms(pickle.dumps(value, protocol)) if atom is not pickles.OTHER]
    assert seen == list(_leaves(value))


def _leaves(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    else:
        yield value


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_value_is_found_by_its_key_and_something_built_is_no_number(protocol):
    data = pickle.dumps({"a": {"global_step": 20}, "epoch": 3, "built": complex(1, 2)}, protocol)
    keys = frozenset({"global_step", "epoch", "built"})
    found = pickles.values(data, keys)
    assert (found["global_step"], found["epoch"]) == (20, 3)
    assert not isinstance(found.get("built"), int)


@calm
@given(
    st.lists(
        st.tuples(st.text("abcé/._-", min_size=1, max_size=8), st.binary(max_size=50)),
        max_size=5,
        unique_by=lambda entry: entry[0].replace("/", "_"),
    )
)
def test_a_zip_of_pythons_own_is_read_in_full(tmp_path_factory, entries):
    file = tmp_path_factory.mktemp("zip") / "step_1.npz"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name.replace("/", "_"), data)
    found = content.read(str(file), file.name, Pace())
    assert found.finding.state == ("complete" if entries else "damaged")


def test_readers_of_nothing_say_so(tmp_path):
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    with files.View(str(empty)) as view:
        assert safetensors.check(view)[0].state == "damaged"
        with pytest.raises(zips.BadZip):
            zips.locate(view, 0)
    assert dcp.spans(pickle.dumps({})) == dcp.Spans({}, plain=True)
    assert marks.pointers(str(tmp_path), {}, []) == []
    assert reader.from_json("nonsense") is None


def test_a_pipe_a_device_and_a_loop_of_links_never_block(tmp_path):
    os.mkfifo(tmp_path / "step_1.pt")
    os.symlink("/dev/zero", tmp_path / "step_2.pt")
    os.symlink("step_3", tmp_path / "step_3")
    os.symlink(".", tmp_path / "step_4")
    (tmp_path / "step_5").mkdir()
    os.symlink("..", tmp_path / "step_5" / "up")
    os.mkfifo(tmp_path / "step_5" / "model.pt")
    os.symlink("step_9", tmp_path / "latest")
    os.mkfifo(tmp_path / "latest_checkpointed_iteration.txt")
    rows = scanner.scan(str(tmp_path), depth="full")["checkpoints"]
    assert all(row["state"] != "complete" for row in rows if row["name"] != "step_4")
