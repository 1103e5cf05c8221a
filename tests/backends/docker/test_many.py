"""A real engine with much to tell: a large log, and fifty containers at once."""

import json
import subprocess
import sys
from concurrent import futures

import pytest

from backends.docker import engine as engines
from runward.backends.docker import feed
from runward.core import job
from runward.wiring import box_page, container_reports

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]
until = engines.until
FIFTY = 50
PEAK = """
import os, sys
pid = os.spawnv(os.P_NOWAIT, sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(pid, 0)
open(sys.argv[1], "w").write(str(usage.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status))
"""
"""Leaves the most memory (KiB) that a command had. A child's figure begins with its parent's, so that must be small."""


def test_a_log_of_a_hundred_megabytes_is_diagnosed_by_its_end_in_little_memory(engine, tmp_path) -> None:
    fill = "yes $(head -c 4000 /dev/zero | tr '\\0' x) | head -c 100000000"
    container = engine.run(
        command=("sh", "-c", f"{fill}; echo; echo RuntimeError: CUDA out of memory; exit 1")
    )
    argv = [sys.executable, "-S", "-c", PEAK, str(tmp_path / "peak"), sys.executable, "-m", "runward"]
    done = subprocess.run(
        [*argv, "diagnose", f"docker:{container}", "--json"],
        env=engine.env,
        stdout=subprocess.PIPE,
        check=True,
    )
    assert json.loads(done.stdout)["verdict"]["cause"] == "gpu_oom"
    assert int((tmp_path / "peak").read_text()) < 120 << 10


def test_fifty_containers_at_once_are_seen_watched_and_explained(engine, monkeypatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", engine.address)
    argv = ("run", "-d", "--network", "none", "--memory", "40m", engines.IMAGE, "sleep", "1000")
    with futures.ThreadPoolExecutor(8) as pool:
        started = list(pool.map(lambda _: engine.docker(*argv).stdout.decode().strip(), range(FIFTY)))
    engine.made += started
    _on_the_page(started)
    _kept_at_hand(engine, started)
    docker = engine.backend()
    _polled_by_two_questions(docker, started)
    engine.docker("kill", *started)
    until(lambda: all(seen.state is job.JobState.CANCELLED for seen in docker.poll(started).values()))
    asked = container_reports.Asked("", form="json", all_dead=True)
    found = {
        one["container"]["id"]: one for one in json.loads(container_reports.answer(asked).out)["containers"]
    }
    assert set(started) <= set(found)
    # The engine remembers 256 events, less than these containers made: an end that it forgot is not guessed.
    causes = [found[one]["verdict"]["cause"] for one in started]
    assert set(causes) <= {"cancelled", "killed"}
    assert causes.count("cancelled") >= FIFTY - 5


def _on_the_page(started: list[str]) -> None:
    pages = box_page.Pages()
    try:
        page = pages.one()
    finally:
        pages.close()
    rows = {row[0]: row for table in page.tables for row in table.rows}
    assert all(rows[one[:12]][-1].endswith("/ 40.0 MiB") for one in started)


def _kept_at_hand(engine: engines.RealEngine, started: list[str]) -> None:
    kept = feed.Feed(engine.client())
    seen: dict[str, float | None] = {}
    try:
        until(lambda: seen.update((one.id, one.cpu) for one in kept.read()) or None not in seen.values())
    finally:
        kept.close()
    assert set(started) <= set(seen)


def _polled_by_two_questions(docker, started: list[str]) -> None:
    docker.poll(started)
    asked: list[str] = []
    raw = docker.engine.raw
    docker.engine.raw = lambda request: asked.append(request.path) or raw(request)
    # The edge of the last poll is looked at again: what happened then is inspected once more.
    until(lambda: asked.clear() or (docker.poll(started) and asked == ["/containers/json", "/events"]))
    docker.engine.raw = raw
