import pytest

from fixtures import damages
from runward.checkpoint_readers import dcp, files, pace, reader


@pytest.fixture
def last(tmp_path):
    return damages.unpacked("dcp", tmp_path) / "step-20"


def look(folder, *, full=True):
    return reader.read(files.tree(str(folder)), pace.Pace() if full else None).finding


def test_the_genuine_metadata_names_both_shards_with_their_true_length(last):
    found = dcp.spans((last / ".metadata").read_bytes())
    assert found == dcp.Spans(
        {f"__{i}_0.distcp": (last / f"__{i}_0.distcp").stat().st_size for i in (0, 1)}, plain=True
    )


def test_a_large_metadata_waits_for_the_background_and_is_then_walked_in_the_child(last, monkeypatch):
    monkeypatch.setattr(dcp, "_SMALL", 10)
    assert look(last, full=False).verified == "pending"
    assert look(last).verified == "full"
    hurried = pace.Pace(hurried=True)
    assert reader.read(files.tree(str(last)), hurried).finding.verified == "pending"


def test_a_broken_large_metadata_is_damaged_by_what_the_child_says(last, monkeypatch):
    monkeypatch.setattr(dcp, "_SMALL", 10)
    damages.truncate(last / ".metadata")
    assert look(last).state == "damaged"


def test_over_the_limits_the_shards_are_only_counted_and_that_is_said(last, monkeypatch):
    monkeypatch.setattr(dcp, "_MAX_METADATA", 10)
    found = look(last)
    assert (found.state, found.verified) == ("complete", "structure")
    assert "was not walked" in found.reason
    (last / "__0_0.distcp").unlink()
    assert look(last).state == "partial"


def test_when_the_child_fails_nothing_is_blamed(last, monkeypatch):
    monkeypatch.setattr(dcp, "_SMALL", 10)
    monkeypatch.setattr(dcp.sys, "executable", "/bin/false")
    found = look(last)
    assert (found.state, found.verified) == ("complete", "structure")
    assert "over its limits" in found.reason


def test_every_item_of_a_shard_is_read_not_only_the_last(last):
    shard = last / "__1_0.distcp"
    with files.View(str(shard)) as view:
        end, starts = view.size, []
        while end:
            end = dcp.zips.locate(view, end).start
            starts.append(end)
    assert len(starts) > 2
    data = shard.read_bytes()
    for start in starts:
        changed = bytearray(data)
        changed[start + 2] ^= 1
        shard.write_bytes(bytes(changed))
        assert look(last).state == "damaged", start
