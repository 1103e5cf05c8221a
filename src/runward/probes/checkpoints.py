"""Watches a directory of checkpoints from outside: verdicts, growth, and background verification.

All looking is done in child processes: one answers about the directory, a second one at idle priority reads
checksums at a bounded rate. A mount that does not answer is said in `problem`; nothing here blocks on it.
"""

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from runward.checkpoint_readers import scanner
from runward.core import checkpoints
from runward.probes import checkpoint_child, checkpoint_marks

_LOOK_EVERY_S: Final = 3.0
_LOOK_AT_LEAST_EVERY_S: Final = 15.0
_SHARE: Final = 200.0
"""A look is followed by a pause of so many times its own duration: half a percent of a core."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How much may be read."""

    rate: float = 200e6
    """Bytes a second of background verification (`--verify-rate`); 0 is unlimited."""
    on_network: bool = False
    """Whether checksums are read on network mounts too."""
    hash_checkpoints: bool = False
    """Whether hashes are taken when a checkpoint is first complete (`--hash-checkpoints`)."""
    settle_s: float = 10.0
    """A checkpoint that changed within this time is being written."""
    silent_s: float = 30.0
    """A directory that gave no answer for so long does not answer."""


def from_record(record: Mapping[str, Any]) -> checkpoints.Checkpoint:
    """One row of a scan as a value of the core."""
    step, quarantined = record.get("step"), record.get("quarantined")
    return checkpoints.Checkpoint(
        path=str(record["path"]),
        step=int(step) if step is not None else None,
        at=float(record["at"]),
        state=checkpoints.State(record["state"]),
        reason=str(record.get("reason") or ""),
        depth=checkpoints.Depth(record["verified"]),
        kind=str(record.get("kind") or ""),
        bytes=int(record.get("bytes") or 0),
        quarantined=str(quarantined) if quarantined else None,
        fingerprint=str(record.get("fingerprint") or ""),
    )


def from_report(report: Mapping[str, Any]) -> checkpoints.Listing:
    """A whole scan as a value of the core."""
    directory = str(report["directory"])
    pointers = tuple(
        checkpoints.Pointer(
            os.path.join(directory, row["name"]),
            checkpoints.Form(row["form"]),
            str(row["value"]),
            row["target"],
            str(row["problem"]),
        )
        for row in report["pointers"]
    )
    found = tuple(from_record(row) for row in report["checkpoints"])
    return checkpoints.Listing(directory, found, pointers, str(report["problem"]), not report["listed"])


def look(directory: str, *, depth: str = "structure") -> checkpoints.Listing:
    """One look from this process, to its end; `depth` is names, structure or full."""
    return from_report(scanner.scan(directory, depth=depth))


