"""The child process that reads checkpoints: one JSON request a line, one answer, never an endless wait."""

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

_ROOT: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_CODE: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from runward.checkpoint_readers import worker; worker.main(sys.argv[2:])"
)
_MAX_ANSWER: Final = 256 << 20


class Child:
    """One worker with at most one question under way."""

    def __init__(self, priority: str, cache_file: str | None = None) -> None:
        more = [cache_file] if cache_file is not None else []
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _CODE, _ROOT, priority, *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise AssertionError("both pipes were asked for")
        self._in, self._out = self._process.stdin, self._process.stdout
        os.set_blocking(self._out.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)
        self._buffer = bytearray()
        self._asked_at: float | None = None
        self.took = 0.0
        """Seconds that the last answer took."""

    @property
    def asked(self) -> bool:
        """Whether an answer is outstanding."""
        return self._asked_at is not None

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    @property
    def silent_for(self) -> float:
        """Seconds since the question that is still open."""
        return 0.0 if self._asked_at is None else time.monotonic() - self._asked_at

    def ask(self, request: Mapping[str, object]) -> bool:
        """Whether the question was sent. A question fits the pipe, or the child reads it at once."""
        try:
            self._in.write(json.dumps(request).encode() + b"\n")
            self._in.flush()
        except OSError:
            return False
        self._asked_at = time.monotonic()
        return True

    def wait(self, seconds: float) -> dict[str, Any] | None:
        """The answer, when it comes within `seconds`."""
        deadline = time.monotonic() + seconds
        while self.asked:
            if self._selector.select(max(0.0, deadline - time.monotonic())):
                data = self._out.read(1 << 20)
                if not data or len(self._buffer) > _MAX_ANSWER:
                    self._kill()
                    return None
                self._buffer += data
                if data.endswith(b"\n"):
                    return self._answer()
            if time.monotonic() >= deadline:
                return None
        return None

    def _answer(self) -> dict[str, Any] | None:
        line, self._buffer = bytes(self._buffer), bytearray()
        self.took, self._asked_at = self.silent_for, None
        try:
            value = json.loads(line)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    def close(self) -> None:
        """End it at once. One that hangs in the kernel is left behind and ends by itself."""
        self._kill()
        self._selector.close()
        with contextlib.suppress(OSError):
            self._in.close()
        self._out.close()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.2)
