"""A container's post-mortem as a person reads it."""

import dataclasses

import pytest

from runward.app import container_post_mortem as post_mortem
from runward.core import container_facts, container_verdicts, containers
from runward.ui import text_container

NOW, ID, OTHER = 1_000_000.0, "a" * 64, "bc" * 32
BASE = containers.Container(
    ID, "train", status="exited", exit_code=3, started_at=NOW - 600, finished_at=NOW - 60, log_driver="json-file"
)  # fmt: skip
KILL = f"oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/docker/{OTHER},task_memcg=/docker/{OTHER},task=sh,pid=77,uid=0"


def report(tail: bytes = b"", kernel: post_mortem.KernelView | None = None, **seen: object) -> dict:
    one = dataclasses.replace(BASE, **seen)
    verdict = container_verdicts.judge(container_facts.Facts(one, NOW))
    log = post_mortem.LogView(tail)
    view = kernel or post_mortem.KernelView()
    return post_mortem.to_json(post_mortem.PostMortem(one, verdict, (NOW - 120, NOW), kernel=view, log=log))


def test_a_kill_in_another_container_near_the_end_is_not_told_as_this_ones() -> None:
    lines = [
        (NOW - 61, KILL),
        (NOW - 61, "Memory cgroup out of memory: Killed process 77 (sh) total-vm:1kB"),
        (NOW - 61, "Memory cgroup out of memory: Killed process 771 (sh) total-vm:1kB"),
    ]
    records = [containers.OomRecord(OTHER, 77, "sh", NOW - 61, KILL)]
    shown = text_container.render(report(kernel=post_mortem.KernelView(lines, records))).splitlines()
    told = [line.endswith("(in another container: bcbcbcbcbcbc)") for line in shown if "kill" in line.lower()]
    assert told == [True, True, False]
    assert not any(OTHER in line for line in shown), "ids are as `docker ps` shows them"


@pytest.mark.parametrize("driver", ["json-file", "local", "none"])
def test_an_empty_log_names_its_driver_and_the_setup_and_sends_nobody_to_read_it(driver) -> None:
    shown = text_container.render(report(log_driver=driver))
    assert f"Its log is empty (log driver {driver}). Logs that stay: runward setup docker-logging" in shown
    assert "docker logs" not in shown
    assert "its log says more" not in shown


def test_the_exit_code_stands_with_its_meaning_whatever_the_verdict() -> None:
    assert "exit code   137: SIGKILL" in text_container.render(report(exit_code=137))
    assert "exit code   3: a code of the program's own: its log says more" in text_container.render(
        report(b"x")
    )


def test_several_containers_begin_with_a_line_of_each() -> None:
    shown = text_container.render_all([report(name="one"), report(name="another")]).splitlines()
    assert shown[0] == "2 containers, the newest first"
    assert [line.split()[0] for line in shown[1:3]] == ["one", "another"]
    assert text_container.render_all([report()]) == text_container.render(report())
