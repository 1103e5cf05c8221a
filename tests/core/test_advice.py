"""The first thing to do names what is known, and nothing that is not."""

import pytest

from runward.core import advice, failures, rules

_C, _A = failures.Cause, failures.Action


@pytest.mark.parametrize(
    ("cause", "fields", "first"),
    [
        (
            _C.EXCEPTION,
            {"where": "a.py:8 in step", "exc": "KeyError"},
            "correct a.py:8 in step, where KeyError",
        ),
        (_C.EXCEPTION, {}, "correct the code where it was raised"),
        (_C.GPU_HARDWARE, {"node": "g7"}, "restart without node g7"),
        (_C.GPU_HARDWARE, {}, "restart without that node"),
        (_C.NCCL_TIMEOUT, {"guilty": "rank 6"}, "look at rank 6 first"),
        (_C.HANG, {"guilty": "rank 3"}, "take the stack of rank 3"),
    ],
)
def test_the_first_advice_names_what_is_known(cause, fields, first):
    assert advice.give(cause, None, fields)[0].do.startswith(first)


def test_advice_of_a_rule_that_names_what_the_line_did_not_say_is_left_out():
    raw = {
        "name": "jam",
        "pattern": r"jammed(?: in (?P<path>\S+))?",
        "role": "root",
        "cause": "disk_full",
        "advice": [{"do": "clear {path}", "why": "it is jammed"}],
    }
    good, bad = rules.parse_family({"family": "x", "rules": [raw]}, "x.yaml")
    assert not bad
    assert advice.give(_C.DISK_FULL, good[0], {"path": "/data"})[0].do == "clear /data"
    assert "clear" not in advice.give(_C.DISK_FULL, good[0], {})[0].do


def test_where_the_scheduler_starts_it_again_nothing_is_to_be_done():
    assert advice.give(_C.PREEMPTED, None, {}, _A.NONE)[0].do.startswith("nothing")
    assert advice.give(_C.PREEMPTED, None, {}, _A.RESTART)[0].do.startswith("restart")


@pytest.mark.parametrize("cause", [cause for cause in _C if cause is not _C.NONE])
def test_every_cause_has_something_to_do_and_never_only_to_read_logs(cause):
    found = advice.give(cause, None, {})
    assert found
    assert "check the log" not in " ".join(item.do for item in found).lower()
    assert "?" not in "".join(item.do for item in found)
