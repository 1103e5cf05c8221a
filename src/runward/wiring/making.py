"""A new run, made from what was asked: its row, what its folder keeps, and the first words of its journal."""

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from runward import ports
from runward.config import policy_files
from runward.core import checkpoints, events, options
from runward.store import folders, sqlite
from runward.wiring import clock, places


def make(
    store: sqlite.SqliteStore,
    asked: options.RunOptions,
    keep: Callable[[], None],
    first: checkpoints.Checkpoint | None = None,
    adopted: Sequence[events.Event] = (),
) -> ports.RunRow:
    """Make it while nobody else makes one (see `claiming.alone`); what fails leaves no run behind.

    `keep` writes down what its place needs: before the journal begins, since whoever reads a run there may watch it.
    `first` is what attempt 1 resumes from; `adopted` are the events of an attempt that lives already.
    """
    row = store.create(asked.name, clock.SystemClock().wall())
    try:
        folders.write(places.run_dir(asked.name), folders.OPTIONS, _with_policy(asked).to_json())
        keep()
        store.append(row.id, [_created(row, asked, first, adopted=bool(adopted)), *adopted], 0)
    except BaseException:
        with contextlib.suppress(ports.StoreUnavailable):  # then the next making of that name does it
            store.take_back(asked.name)
        raise
    return row


def _created(
    row: ports.RunRow, asked: options.RunOptions, first: checkpoints.Checkpoint | None, *, adopted: bool
) -> events.RunCreated:
    return events.RunCreated(
        at=row.created_at,
        run=asked.name,
        backend=asked.backend,
        policy=policy_files.choose_any(asked.settings.run.policy).name,
        target=asked.target if adopted else "",
        checkpoints=asked.checkpoints,
        observe_only=asked.observe_only,
        resume_path=first.path if first is not None else None,
        resume_step=first.step if first is not None else None,
    )


def _with_policy(asked: options.RunOptions) -> options.RunOptions:
    """A policy file is copied beside the run: later watchers must decide as the first one."""
    text = policy_files.frozen(asked.settings.run.policy)
    if text is None:
        return asked
    copy = os.path.join(places.run_dir(asked.name), "policy.yaml")
    with open(copy, "w", encoding="utf-8") as file:
        file.write(text)
    return replace(asked, policy_file=copy)
