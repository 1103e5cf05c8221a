"""A state directory that cannot be looked at is not one without runs."""

import pytest

from runward import ports
from runward.core import errors
from runward.store import glance, sqlite


@pytest.fixture
def unseen(tmp_path):
    (tmp_path / "state").symlink_to("state")
    return str(tmp_path / "state")


def test_what_cannot_be_seen_is_not_nothing(unseen):
    assert glance.rows(unseen) is None
    for read_only in (True, False):
        with pytest.raises(ports.StoreUnavailable) as caught:
            sqlite.SqliteStore(unseen, read_only=read_only)
        assert "RUNWARD_STATE_DIR" in str(caught.value)


def test_a_damaged_database_is_left_as_it_is_by_a_look_which_says_who_mends_it(tmp_path):
    (tmp_path / "state.db").write_bytes(b"no database" * 1000)
    assert glance.rows(str(tmp_path)) is None
    with pytest.raises(ports.StoreUnavailable) as caught:
        sqlite.SqliteStore(str(tmp_path), read_only=True)
    assert "`runward watch` moves it aside" in str(caught.value)
    assert (tmp_path / "state.db").read_bytes().startswith(b"no database")


def test_nothing_is_nothing(tmp_path):
    assert glance.rows(str(tmp_path / "none")) == []
    with pytest.raises(errors.NotFound):
        sqlite.SqliteStore(str(tmp_path / "none"), read_only=True)
