"""Every verb that `--help` lists can be used."""

from collections.abc import Iterator

import click
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


def _commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        one = command.get_command(context, name)
        assert one is not None
        yield from _commands(one, f"{path} {name}")


def test_every_option_says_what_it_is_for():
    silent = [
        f"{path} {option.opts[0]}"
        for path, command in _commands(entry.cli, "runward")
        for option in command.params
        if isinstance(option, click.Option) and not option.help and not option.hidden
    ]
    assert silent == []


@pytest.mark.parametrize("words", [("top", "--box"), ("health", "nobody", "--watch")], ids=["top", "health"])
def test_a_time_that_is_none_is_refused_with_the_options_name(words, capsys):
    assert entry.run([*words, "--every", "soon"]) == 2
    assert "runward: --every: " in capsys.readouterr().err
