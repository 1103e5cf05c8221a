"""Ranks that a shell, a script or a launcher tells by a process, a command or a list of exits."""

import pytest

from corpus import judging

_STEPS = "step 3 loss 2.2\nstep 4 loss 2.1\n"
_BEGUN = "starting rank 0 (pid 5310)\nstarting rank 1 (pid 5311)\nstarting rank 2 (pid 5312)\n"


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        (_BEGUN + _STEPS + "go.sh: line 14:  5311 Killed                  python fit.py\n", 1),
        (_BEGUN + _STEPS + "go.sh: line 14:  7777 Killed                  python fit.py\n", None),
        (_STEPS + "go.sh: line 14:  5311 Killed                  RANK=2 python fit.py\n", 2),
        (_STEPS + "go.sh: line 14:  5311 Killed                  python fit.py --rank 3 --lr 1\n", 3),
        (_STEPS + "go.sh: line 14:  5311 Killed                  python fit.py --lora-rank 8\n", None),
        (_STEPS + "go.sh: line 14:  5311 Killed                  python fit.py --node-rank 1\n", None),
    ],
    ids=["its-process", "anothers", "variable", "option", "of-a-layer", "of-a-machine"],
)
def test_the_process_that_a_shell_saw_killed_is_the_rank_that_it_was_started_as(
    log: str, rank: int | None
) -> None:
    assert judging.guess(log, exit_code=137) == ("killed", rank)


@pytest.mark.parametrize(
    ("codes", "word", "rank"),
    [
        ((0, 139, 0), "rank", 1),
        ((1, 1, 137), "rank", 2),
        ((1, 1, 1), "rank", None),
        ((0, 139, 0), "worker", None),
    ],
    ids=["one-failed", "one-by-signal", "all-alike", "of-anything"],
)
def test_a_list_of_the_exits_of_all_ranks_tells_the_one_that_failed(
    codes: tuple[int, ...], word: str, rank: int | None
) -> None:
    log = _STEPS + "".join(f"{word} {n} finished with status {code}\n" for n, code in enumerate(codes))
    assert judging.verdict(log, exit_code=137).rank == rank


_WORLD = (
    "[2031-01-01 00:00:00,000] [INFO] [launch.py:145:main] WORLD INFO DICT: {'h1': [0, 1], 'h2': [0, 1]}\n"
)
_KILLED = "[2031-01-01 00:10:00,000] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python', '-u', 't.py', '--local_rank={n}'] exits with return code = -9\n"


def test_the_command_in_a_launchers_line_is_the_one_that_it_started_last_whichever_ended() -> None:
    assert judging.verdict(_WORLD + "h2: " + _KILLED.format(n=1), exit_code=247).rank is None


_EVICTED = "0s  Warning  Evicted  pod/ft-worker-{n}  The node was low on resource: memory.\n"


@pytest.mark.parametrize(
    ("told", "rank"),
    [("ft-master-0: [rank0]: ", 3), ("ft-worker-0: [rank1]: ", 3), ("ft-worker-0: [rank0]: ", 2)],
    ids=["leader", "led", "not-led"],
)
def test_the_rank_of_the_leader_says_nothing_of_how_its_workers_are_counted(told: str, rank: int) -> None:
    log = told + "RuntimeError: Connection closed by peer\n" + _EVICTED.format(n=2)
    assert judging.verdict(log, exit_code=1).rank == rank
