"""What is collected about a container: a witness that is missing is said, one that is another's is none."""

import dataclasses

import pytest

from runward.app import container_post_mortem as post_mortem
from runward.core import containers

NOW, ID = 1_000_000.0, "a" * 64
ENDED = containers.Container(
    ID, "train", status="exited", exit_code=137, started_at=NOW - 600, finished_at=NOW - 60
)


def event(action: str, at: float) -> containers.ContainerEvent:
    return containers.ContainerEvent(action, ID, at, {})


def examine(seen=ENDED, events=(), kernel=()) -> post_mortem.PostMortem:
    sources = post_mortem.Sources(
        events=lambda _seen: events,
        log=lambda _seen: post_mortem.LogView(b"x"),
        kernel=lambda _begin, _end: post_mortem.KernelView(kernel),
        daemon=lambda _begin, _end: (),
        oom_counter=lambda _seen: None,
        engine_start=lambda: None,
        resources=lambda: (),
        now=lambda: NOW,
    )
    return post_mortem.examine(seen, sources)


@pytest.mark.parametrize(
    ("seen", "events", "missed"),
    [
        ({}, (), True),
        ({}, (event("die", NOW - 700), event("start", NOW - 600)), True),
        ({}, (event("die", NOW - 60),), False),
        ({"status": "running", "exit_code": None, "finished_at": None}, (), False),
        ({"status": "created", "exit_code": None, "started_at": None, "finished_at": None}, (), False),
    ],
    ids=["none", "of an earlier life", "seen", "running", "never started"],
)
def test_an_end_that_the_engine_has_forgotten_is_not_told_as_one_that_nobody_asked_for(
    seen, events, missed
) -> None:
    report = examine(dataclasses.replace(ENDED, **seen), events)
    assert any(why.startswith("Docker events: none of its end") for why in report.blind) is missed
    assert ("docker kill or docker stop" in report.diagnosis.verdict.summary) is missed


@pytest.mark.parametrize(("before_end", "certainty"), [(0.2, "proven"), (40.0, "likely")])
def test_a_segmentation_fault_of_another_moment_proves_nothing(before_end, certainty) -> None:
    line = (NOW - 60 - before_end, "python3[5]: segfault at 0 ip 0 sp 0 error 4")
    report = examine(dataclasses.replace(ENDED, exit_code=139), kernel=[line])
    assert report.diagnosis.verdict.certainty == certainty
