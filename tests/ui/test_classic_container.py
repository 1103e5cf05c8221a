"""The classic sections of a post-mortem: the words that scripts look for, and never more than is true."""

import dataclasses

import pytest

from runward.app import container_post_mortem as post_mortem
from runward.core import container_facts, container_verdicts, containers, failures
from runward.ui import classic_container

NOW, ID = 1_000_000.0, "a" * 64
BASE = containers.Container(
    ID, "train", image="img", status="exited", exit_code=1, started_at=NOW - 600, finished_at=NOW - 60
)
OOM = (containers.ContainerEvent("oom", ID, NOW - 60),) * 6


def render(log: str = "", events: tuple[containers.ContainerEvent, ...] = (), cause: str = "", **seen) -> str:
    one = dataclasses.replace(BASE, **seen)
    said = None
    if cause:
        verdict = failures.Verdict(failures.Cause(cause), failures.Scope.USER, failures.Action.CHANGE,
                                   failures.Certainty.LIKELY, log, root=log)  # fmt: skip
        said = failures.Diagnosis(verdict, (failures.Evidence(log),),
                                   advice=(failures.Advice("mend it"),))  # fmt: skip
    facts = container_facts.Facts(one, NOW, events=events, log=said)
    found = container_verdicts.judge(facts)
    view = post_mortem.LogView(log.encode())
    return classic_container.render(
        post_mortem.to_json(post_mortem.PostMortem(one, found, (NOW - 120, NOW), log=view))
    )


def dead(code: int, **more) -> dict[str, object]:
    return {"exit_code": code, **more}


NO_SPACE = {"log": "No space left on device", "cause": "disk_full"}


@pytest.mark.parametrize(
    ("seen", "arrow", "headline"),
    [
        (dead(0), "Container exited normally", "✅ No failure"),
        (dead(1), "Abnormal exit", "⚠️  Exit code 1 - unknown"),
        (dead(137, events=OOM), "Container was KILLED (SIGKILL) by the OOM killer", "🔴 CAUSE: Out of Memory (OOM)"),
        (dead(137, oom_flag=True), "Container was KILLED (SIGKILL) - likely by the OOM killer",
         "🔴 LIKELY CAUSE: Out of Memory (OOM)"),
        (dead(137), "Container was KILLED (SIGKILL) - OOM or manual kill, not proven", "⚠️  Exit code 137 - killed"),
        (dead(139), "Segmentation fault", "🔴 LIKELY CAUSE: Segmentation fault"),
        (dead(143), "Terminated (SIGTERM)", "🔴 LIKELY CAUSE: Ended on request"),
        (dead(1, **NO_SPACE), "Abnormal exit", "🔴 LIKELY CAUSE: Disk Full"),
        (dead(1, log="CUDA out of memory", cause="gpu_oom"), "Abnormal exit", "🔴 LIKELY CAUSE: GPU Out of Memory"),
        (dead(1, log="RuntimeError: CUDA error", cause="cuda_error"), "Abnormal exit", "🔴 LIKELY CAUSE: CUDA error"),
        ({"status": "running", "exit_code": None, "finished_at": None}, "Container is running", "✅ No failure"),
    ],
    ids=["end", "one", "killed for memory", "flag alone", "killed", "segfault", "sigterm", "disk", "gpu memory",
         "cuda", "running"],
)  # fmt: skip
def test_each_end_has_its_arrow_its_headline_and_what_to_do(seen, arrow, headline) -> None:
    lines = render(**seen).splitlines()
    assert f"  → {arrow}" in lines
    assert headline in lines
    assert ("Solutions:" in lines) == ("No failure" not in headline), "segfault and SIGTERM too"


def test_a_full_disk_beside_a_kill_is_not_hidden_and_one_kill_is_told_once() -> None:
    lines = render(events=OOM, **dead(137, **NO_SPACE)).splitlines()
    assert lines.count("   - Docker event: oom (6 times)") == 1
    at = lines.index("🔴 CAUSE: Out of Memory (OOM)")
    assert any("disk_full" in line for line in lines[at:]), lines
