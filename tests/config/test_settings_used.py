"""A setting that is read and checked but changes nothing would be a lie."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

import runward
from runward.core import options, settings, stall
from runward.wiring import clock, place, watching

SOURCE = Path(runward.__file__).parent
WHERE_THEY_ARE_READ_FROM_FILES = {SOURCE / "core/settings.py", SOURCE / "config/setting_files.py"}


def every_setting():
    made = settings.Settings()
    return [
        (section.name, slot.name) for section in fields(made) for slot in fields(getattr(made, section.name))
    ]


@pytest.fixture(scope="module")
def text():
    return "\n".join(
        path.read_text() for path in SOURCE.rglob("*.py") if path not in WHERE_THEY_ARE_READ_FROM_FILES
    )


@pytest.mark.parametrize(("section", "name"), every_setting())
def test_every_setting_is_used(text, section, name):
    holder = re.findall(rf"\b(\w+) = \S*settings\.{section}\b", text)
    names = "|".join(rf"\b{one}" for one in {section, *holder})
    assert re.search(rf"(?:{names})\.{name}\b", text)


def test_silence_is_measured_by_the_ticks_of_the_place(tmp_path, monkeypatch):
    monkeypatch.setenv("RUNWARD_STATE_DIR", str(tmp_path))
    asked = options.RunOptions(name="a", argv=("true",), cwd="/", backend="slurm")
    parts = watching.Shared(store=None, clock=clock.SystemClock())
    parts.places[asked.name] = place.Place(backend=None, describe=None, tick_s=60.0)
    means = watching._means(None, asked, parts)
    watch = stall.begin(0.0)
    for now in (60.0, 120.0, 180.0):
        watch, _ = stall.tick(watch, means.stall, now)
        assert not stall._gap(watch, means.stall, now + 60.0)
