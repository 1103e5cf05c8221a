"""Links of the documentation lead somewhere, and what it shows of the command line exists."""

import pathlib
import re

import pytest

from runward.cli import entry

ROOT = pathlib.Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_verbs_that_are_shown_exist(page):
    shown = set(re.findall(r"(?:^|`|\$ )runward ([a-z][a-z-]+)", page.read_text(), re.MULTILINE))
    assert shown - set(entry.VERBS) == set()
