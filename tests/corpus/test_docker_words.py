"""What Docker says of a container reaches the verdict alike in every form in which people pass it on."""

import json

import pytest

from corpus import judging

DENIED = {
    "words": "OOMKilled=false",
    "object": {"OOMKilled": False},
    "state": {"State": {"OOMKilled": False, "ExitCode": 1}},
    "list": [{"State": {"Status": "exited", "OOMKilled": False}}],
    "json": json.dumps({"OOMKilled": False}),
    "python": str({"State": {"OOMKilled": False}}),
}
STEPS = "".join(f"step {n} loss {4 - n / 100:.3f}\n" for n in range(40))
LOOKED_UP = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 31, in step\n'
    '    return batch["labels"]\n'
    "KeyError: 'labels'\n"
)


@pytest.mark.parametrize("form", DENIED)
def test_a_flag_that_denies_a_kill_for_memory_leaves_the_error_of_the_program(form):
    found = judging.verdict(STEPS + LOOKED_UP, exit_code=1, docker=DENIED[form])
    assert (found.cause, found.action) == ("exception", "hold")


@pytest.mark.parametrize("form", DENIED)
def test_a_flag_that_denies_it_proves_nothing_about_a_kill(form):
    found = judging.judge(STEPS, exit_code=137, docker=DENIED[form])
    assert found.verdict.cause == "killed"
    assert "State.OOMKilled is false" in str(found.counter_evidence)


@pytest.mark.parametrize("form", DENIED)
def test_a_flag_that_says_so_is_a_kill_for_memory(form):
    told = DENIED[form]
    said = json.loads(json.dumps(told).replace("false", "true").replace("False", "True"))
    assert judging.verdict(STEPS, exit_code=137, docker=said).cause == "host_oom"


@pytest.mark.parametrize(
    "line", ["'OOMKilled': False, 'Dead': False", '"OOMKilled": false', "OOMKilled=False"]
)
def test_what_a_log_prints_of_a_container_that_was_not_killed_is_no_kill(line):
    assert judging.verdict(f"{STEPS}{{{line}}}\n{LOOKED_UP}", exit_code=1).cause == "exception"
