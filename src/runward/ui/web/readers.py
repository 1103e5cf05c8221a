"""Looks that may take long, in a bounded number of threads: a mount that hangs costs its readers and nobody else."""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from runward.core import errors

_T = TypeVar("_T")


class Readers:
    """Threads that look for those who wait in an event loop."""

    def __init__(self, what: str, threads: int = 3, waiting: int = 32, deadline_s: float = 10.0) -> None:
        """`what` is looked at, in words; `waiting`: so many looks may wait for a thread."""
        self._what, self._threads, self._deadline_s = what, threads, deadline_s
        self._queue: queue.Queue[_Look] = queue.Queue(waiting)
        self._started = False

    async def ask(self, look: Callable[[], _T]) -> _T:
        """What `look` gives, or raises. Raises Unreachable when all are busy, or it takes too long."""
        self._start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()
        try:
            self._queue.put_nowait((look, loop, future))
        except queue.Full:
            raise errors.Unreachable(errors.Problem(f"too many are asking for {self._what}")) from None
        try:
            async with asyncio.timeout(self._deadline_s):
                return await future
        except TimeoutError:
            raise errors.Unreachable(
                errors.Problem(f"{self._what} did not answer within {self._deadline_s:.0f} s")
            ) from None

    def _start(self) -> None:
        if not self._started:
            self._started = True
            for _ in range(self._threads):
                # daemons: one that hangs in the kernel must not keep the process from ending
                threading.Thread(target=self._work, name=f"runward-{self._what}", daemon=True).start()

    def _work(self) -> None:
        while True:
            look, loop, future = self._queue.get()
            if future.cancelled():
                continue  # nobody waits for it any more
            try:
                result, failed = look(), None
            except Exception as error:  # noqa: BLE001 -- the border of a thread of ours: whoever asked is told
                result, failed = None, error
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(_settle, future, result, failed)


_Look = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


def _settle(future: "asyncio.Future[Any]", result: Any, failed: Exception | None) -> None:
    if future.done():
        return
    if failed is not None:
        future.set_exception(failed)
    else:
        future.set_result(result)
