"""A runner that answers from a table, and remembers what it was asked."""

from collections.abc import Callable
from dataclasses import dataclass, field

from runward import ports

Answer = ports.Completed | bytes | str | Exception


@dataclass
class FakeRunner:
    answers: dict[tuple[str, ...], Answer] = field(default_factory=dict)
    """By argv prefix: the longest prefix wins."""
    files: dict[str, bytes] = field(default_factory=dict)
    name: str = "fake"
    calls: list[ports.Call] = field(default_factory=list)
    handler: Callable[[ports.Call], Answer | None] | None = None

    def run(self, call: ports.Call) -> ports.Completed:
        self.calls.append(call)
        answer = self.handler(call) if self.handler else None
        if answer is None:
            for length in range(len(call.argv), 0, -1):
                answer = self.answers.get(call.argv[:length])
                if answer is not None:
                    break
        if answer is None:
            return ports.Completed(call.argv, 127, b"", f"{call.argv[0]}: not found".encode())
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, ports.Completed):
            return answer
        return ports.Completed(call.argv, 0, answer.encode() if isinstance(answer, str) else answer, b"")

    def read(self, path: str, offset: int, limit: int) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path][offset : offset + limit]