class Watcher:
    """One run's checkpoint directory. Not thread-safe; `close` ends its children."""

    def __init__(self, directory: str, state_dir: str, settings: Settings | None = None) -> None:
        self._directory = os.path.abspath(directory)
        self._settings = settings or Settings()
        self._cache = os.path.join(state_dir, "checkpoint_verdicts.json")
        self._marks = checkpoint_marks.Marks(os.path.join(state_dir, "quarantined.json"))
        self._scout: checkpoint_child.Child | None = None
        self._verifier: checkpoint_child.Child | None = None
        self._verifying = ""
        self._tried: set[str] = set()
        self._learnt: list[tuple[object, object]] = []
        self._seen = checkpoints.Listing(self._directory)
        self._judged = self._seen
        self._changed: dict[str, tuple[str, float]] = {}
        self._grown = 0
        self._due = 0.0
        self.network: str | None = None
        """Type of the network file system that holds the directory: no checksums are read there unasked."""
        self.problem = ""
        """Why the directory cannot be seen now; empty while it can."""
        self._unanswered = False

    def poll(
        self, now: float, alive: bool, nonfinite_since: float | None
    ) -> tuple[checkpoints.Checkpoint, ...]:
        """The newest known verdicts, oldest checkpoint first. Never blocks.

        `now` is wall time; `alive`: a process of the attempt lives; `nonfinite_since`: when the loss was
        first not finite.
        """
        self._collect(now)
        self._ask()
        rows = self._judge(now, alive, nonfinite_since)
        self._verify(rows)
        return rows

    def listing(self) -> checkpoints.Listing:
        """The directory with its pointers, as the last `poll` or `verify_for_restart` judged it."""
        return self._judged

    def growth(self) -> int:
        """Bytes that the directory gained since the last call, temporary files included."""
        grown, self._grown = self._grown, 0
        return grown

    def verify_for_restart(
        self, budget_s: float, nonfinite_since: float | None = None
    ) -> tuple[checkpoints.Checkpoint, ...]:
        """A fresh look now that the attempt is gone; reads what is not verified for at most `budget_s`.

        Blocks for at most that and 30 s more; when the directory does not answer, `problem` says so and the
        verdicts are the last known ones.
        """
        self._stop_verifier()
        if self._scout is not None and self._scout.asked and self._scout.wait(1.0) is None:
            self._drop_scout()
        scout, learnt = self._scouting(), self._learnt
        self._learnt = []
        asked = {"op": "restart", "directory": self._directory, "budget_s": budget_s, "learn": learnt}
        sent = scout.ask({**asked, "network": self._settings.on_network})
        self._take(scout.wait(budget_s + self._settings.silent_s) if sent else None, time.time())
        return self._judge(time.time(), alive=False, nonfinite_since=nonfinite_since)

    def mark(self, checkpoint: checkpoints.Checkpoint, why: str) -> None:
        """Set a checkpoint aside for this run, in its present state only; survives this process, disk permitting."""
        with contextlib.suppress(OSError):
            self._marks.add(checkpoint.path, checkpoint.fingerprint, why)

    def close(self) -> None:
        """End both children."""
        self._stop_verifier()
        self._drop_scout()

    def _collect(self, now: float) -> None:
        """Take what the children answered meanwhile."""
        scout, verifier = self._scout, self._verifier
        if scout is not None and scout.asked:
            answer = scout.wait(0.0)
            if answer is not None or not scout.alive:
                self._take(answer, now)
            elif scout.silent_for > self._settings.silent_s:
                self._silent(f"the file system has not answered for {self._settings.silent_s:g} s")
        if verifier is not None:
            answer = verifier.wait(0.0)
            if answer is not None and "reading" in answer:
                self._learnt.append((answer["key"], answer["reading"]))
                self._due = 0.0
            if answer is not None or not verifier.alive:
                self._verifying = ""  # what ended its reader once is not tried again
                self._stop_verifier()

    def _take(self, answer: Mapping[str, Any] | None, now: float) -> None:
        """One report of the scout."""
        if answer is None or "checkpoints" not in answer:
            why = answer.get("error") if answer else "the look at it ended or took too long"
            self._silent(str(why))
            self._drop_scout()
            self._due = time.monotonic() + self._settings.silent_s
            return
        self._seen, self._unanswered = from_report(answer), False
        self.problem = f"{self._directory}: {self._seen.problem}" if self._seen.problem else ""
        self.network = answer["network"]
        self._grown += int(answer["grown"])
        took = self._scout.took if self._scout is not None else 0.0
        self._due = time.monotonic() + min(max(_LOOK_EVERY_S, _SHARE * took), _LOOK_AT_LEAST_EVERY_S)
        before, self._changed = self._changed, {}
        for row in self._seen.checkpoints:
            fingerprint, since = before.get(row.path, (row.fingerprint, min(row.at, now)))
            self._changed[row.path] = (row.fingerprint, since if fingerprint == row.fingerprint else now)

    def _silent(self, why: str) -> None:
        self.problem, self._unanswered = f"{self._directory}: {why}", True

    def _ask(self) -> None:
        """Send the next look when it is due and none is on its way."""
        if time.monotonic() < self._due or (self._scout is not None and self._scout.asked):
            return
        learnt, self._learnt = self._learnt, []
        if not self._scouting().ask({"op": "scan", "directory": self._directory, "learn": learnt}):
            self._take(None, 0.0)

    def _judge(
        self, now: float, alive: bool, nonfinite_since: float | None
    ) -> tuple[checkpoints.Checkpoint, ...]:
        """The verdicts with what only a watcher knows: who lives, when the loss broke, what was set aside."""
        rows = tuple(self._judged_row(row, now, alive, nonfinite_since) for row in self._seen.checkpoints)
        blind = self._seen.blind or self._unanswered
        self._judged = replace(self._seen, checkpoints=rows, problem=self.problem, blind=blind)
        return rows

    def _judged_row(
        self, row: checkpoints.Checkpoint, now: float, alive: bool, nonfinite_since: float | None
    ) -> checkpoints.Checkpoint:
        since = self._changed.get(row.path, ("", min(row.at, now)))[1]
        why = self._marks.why(row.path, row.fingerprint)
        if why is not None:
            row = replace(row, quarantined=why)
        if alive and not row.renamed and now - since < self._settings.settle_s:
            return replace(
                row,
                state=checkpoints.State.WRITING,
                reason=f"changed in the last {self._settings.settle_s:g} s",
            )
        late = nonfinite_since is not None and row.at > nonfinite_since
        if late and row.state is checkpoints.State.COMPLETE:
            return replace(
                row, state=checkpoints.State.SUSPECT, reason="written after the loss was not finite"
            )
        return row

    def _verify(self, rows: Sequence[checkpoints.Checkpoint]) -> None:
        """Start reading the newest complete checkpoint whose checksums were not read yet."""
        if self._verifier is not None or (self.network and not self._settings.on_network):
            return
        wanted = {checkpoints.Depth.PENDING}
        if self._settings.hash_checkpoints:
            wanted |= {checkpoints.Depth.STRUCTURE, checkpoints.Depth.FULL}
        for row in reversed(rows):
            if row.usable and row.depth in wanted and row.fingerprint not in self._tried:
                self._tried.add(row.fingerprint)
                self._verifying = row.fingerprint
                self._verifier = checkpoint_child.Child("idle")
                asked = {"op": "read", "path": row.path, "rate": self._settings.rate}
                known = row.depth is checkpoints.Depth.FULL
                self._verifier.ask({**asked, "hash": self._settings.hash_checkpoints, "known": known})
                return

    def _scouting(self) -> checkpoint_child.Child:
        if self._scout is None or not self._scout.alive:
            self._drop_scout()
            self._scout = checkpoint_child.Child("normal", self._cache)
        return self._scout

    def _drop_scout(self) -> None:
        if self._scout is not None:
            self._scout.close()
            self._scout = None

    def _stop_verifier(self) -> None:
        """End it; what it was reading may be tried again."""
        if self._verifier is not None:
            self._tried.discard(self._verifying)
            self._verifier.close()
            self._verifier = None
