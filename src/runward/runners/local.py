"""Commands on this machine: argv only, a session of their own, ended with all children at the deadline."""

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import time
from typing import IO

from runward import ports


class Local:
    """The machine on which Runward itself runs."""

    name = "local"

    def run(self, call: ports.Call) -> ports.Completed:
        """See `ports.Runner.run`."""
        try:
            process = subprocess.Popen(
                call.argv,
                stdin=subprocess.PIPE if call.stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(call.env) if call.env is not None else None,
                cwd=call.cwd,
                start_new_session=True,
            )
        except FileNotFoundError:
            return ports.Completed(call.argv, 127, b"", f"{call.argv[0]}: not found".encode())
        except PermissionError:
            # A folder of PATH that may not be looked into is told by the kernel as if the program lay there.
            there = shutil.which(call.argv[0], os.F_OK, (call.env or os.environ).get("PATH"))
            code, why = (126, "not executable") if there else (127, "not found")
            return ports.Completed(call.argv, code, b"", f"{call.argv[0]}: {why}".encode())
        except OSError as error:
            return ports.Completed(call.argv, 126, b"", f"{call.argv[0]}: {error.strerror}".encode())
        return _communicate(process, call)

    def read(self, path: str, offset: int, limit: int) -> bytes:
        """See `ports.Runner.read`."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return os.pread(descriptor, limit, offset)
        finally:
            os.close(descriptor)


def _communicate(process: subprocess.Popen[bytes], call: ports.Call) -> ports.Completed:
    """Drain both streams within the limits; kill the whole session at the deadline."""
    deadline = time.monotonic() + call.deadline_s
    streams = _Streams(process, call)
    timed_out = not streams.drain(deadline)
    if not timed_out:
        try:
            process.wait(max(0.05, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            timed_out = True
    if timed_out:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    streams.close()
    code = None if timed_out else process.returncode
    out, err = bytes(streams.kept["stdout"]), bytes(streams.kept["stderr"])
    return ports.Completed(call.argv, code, out, err, timed_out, streams.truncated)


class _Streams:
    """The three pipes of a child, served until both outputs are at their end."""

    def __init__(self, process: subprocess.Popen[bytes], call: ports.Call) -> None:
        self.kept = {"stdout": bytearray(), "stderr": bytearray()}
        self.truncated = False
        self._limit = call.limit
        self._pending = memoryview(call.stdin)
        self._selector = selectors.DefaultSelector()
        self._files: list[IO[bytes]] = []
        for name, stream in (("stdout", process.stdout), ("stderr", process.stderr)):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                self._selector.register(stream, selectors.EVENT_READ, name)
                self._files.append(stream)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            self._selector.register(process.stdin, selectors.EVENT_WRITE, "stdin")
            self._files.append(process.stdin)

    def drain(self, deadline: float) -> bool:
        """Whether both outputs ended in time."""
        while any(key.data != "stdin" for key in self._selector.get_map().values()):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            for key, _ in self._selector.select(left):
                self._write(key) if key.data == "stdin" else self._read(key)
        return True

    def _read(self, key: selectors.SelectorKey) -> None:
        data = os.read(key.fd, 65536)
        if not data:
            self._selector.unregister(key.fileobj)
            return
        kept = self.kept[key.data]
        room = self._limit - len(kept)
        kept += data[:room]
        self.truncated = self.truncated or len(data) > room

    def _write(self, key: selectors.SelectorKey) -> None:
        try:
            self._pending = self._pending[os.write(key.fd, self._pending[:65536]) :]
        except BrokenPipeError:
            self._pending = self._pending[:0]
        if not self._pending:
            self._selector.unregister(key.fileobj)
            key.fileobj.close()  # type: ignore[union-attr]

    def close(self) -> None:
        self._selector.close()
        for stream in self._files:
            with contextlib.suppress(OSError):
                stream.close()
