"""Handbooks: written beside a run with every event, kept for chains, and copied from far boxes."""

import os
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any

from runward.core import durations, errors, options, resume
from runward.store import folders
from runward.ui import handbook
from runward.wiring import far, far_asking, places, saying


def of_run(name: str, body: Mapping[str, Any]) -> str:
    """The page of a run here, from its status."""
    kept = folders.read(places.run_dir(name), folders.OPTIONS)
    asked = options.from_json(kept) if kept is not None else None
    return handbook.page(body, about(name, asked))


def about(name: str, asked: options.RunOptions | None) -> handbook.About:
    """What a run's page says beside its status."""
    if asked is None:
        return handbook.About(socket.gethostname(), places.run_dir(name))
    return handbook.About(
        host=socket.gethostname(),
        folder=places.run_dir(name),
        argv=asked.argv,
        cwd=asked.cwd,
        checkpoints=asked.checkpoints,
        how=resume.How.of(asked.resume_arg, asked.resume_by),
    )


def keep_chain(log: str, text: str) -> None:
    """Write a chain's page beside its log, and among our own. A disk that is full stops no chain."""
    for path in (f"{log}.handbook.md", os.path.join(_folder("chains"), far.safe_name(log) + ".md")):
        try:
            folders.write_text(path, text)
        except OSError:
            continue


def keep_copies(box: str, pages: Mapping[str, str], now: float) -> None:
    """Keep what a far box's handbooks say; a box that says nothing leaves the older copies."""
    for name, text in pages.items():
        head = f"<!-- copied from {box} at {durations.iso(now)} -->\n"
        folders.write_text(
            os.path.join(_folder(far.safe_name(box)), far.safe_name(name) + ".md"), head + text
        )


def kept() -> Iterator[str]:
    """Pages of chains here and copies of far boxes, in the order of their names."""
    top = far.folder("handbooks")
    for where in sorted(os.listdir(top)):
        for name in sorted(os.listdir(os.path.join(top, where))):
            if name.endswith(".md"):
                with open(os.path.join(top, where, name), encoding="utf-8", errors="replace") as file:
                    yield file.read(1 << 20)


def here(run: str) -> str:
    """The page of a run of this machine. Raises NotFound, which names a far box that has a run of that name."""
    from runward.wiring import looking

    try:
        return of_run(run, looking.status(run))
    except errors.NotFound:
        top, page = far.folder("handbooks"), far.safe_name(run) + ".md"
        boxes = [box for box in sorted(os.listdir(top)) if os.path.exists(os.path.join(top, box, page))]
        if not boxes:
            raise
        problem = errors.Problem(f"no run {run!r} here", next_step=f"runward handbook ssh:{boxes[0]}/{run}")
        raise errors.NotFound(problem) from None


def there(host: str, run: str) -> str:
    """The page of a run of a far box; the copy that is kept here when the box does not answer.

    Raises NotFound for a run that is none, Unreachable when there is no copy either.
    """
    try:
        done = far_asking.ask(host, ("handbook", run))
    except errors.Unreachable:
        path = os.path.join(_folder(far.safe_name(host)), far.safe_name(run) + ".md")
        if not os.path.exists(path):
            raise
        age = durations.format_duration(max(0.0, time.time() - os.stat(path).st_mtime))
        saying.say(f"{host} does not answer; this is the copy of {age} ago")
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    if done.code != 0:
        raise errors.NotFound(errors.Problem(done.stderr.decode("utf-8", "replace").strip()[-300:], host))
    keep_copies(host, {run: done.text}, time.time())
    return done.text


def _folder(name: str) -> str:
    path = os.path.join(far.folder("handbooks"), name)
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path
