"""What running containers use, on a real engine; and the whole page of a box with them."""

import pytest

from backends.docker import engine as engines
from runward.backends.docker import feed, usage
from runward.core import box as values
from runward.probes import cgroups
from runward.wiring import box, box_containers, box_page

pytestmark = pytest.mark.docker


@pytest.mark.parametrize(
    "counters", [None, cgroups.Cgroups().counted], ids=["of the engine", "of this machine"]
)
def test_the_use_of_many_containers_comes_in_one_look(engine, counters) -> None:
    made = {engine.run("--memory", "40m", command=("sleep", "1000"), wait=False) for _ in range(6)}
    ended = engine.run(command=("true",))
    found = {one.id: one for one in usage.read(engine.client(), counters)}
    assert set(found) >= made
    assert ended not in found
    for container in made:
        assert 0 < (found[container].memory or 0) < 40 << 20
        assert found[container].memory_limit == 40 << 20
        assert found[container].cpu_ns


@pytest.mark.parametrize("askers", [None, 3], ids=["a stream each", "a few ask in turn"])
def test_a_feed_knows_the_newest_of_each_container_without_asking_for_it(engine, askers) -> None:
    made = [engine.run("--memory", "40m", command=("sleep", "1000"), wait=False) for _ in range(5)]
    busy = engine.run(command=("sh", "-c", "while :; do :; done"), wait=False)
    kept = feed.Feed(engine.client(), askers)
    seen: dict[str, values.ContainerUse] = {}

    def known() -> bool:
        seen.clear()
        seen.update({one.id: one for one in kept.read()})
        return all(seen[one].cpu is not None for one in (*made, busy)) and (seen[busy].cpu or 0) > 5

    try:
        engines.until(known)
        assert all(0 < (seen[one].memory or 0) < 40 << 20 for one in made)
        assert all((seen[one].cpu or 0) < (seen[busy].cpu or 0) for one in made)
        later = engine.run("--memory", "40m", command=("sleep", "1000"), wait=False)
        engine.docker("rm", "-f", made.pop())
        made.append(later)
        engines.until(known)
        assert set(seen) == {*made, busy}
    finally:
        kept.close()
    engines.until(lambda: not any(thread.is_alive() for thread in kept._threads))


def test_a_busy_container_is_told_from_an_idle_one(engine, monkeypatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", engine.address)
    busy = engine.run(command=("sh", "-c", "while :; do :; done"), wait=False)
    idle = engine.run(command=("sleep", "1000"), wait=False)
    looker = box.Looker(box.What(gpus=False, processes=0, daemon_errors=False))
    try:
        looker.look()
        seen: dict[str, values.ContainerUse] = {}

        def told() -> bool:
            seen.update({one.id: one for one in looker.look().containers})
            return (seen[busy].cpu or 0) > 5

        engines.until(told)
        assert (seen[idle].cpu or 0) < (seen[busy].cpu or 0)
    finally:
        looker.close()


@pytest.mark.parametrize("often", [False, True], ids=["record", "page"])
def test_where_the_cgroups_are_not_to_be_seen_the_engine_is_asked(engine, tmp_path, often) -> None:
    """As from within a container that was given the engine's socket."""
    container = engine.run("--memory", "40m", command=("sleep", "1000"), wait=False)
    looked = box_containers.Containers(
        {"DOCKER_HOST": engine.address}, cgroups.Cgroups(str(tmp_path)), often=often
    )
    try:
        engines.until(lambda: {one.id: one.memory or 0 for one in looked.look()}[container] > 0)
    finally:
        looked.close()


def test_the_page_names_the_containers(engine, monkeypatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", engine.address)
    engine.run("--name", "rw-on-the-page", command=("sleep", "1000"), wait=False)
    pages = box_page.Pages()
    try:
        page = pages.one()
    finally:
        pages.close()
    assert any("rw-on-the-page" in row for table in page.tables for row in table.rows)


def test_a_shared_network_and_a_missing_limit_are_unknown_and_no_network_is_zero(engine) -> None:
    alone = engine.run("--memory", "40m", command=("sleep", "1000"), wait=False)
    started = engine.docker("run", "-d", "--network", "host", engines.IMAGE, "sleep", "1000")
    shared = started.stdout.decode().strip()
    engine.made.append(shared)
    look = cgroups.Cgroups().counted
    assert (look(alone).net_in, look(alone).net_out) == (0, 0)
    assert (look(shared).net_in, look(shared).net_out) == (None, None)
    assert look(shared).memory_limit is None
    assert look("0" * 64) == values.Counted()


def test_a_kill_for_memory_is_on_the_page_with_the_kernels_words(engine, monkeypatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", engine.address)
    engine.run("--memory", "30m", "--memory-swap", "30m", command=("sh", "-c", "exec tail /dev/zero"))
    pages = box_page.Pages()
    try:
        page = pages.one()
    finally:
        pages.close()
    assert page.oom[0].endswith("since boot")
    assert any("Killed process" in line and "(tail)" in line for line in page.oom[1:])
