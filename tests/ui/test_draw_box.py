"""The page of a box: what is bad is seen at once, what is not known is not zero, and it fits."""

import pytest

from runward.core import box
from runward.ui import draw_box, view_box

G = 1 << 30


def snapshot(used: int = 50, **more) -> box.Snapshot:
    memory = box.Memory(100 * G, (100 - used) * G, used * G)
    return box.Snapshot(at=0.0, host="runner", memory=memory, cores=8, **more)


@pytest.mark.parametrize(("used", "dot"), [(75, "🟢"), (76, "🟡"), (90, "🟡"), (91, "🔴")])
def test_the_memory_bar_has_the_colour_that_it_deserves(used, dot) -> None:
    text = draw_box.draw(view_box.page(snapshot(used)), draw_box.Style(colour=False), 5)
    line = next(line for line in text.splitlines() if line.startswith("Usage:"))
    assert dot in line
    assert line.count("█") == used // 2
    assert line.count("█") + line.count("░") == 50


def test_kills_for_memory_are_a_panel_only_when_there_were_some() -> None:
    assert "OOM KILLER" not in draw_box.draw(view_box.page(snapshot(oom_total=0)), draw_box.Style(), 5)
    page = view_box.page(snapshot(oom_total=4), ["one", "two", "three", "four"])
    text = draw_box.draw(page, draw_box.Style(), 5)
    assert "OOM KILLER EVENTS: 4" in text
    assert "\none\n" not in text
    assert "\nfour\n" in text


def test_containers_are_shown_by_their_memory_and_unknown_use_is_not_zero() -> None:
    uses = (
        box.ContainerUse("a" * 64, "small", "i", "Up", 1.0, G, 2 * G),
        box.ContainerUse("b" * 64, "new", "i", "Up"),
    )
    text = draw_box.draw(view_box.page(snapshot(containers=uses)), draw_box.Style(colour=False), 5)
    assert text.index("small") < text.index("new")
    assert "N/A" in next(line for line in text.splitlines() if "new" in line)


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_and_no_page_taller_than_the_window(width) -> None:
    uses = tuple(
        box.ContainerUse(f"{n:064}", f"name{n}", "image" * 9, "Up", 1.0, n * G, G) for n in range(60)
    )
    style = draw_box.Style(colour=False, ascii=True, width=width, height=24)
    lines = draw_box.draw(view_box.page(snapshot(containers=uses)), style, 5).splitlines()
    assert len(lines) == 24
    assert max(map(len, lines)) <= width
    assert lines[-1].startswith("...")
    assert all(line.isascii() for line in lines)


def test_what_cannot_be_seen_is_said_in_its_place() -> None:
    page = view_box.page(
        snapshot(blind=("GPUs: nvidia-smi is not installed", "containers: no engine", "disk /x: gone"))
    )
    text = draw_box.draw(page, draw_box.Style(colour=False), 5)
    assert text.count("nvidia-smi is not installed") == 1
    assert "containers: no engine" in text
    assert "not observable: disk /x: gone" in text


def test_the_classic_page_has_the_columns_of_the_shell_dashboard() -> None:
    uses = (box.ContainerUse("a" * 64, "name-of-it", "img", "Up 2 minutes (Paused)", 1.0, G, 2 * G),)
    gpus = tuple(box.Gpu(n, f"H100-{n}", util) for n, util in enumerate((81.0, 51.0, 50.0, None)))
    page = view_box.page(snapshot(containers=uses, gpus=gpus), classic=True)
    lines = draw_box.draw(page, draw_box.Style(colour=False, classic=True), 5).splitlines()
    assert lines[0].startswith("── GPU RUNNER DASHBOARD - runner")
    assert next(line for line in lines if "available" in line and "total" in line).split() == [
        "total", "used", "free", "available",
    ]  # fmt: skip
    at = lines.index("Active containers: 1")
    assert lines[at + 1].split() == ["ID", "Image", "Status", "CPU%", "Memory"]
    assert "name-of-it" not in lines[at + 2]
    assert [line.split()[-1] for line in lines if "H100" in line] == ["🔥", "⚙️", "💤", "💤"]


@pytest.mark.parametrize("classic", [False, True], ids=["page", "classic"])
def test_a_narrow_window_cuts_words_and_no_figures(classic) -> None:
    use = box.ContainerUse(
        "a" * 64, "a-name-of-some-length", "registry/image:tag", "Up 2 minutes (Paused)", 12.5, G, 2 * G
    )
    page = view_box.page(snapshot(containers=(use,)), classic=classic)
    text = draw_box.draw(page, draw_box.Style(colour=False, width=80), 5)
    row = next(line for line in text.splitlines() if line.startswith("aaaa"))
    assert row.endswith("12.5%  1.0 GiB / 2.0 GiB")
    assert len(row) <= 80
