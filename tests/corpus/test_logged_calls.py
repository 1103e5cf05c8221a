"""The collectives that NCCL logs where it is asked to: the process that calls another one than all others."""

import pytest

from corpus import judging

_LIVES = {"process": "running", "silent_s": 2100}
_ROW = (
    "gx4:{pid}:{pid} [{n}] NCCL INFO {op}: opCount {at} sendbuff 0x7f10{n}0 recvbuff 0x7f20{n}0 count {count} datatype 7 "
    "op 0 root 0 comm 0x55{n}0 [nranks={of}] stream 0x6a{n}0\n"
)


def _calls(at: str, what: dict[int, tuple[str, int]], of: int = 4) -> str:
    usual = ("AllReduce", 4096)
    rows = ((n, *what.get(n, usual)) for n in range(4) if what.get(n) != ("", 0))
    return "".join(_ROW.format(pid=7100 + n, n=n, op=op, count=c, at=at, of=of) for n, op, c in rows)


@pytest.mark.parametrize(
    ("log", "judged"),
    [
        (_calls("3a", {}) + _calls("3b", {2: ("AllReduce", 2048)}), ("hang", "hold", 2)),
        (_calls("3b", {1: ("Broadcast", 4096)}), ("hang", "hold", 1)),
        (_calls("3a", {}) + _calls("3b", {3: ("", 0)}), ("hang", "restart", 3)),
        (_calls("3a", {}) + _calls("3b", {}), ("hang", "restart", None)),
        (
            _calls("3b", {2: ("AllReduce", 2048), 3: ("AllReduce", 2048)}),
            ("hang", "restart", None),
        ),
        (_calls("3b", {2: ("AllReduce", 2048)}, of=8), ("hang", "restart", None)),
        (
            _calls("3b", {}) + _calls("3b", {2: ("AllReduce", 2048)}).replace("comm 0x55", "comm 0x99"),
            ("hang", "restart", None),
        ),
    ],
    ids=["size", "operation", "does-not-come", "alike", "two-of-four", "not-all-logged", "two-groups"],
)
def test_who_calls_another_collective_is_named_and_a_person_asked(
    log: str, judged: tuple[str, str, int | None]
) -> None:
    assert judging.blame(log, **_LIVES) == judged
