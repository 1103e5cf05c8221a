"""Every verb that `--help` lists can be used."""

import pytest

from runward.cli import entry


@pytest.mark.parametrize("verb", entry.VERBS)
def test_a_verb_explains_itself(verb, capsys):
    assert entry.run([verb, "--help"]) == 0
    assert "Usage: runward" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "verb"), [("statsu", "status"), ("rnu", "run"), ("sp", "ps"), ("dignose", "diagnose")]
)
def test_a_word_that_is_no_verb_names_the_nearest(word, verb, capsys):
    assert entry.run([word]) == 2
    assert f"did you mean {verb!r}" in capsys.readouterr().err
