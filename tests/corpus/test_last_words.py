"""Where each rank stood when all stood still: a list of all, or last words that are unlike those of the others."""

import pytest

from corpus import judging

_HANGS = {"process": "running", "silent_s": 5400, "gpu_util": 100, "gpu_mem_util": 0}


def _in_turn(front: str, steps: int = 5, ranks: int = 4) -> str:
    return "".join(
        front.format(rank) + f"step {step} loss 2.{step}{rank}\n"
        for step in range(1, steps)
        for rank in range(ranks)
    )


@pytest.mark.parametrize(
    "front", ["[rank{}]: ", "{}: ", "[default{}]:rank {} "], ids=["torch", "srun", "torchrun"]
)
@pytest.mark.parametrize(
    "last", ["waiting for the lock of /data/x", "sampling until one fits", "entering own barrier"]
)
def test_the_rank_that_went_to_something_else_is_the_one(front: str, last: str) -> None:
    front = front.replace("rank {}", "rank {0}").replace("{}", "{0}")
    log = _in_turn(front) + front.format(2) + last + "\n"
    assert judging.guess(log, **_HANGS) == ("hang", 2)


def test_a_line_that_two_processes_wrote_at_once_is_two_lines() -> None:
    glued = "".join(
        f"[10:00:0{s}] rank1 iter {s}0 ok[10:00:0{s}] rank0 iter {s}0 ok\n\n" for s in range(1, 6)
    )
    assert judging.guess(glued + "[10:00:06] rank1 iter 57: no box left, again\n", **_HANGS) == ("hang", 1)


@pytest.mark.parametrize(
    "end",
    [
        "[rank0]: saving everything\n",  # the first rank says much that the others do not
        "[rank2]: took a shortcut\n[rank3]: took a shortcut\n",
        "[rank2]: took a shortcut\n[rank3]: step 5 loss 2.1\n",  # the others do not stand at the same
        "",
    ],
    ids=["first", "two", "apart", "none"],
)
def test_last_words_that_prove_nothing_name_nobody(end: str) -> None:
    assert judging.guess(_in_turn("[rank{}]: ") + end, **_HANGS) == ("hang", None)


def test_what_a_rank_says_now_and_then_is_no_last_word() -> None:
    log = "[rank2]: cache is warm\n" + _in_turn("[rank{}]: ") + "[rank2]: cache is warm\n"
    assert judging.guess(log, **_HANGS) == ("hang", None)


def test_a_rank_of_which_nothing_is_heard_may_as_well_be_the_one() -> None:
    log = _in_turn("[rank{}]: ", ranks=3) + "[rank4]: step 1 loss 2.1\n[rank2]: took a shortcut\n"
    assert judging.guess(log, **_HANGS) == ("hang", None)


_WAITED = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 20000ms for recv operation to complete\n"
_TRACE = 'Traceback (most recent call last):\n  File "fit.py", line 7, in step\n'


def test_what_was_said_before_a_time_out_counts_and_not_the_traceback() -> None:
    log = _in_turn("[rank{}]: ") + "[rank2]: waiting for the lock of /data/x\n"
    log += "".join(judging.said(f"[rank{rank}]: ", _TRACE + _WAITED) for rank in (0, 1, 3))
    assert judging.guess(log)[1] == 2
    own = judging.said("[rank2]: ", _TRACE + _WAITED)
    assert judging.guess(log + own)[1] is None


_BEATS = "[beat] {}: rank0 {w} {a}, rank1 {w} {b}, rank2 {w} {c}, rank3 {w} {a}\n"


@pytest.mark.parametrize("word", ["step", "iter", "at step", "= step"])
def test_the_rank_that_a_list_of_all_shows_behind_is_the_one(word: str) -> None:
    steps = _in_turn("", ranks=1)
    beats = "".join(_BEATS.format(f"03:{m}", w=word, a=210, b=210, c=209) for m in (10, 20, 30))
    assert judging.guess(steps + beats, **_HANGS) == ("hang", 2)
    even = beats.replace("209", "210")
    assert judging.guess(steps + even, **_HANGS) == ("hang", None)
    two = _BEATS.format("03:40", w=word, a=210, b=209, c=209)
    assert judging.guess(steps + beats + two, **_HANGS) == ("hang", None)


_WAITED = (
    "[rank{0}]:[E503 16:20:01.5 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=30612, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800074 milliseconds "
    "before timing out.\n"
)
_ROUNDS = {
    "in-turn": ("lap {n} begun", "lap {n} ready"),
    "reads": ("reading part {n}/8", "part {n}/8 read (0.{r} s)", "part 8/8 read", "waiting at the barrier"),
    "own-number": ("saving shard {r}", "shard {r} written"),
}


def _rounds(kind: str, rank: int, *, stops: bool) -> str:
    rows = [row.format(n=n, r=rank) for n in (5, 6) for row in _ROUNDS[kind][:2]]
    rows += [row.format(n=7, r=rank) for row in (_ROUNDS[kind][:1] if stops else _ROUNDS[kind])]
    return "".join(f"{row}\n" for row in rows)


@pytest.mark.parametrize("timed_out", [False, True])
@pytest.mark.parametrize("kind", ["in-turn", "reads"])
@pytest.mark.parametrize("late", [0, 2])
def test_the_rank_that_stopped_where_all_others_went_on_is_the_one(
    kind: str, late: int, timed_out: bool
) -> None:
    logs = {f"rank{r}.log": _rounds(kind, r, stops=r == late) for r in range(4)}
    if timed_out:
        logs = {
            name: text + ("" if str(late) in name else _WAITED.format(name[4])) for name, text in logs.items()
        }
    found = judging.verdict(logs, **({"exit_code": 1} if timed_out else _HANGS))
    assert (found.cause in ("hang", "nccl_timeout"), found.rank) == (True, late)


@pytest.mark.parametrize("late", [(), (1, 2), (0, 1, 2)], ids=["none", "two", "all-but-one"])
@pytest.mark.parametrize("kind", _ROUNDS)
def test_where_none_or_several_stopped_nobody_is_named(kind: str, late: tuple[int, ...]) -> None:
    logs = {f"rank{r}.log": _rounds(kind, r, stops=r in late) for r in range(4)}
    assert judging.verdict(logs, **_HANGS).rank is None


def test_a_rank_that_others_cannot_be_compared_with_is_not_behind() -> None:
    logs = {f"rank{r}.log": _rounds("in-turn", r, stops=False) for r in range(4)}
    other = {**logs, "rank2.log": "collecting samples\n" * 4}
    assert judging.verdict(other, **_HANGS).rank is None
    ahead = {**logs, "rank2.log": logs["rank2.log"] + "lap 8 begun\n"}
    assert judging.verdict(ahead, **_HANGS).rank is None
