"""The attempt's own output files, bounded while the command writes to them.

Old pieces after the head are packed, `log.json` says so, and only then is their room given back; offsets stay
true. On a filling disk old output goes unpacked, before a `print` of the training can fail.
"""

from __future__ import annotations

import contextlib
import os

from runward.keeper import layout, outputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from runward.keeper import specs

_BLOCK = 4096
_SOON_FULL_S = 30.0
_RATE_OVER_S = 0.5
_NEAR = 4


def open_outputs(spec: specs.LogSpec) -> list[int]:
    """Append-only descriptors of the output files: one, or two when stderr is split off."""
    names = [layout.OUTPUT, layout.OUTPUT_ERR] if spec.split else [layout.OUTPUT]
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    return [os.open(os.path.join(spec.folder, name), flags, 0o644) for name in names]


class Bounded:
    """The logs of one attempt, and the reserve that is given up for them."""

    def __init__(self, folder: str, spec: specs.LogSpec, descriptors: list[int]) -> None:
        self._folder, self._spec = folder, spec
        self._reserve = os.path.join(spec.folder, layout.RESERVE)
        names = [layout.OUTPUT, layout.OUTPUT_ERR]
        self.files = [outputs.Output(fd, names[at], spec) for at, fd in enumerate(descriptors)]
        self._ahead = self._low = 0
        self._last: tuple[float, int] | None = None
        self._saved: object = None
        self.disk_was_low = False

    @property
    def busy(self) -> bool:
        """Whether `work` has something to do at once."""
        return any(one.packing for one in self.files)

    def write(self, data: bytes) -> None:
        """Append what a pseudo-terminal brought; on a full disk it is lost, said in `log.json`."""
        self.files[0].append(data)

    def tick(self, now: float) -> None:
        """Once a second: look at sizes and room, keep room ahead, start to pack what is too much."""
        if self._last is None:
            self._prepare(now)
        for one in self.files:
            one.look()
        room, _ = _room(self._spec.folder)
        if self._is_low(now, room):
            self._make_room(room)
        else:
            for one in self.files:
                one.keep_ahead(self._ahead)
                one.bound()
        self._save()

    def _prepare(self, now: float) -> None:
        """On the first tick: the command is not kept waiting for it."""
        room, total = _room(self._spec.folder)
        self._ahead = min(self._spec.ahead, room // 16)
        self._low = min(self._spec.low, total // 8)
        with contextlib.suppress(OSError):
            layout.prepare_spare(self._folder)
        self._make_reserve(min(self._spec.reserve, room // 8))
        for one in self.files:
            one.try_punching()
            one.keep_ahead(self._ahead)
        self._last = (now, _room(self._spec.folder)[0])

    def work(self) -> None:
        """One turn of packing: at most 1 MiB, so that no death waits longer than some milliseconds."""
        for one in self.files:
            if one.packing and one.pack_some():
                self._save()
                one.give_back()
                one.look()
                one.bound()
                self._save()

    def _is_low(self, now: float, room: int) -> bool:
        before, then = self._last or (now, room)
        if now - before < _RATE_OVER_S:
            return room < self._low
        self._last = (now, room)
        rate = max(0.0, (then - room) / (now - before))
        # A checkpoint being saved is no reason to give up logs on a disk with plenty of room.
        return room < self._low or room < min(rate * _SOON_FULL_S, self._low * _NEAR)

    def _make_room(self, room: int) -> None:
        """Old output first, then the reserve; the command's next line matters more than either."""
        self.disk_was_low = True
        for one in self.files:
            one.drop_old(self._save)
        if _room(self._spec.folder)[0] < self._low and room < self._low:
            self.give_up_reserve()
        for one in self.files:
            one.keep_ahead(self._ahead)

    def give_up_reserve(self) -> None:
        """Free the reserve for a write that must succeed."""
        with contextlib.suppress(OSError):
            os.unlink(self._reserve)

    def _make_reserve(self, size: int) -> None:
        with contextlib.suppress(OSError):
            fd = os.open(self._reserve, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(fd, 0, max(size, _BLOCK))
            finally:
                os.close(fd)

    def describe(self) -> dict[str, object]:
        """What `log.json` says."""
        return {
            "schema_version": layout.SCHEMA,
            "folder": self._spec.folder,
            "disk_was_low": self.disk_was_low,
            "files": [one.describe() for one in self.files],
        }

    def _save(self) -> None:
        data = self.describe()
        if data == self._saved:
            return
        with contextlib.suppress(OSError):
            layout.write_json(os.path.join(self._folder, layout.LOG_STATE), data)
            self._saved = data

    def finish(self) -> None:
        """Nobody writes any more: give back the room ahead and the reserve."""
        for one in self.files:
            one.look()
            one.finish()
        self._save()
        self.give_up_reserve()
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._folder, layout.EXIT_SPARE))


def _room(folder: str) -> tuple[int, int]:
    """Free and total bytes of a file system; plenty where it does not say."""
    try:
        info = os.statvfs(folder)
    except OSError:
        return 1 << 50, 1 << 50
    return info.f_bavail * info.f_frsize, info.f_blocks * info.f_frsize
