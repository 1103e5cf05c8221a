"""Puts `record` together: looks, files in their forms, and the end by a signal."""

import glob
import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runward.app import record
from runward.core import box as values
from runward.core import durations, errors
from runward.probes import training_memory
from runward.store import record_files
from runward.ui import text_box
from runward.wiring import box, box_records, clock, looking, supervisor


@dataclass(frozen=True, slots=True)
class Options:
    """What `runward record` was asked."""

    folder: str
    plan: record.Plan
    what: box.What
    form: str = "text"
    """`text`, `classic` or `tsv`."""
    rotate: int = 50_000_000
    keep: int = 5
    compress: bool = True
    echo: Callable[[str], None] | None = None
    main: str = "src.train"


def run(options: Options, said: Callable[[str], None]) -> int:
    """Record until SIGINT, SIGTERM or the count; returns the number of snapshots."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    stem = os.path.join(options.folder, f"runner-{socket.gethostname()}-{stamp}")
    if options.what.run is not None:
        _known(options.what.run)
    looker = box.Looker(options.what)
    form, ending = _form(options)
    text = _open(options, stem + ending)
    files: list[tuple[record_files.RotatingFile, Callable[[Any], str]]] = [(text, form)]
    if options.form == "tsv":
        head = "\t".join(text_box.TSV_HEAD) + "\n"
        text.write(head)
        if options.echo is not None:
            options.echo(head)
    else:
        files.append((_open(options, stem + ".jsonl"), _json))
        box_records.announce(stem + ".jsonl", options.what.run)
    if options.form == "classic":
        said(text_box.classic_banner(socket.gethostname(), time.time(), stem + ending))
    said(f"recording to {stem}{ending}" + ("" if options.form == "tsv" else " and .jsonl"))
    over = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: over.set()) for number in (signal.SIGINT, signal.SIGTERM)
    }
    manager = supervisor.Supervisor()
    sink = _Sink(record_files.RecordFiles(files), form, options.echo, manager, said)
    manager.ready(f"recording to {stem}{ending}", period_s=options.plan.interval_s)
    try:
        return record.record(options.plan, looker.look, sink, clock.SystemClock(), over.wait)
    finally:
        manager.stopping()
        for number, handler in before.items():
            signal.signal(number, handler)
        sink.files.close()
        looker.close()


def _known(name: str) -> None:
    """A misspelt name would be a record that is never joined. Raises NotFound."""
    store = looking.open_store()
    try:
        looking.find(store, name)
    finally:
        store.close()


@dataclass
class _Sink:
    """Keeps a snapshot, shows it, and tells the service manager that one more was kept."""

    files: record_files.RecordFiles
    form: Callable[[values.Snapshot], str]
    echo: Callable[[str], None] | None
    manager: supervisor.Supervisor
    said: Callable[[str], None]
    kept: int = 0
    lost: int = 0

    def write(self, snapshot: values.Snapshot) -> None:
        if self.echo is not None:
            self.echo(self.form(snapshot))
        try:
            self.files.write(snapshot)
        except OSError as error:
            # A full disk is what a record is wanted for: it goes on, and is told by its gap.
            self.lost += 1
            if self.lost == 1:
                self.said(f"a snapshot could not be kept: {error.strerror}; trying again at each look")
            return
        if self.lost:
            self.said(f"snapshots are kept again; {self.lost} were lost")
        self.kept, self.lost = self.kept + 1, 0
        self.manager.progressed(f"snapshots kept: {self.kept}")


def _open(options: Options, path: str) -> record_files.RotatingFile:
    try:
        return record_files.RotatingFile(path, options.rotate, options.keep, compress=options.compress)
    except OSError as error:
        raise errors.UsageError(errors.Problem(f"cannot write: {error.strerror}", where=path)) from error


def _json(snapshot: values.Snapshot) -> str:
    return json.dumps(snapshot.to_json(), separators=(",", ":")) + "\n"


def _form(options: Options) -> tuple[Callable[[values.Snapshot], str], str]:
    match options.form:
        case "classic":
            return text_box.classic, ".log"
        case "tsv":
            return lambda snapshot: _row(snapshot, options.main), ".tsv"
        case _:
            return text_box.plain, ".log"


def _row(snapshot: values.Snapshot, main: str) -> str:
    row = training_memory.read(main)
    gpu = snapshot.gpus[0] if snapshot.gpus else None
    return text_box.tsv(
        snapshot.at,
        (
            *(row.cgroup_gb, snapshot.cpu, row.main_pid, row.main_rss_gb, row.main_threads, row.main_fds),
            *(row.pythons, row.pythons_rss_gb, row.tracker_pid, row.tracker_rss_gb),
            *(gpu.util if gpu else None, gpu.mem_used_mib if gpu else None),
        ),
    )


def show(path: str, instant: str) -> tuple[values.Snapshot, float]:
    """What was going on then: the newest snapshot not after it, and its distance in seconds (negative: after it).

    `path`: a record's .jsonl file, or the folder of several. Raises UsageError, NotFound.
    """
    files = sorted(glob.glob(os.path.join(glob.escape(path), "*.jsonl"))) if os.path.isdir(path) else [path]
    try:
        newest = max((last["epoch"] for file in files if (last := record_files.last(file))), default=None)
        if newest is None:
            raise errors.UsageError(
                errors.Problem(
                    "no snapshot in it: name the .jsonl file of a record, or its folder", where=path
                )
            )
        wanted = _instant(instant, newest)
        found = [answer for file in files if (answer := record_files.at(file, wanted)) is not None]
    except OSError as error:
        raise errors.NotFound(errors.Problem(error.strerror or str(error), where=path)) from error
    value, distance = min(found, key=lambda answer: (answer[1] < 0, abs(answer[1])))
    return values.from_json(value), distance


def _instant(text: str, last: float) -> float:
    """An ISO time, seconds of the epoch, or a time of day: its last occurrence before the record's end."""
    from datetime import datetime

    if re.fullmatch(r"\d{9,10}(\.\d+)?", text):
        return float(text)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        parsed = None
    if parsed is not None and len(text) > 8:
        return parsed.timestamp()
    for form in ("%H:%M:%S", "%H:%M"):
        try:
            clock_time = time.strptime(text, form)
        except ValueError:
            continue
        day = time.localtime(last)
        found = time.mktime((*day[:3], clock_time.tm_hour, clock_time.tm_min, clock_time.tm_sec, 0, 0, -1))
        return found if found <= last + 60 else found - 86400
    try:
        return last - durations.parse_duration(text.removesuffix("ago").strip())
    except ValueError:
        raise errors.UsageError(
            errors.Problem(
                f"{text!r} is no time", where="--at", next_step="Write 03:12, 2026-01-31T03:12 or 10m."
            )
        ) from None
