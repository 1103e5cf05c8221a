"""The pages of `runward serve`: the words of `ps` and `status`, nothing green that is not seen, and no text that is markup."""

import re

import pytest

from fakes import shown_runs
from fakes.shown_runs import HOSTILE, MADE, NOW, row, status
from runward.ui import markup, sight, text, view_box
from runward.ui.web import page_box, page_run, page_runs, shell

TAG = re.compile(r"<[^>]*>")


def cells(name):
    html = page_runs.main([row(name)], NOW, "/state")
    found = re.findall(r"<t([dh])([^>]*)>(.*?)</t\1>", html.partition("<tbody>")[2])
    return [TAG.sub(" ", inside).strip() for _, _, inside in found]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("seen", ["seen", "running", "30/60", "2.0 s/step", "4.0 s ago", "1", "-", "local:7", "77"]),
        ("unwatched", ["unwatched", "running  not seen", "30/60", "2.0 s/step", "4.0 s ago", "1", "nobody watches this run", "local:7", "none!"]),
        ("silent", ["silent", "running  not seen", "30/60", "2.0 s/step", "6 min 40 s ago", "1", "its watcher has not looked for 6 min 40 s", "local:7", "77 silent 6 min 40 s!"]),
        ("blind", ["blind", "running  not seen", "30/60", "2.0 s/step", "4.0 s ago", "1", "contact lost (says nothing about the run)", "local:7", "77"]),
        ("stalled", ["stalled", "running", "30/60", "2.0 s/step", "4.0 s ago", "1", "stalled", "local:7", "77"]),
        ("held", ["held", "held", "25/60", "-", "8 min 20 s ago", "1", "the same end again", "local:7", "-"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_the_table_says_of_a_run(name, said):
    assert cells(name) == said


@pytest.mark.parametrize("name", MADE)
def test_the_table_has_the_words_of_ps(name):
    line = text.ps([row(name)], NOW).splitlines()[1]
    shown = cells(name)
    said = [shown[0], shown[1].split()[0], *shown[2:3], shown[7], shown[8]]
    assert [word for word in said if word not in line] == []


@pytest.mark.parametrize(
    ("name", "tone"),
    [("seen", "good"), ("unwatched", "warn"), ("silent", "warn"), ("blind", "warn"), ("stalled", "warn"), ("held", "bad"), ("done", "good")],
)  # fmt: skip
def test_what_is_not_seen_or_does_not_move_is_never_green(name, tone):
    assert sight.tone(row(name), NOW) == sight.tone(status(name), NOW) == tone
    html = page_run.main(page_run.Told(status(name), [], shown_runs.log()), NOW)
    assert (f'class="state {tone}"' in html) is True
    assert ('class="state good"' in html) is (tone == "good")


def test_what_asks_for_a_look_stands_first_and_is_counted_in_the_title():
    rows = [row(name) for name in MADE]
    html = page_runs.main(rows, NOW, "/state")
    order = re.findall(r'href="runs/([^"]+)"', html)
    assert set(order[:4]) == {"unwatched", "silent", "blind", "stalled"}
    assert order[4] == "seen"
    assert page_runs.title(rows, NOW) == "3 not seen, 1 held, 5 running"


def test_thousands_of_ended_runs_make_no_endless_page():
    rows = [{**row("held"), "run": f"r{n}"} for n in range(3_000)] + [row("seen")]
    html = page_runs.main(rows, NOW, "/state")
    assert html.count("<tr") == 1 + 1 + page_runs.MOST_ENDED
    assert "2800 older runs are not shown" in html
    assert 'href="runs/r2999"' in html


def test_no_runs_name_the_place_that_was_looked_at():
    assert "No runs in /state." in page_runs.main([], NOW, "/state")


def test_the_page_of_a_run_says_what_status_says():
    body = status("held")
    html = page_run.main(page_run.Told(body, [], shown_runs.log("last words")), NOW)
    shown = " ".join(TAG.sub(" ", html).split())
    for line in text.status(body, NOW).splitlines()[1:]:
        assert " ".join(markup.text(line).split()) in shown, line
    assert "last words" in shown


@pytest.mark.parametrize("name", ["seen", "silent", "held"])
def test_hostile_words_are_text_and_secrets_are_masked(name):
    bodies = [{"kind": "note", "at": "2031", "text": HOSTILE}]
    html = page_run.main(page_run.Told(status(name), bodies, shown_runs.log(HOSTILE)), NOW)
    html = shell.page(shell.Frame(HOSTILE, NOW, HOSTILE), html)
    assert "<script>alert" not in html
    assert html.count("<script") == 1
    assert "hf_abc" not in html
    assert html.count("&lt;script&gt;") >= 4
    assert "style=" not in html, "the policy would refuse it"


def test_a_log_that_cannot_be_shown_says_how_to_read_it():
    html = page_run.log_end({"attempt": 2, "lines": [], "why": "runward logs demo -n 60"})
    assert "runward logs demo -n 60" in html


def test_an_endless_line_is_cut_and_an_attribute_holds_any_text():
    assert len(markup.text("x" * 1_000_000)) < 2_100
    assert markup.element("a", markup.text("x"), href='"><b>') == '<a href="&quot;&gt;&lt;b&gt;">x</a>'


@pytest.mark.parametrize(
    ("per_s", "said"), [(None, "-"), (0.0, "-"), (0.5, "2.0 s/step"), (2.0, "2/s"), (0.001, "16 min/step")]
)
def test_a_rate_reads_as_people_say_it(per_s, said):
    assert page_runs.rate(per_s) == said


def test_the_page_of_the_box_has_its_tables_and_what_was_not_seen():
    table = view_box.Table("DISKS", ("Path", "Use%"), (("/<x>", "9%"),))
    empty = view_box.Table("GPU STATUS", ("GPU",), (), "GPUs: nvidia-smi is not installed")
    page = view_box.Page("box", NOW, view_box.Bar(97, "bad", "9 of 10"), "cpu 3 %", (table, empty), ("2 since boot",), ("GPUs: none",))  # fmt: skip
    html = page_box.main(page)
    for part in ("/&lt;x&gt;", "nvidia-smi is not installed", "2 since boot", "Not observable", 'value="97"'):
        assert part in html


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_every_address_on_a_page_is_relative_so_that_a_proxy_may_add_a_prefix(depth):
    html = shell.page(shell.Frame("x", NOW, "/state", depth), markup.text("x"))
    found = re.findall(r'(?:href|src)="([^"]*)"', html)
    assert len(found) == 5
    assert [one for one in found if one.startswith(("/", "http")) or (depth and not one.startswith("../" * depth))] == []  # fmt: skip
