"""What is known beside the log, as candidates."""

import pytest

from runward.core import context, failures, job, testimony


@pytest.mark.parametrize(
    ("word", "cause"),
    [
        ("stop", "cancelled"),
        ("restart", "cancelled"),
        ("stall", "hang"),
        ("gpu_idle", "gpu_idle"),
        ("max_runtime", "time_limit"),
        ("nonfinite_loss", "numerical_instability"),
        ("let_go", "unknown"),
    ],
)
def test_an_end_that_was_our_own_decision_is_not_told_of_somebody_else(word, cause):
    ended = context.Context(exit=job.ExitStatus(None, 15), running=False, stopped_by_us=word)
    found = testimony.gather(ended)
    assert max(found, key=lambda one: one.weight).cause is failures.Cause(cause)
    assert not [one.text for one in found if "somebody else" in one.text]


def test_a_sigterm_that_nobody_here_sent_is_told_of_somebody_else():
    (found,) = testimony.gather(context.Context(exit=job.ExitStatus(None, 15), running=False))
    assert "by somebody else" in found.text


@pytest.mark.parametrize(
    ("fact", "cause"), [("not_started", "config_error"), ("not_permitted", "permission")]
)
@pytest.mark.parametrize("code", [125, 126, 127])
def test_a_command_that_never_began_is_the_keepers_word_and_not_what_its_code_means_elsewhere(
    fact, cause, code
):
    witness = job.Witness("keeper", fact, "the directory to start in: /gone: No such file or directory")
    found = testimony.gather(context.Context(exit=job.ExitStatus(code), running=False, witnesses=(witness,)))
    told = max(found, key=lambda one: one.weight)
    assert told.cause is failures.Cause(cause)
    assert "/gone" in told.text
