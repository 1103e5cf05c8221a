import pytest

from runward.core import durations, errors


@pytest.mark.parametrize("text", ["", "abc", "10x", "-5s", "1h30"])
def test_a_wrong_duration_is_refused(text):
    with pytest.raises(ValueError, match="is no duration"):
        durations.parse_duration(text)


def test_the_nearest_word_is_found_and_nonsense_has_none():
    assert errors.nearest("statsu", ["status", "stop", "ps"]) == "status"
    assert errors.nearest("xyzzy", ["status", "stop", "ps"]) is None


def test_a_word_that_was_cut_short_is_nearest_to_what_it_begins():
    names = ["megatron_nccl", "megatron_production", "megatron_basic"]
    assert errors.nearest("megatron_prod", names) == "megatron_production"
    assert errors.nearest("meg", names) is None
