"""Three witnesses vote: what is reported, what is ended, who is named."""

from dataclasses import replace

import pytest

from runward.core import hang, stacks
from runward.core.gpu_signature import Look, Signature
from runward.core.hang import Cast, Kind
from runward.core.stacks import Sameness, StackVote

WAITING = Signature(Look.WAITING, 100, 0, 124)
QUIET = Signature(Look.QUIET, 0, 0, 119)
BUSY = Signature(Look.BUSY, 94, 53, 600)
BLIND = Signature(Look.UNSEEN, why="the driver does not answer")
SAME = StackVote(Sameness.SAME, "the same stack 3 times in 20 s: wait (x.py:3)")
CHANGED = StackVote(Sameness.CHANGED, "the stack changes; last in evaluate (eval.py:9)")
NO_STACK = StackVote(Sameness.UNSEEN, "stacks are not observable: kernel.yama.ptrace_scope is 1")


def rank(number, signature, stack=SAME, moved=0):
    return hang.Rank(number, "node-a", str(number), signature, stack, moved)


HUNG = hang.Facts(
    ranks=(rank(0, WAITING), rank(1, QUIET)),
    silent_s=700.0,
    p99_step_s=2.0,
    longest_phase_s=60.0,
    seen_evaluation=True,
    seen_checkpoint=True,
    files_grew_bytes=0,
)


def test_a_rank_that_does_not_join_is_named_with_gpu_and_node():
    verdict = hang.judge(HUNG)
    assert verdict.kind is Kind.END
    assert verdict.summary.startswith("rank 1 (GPU 1, node node-a) did not join: the other ranks wait")
    assert [vote.cast for vote in verdict.votes] == [Cast.YES, Cast.YES, Cast.YES]


@pytest.mark.parametrize(
    ("p99", "signature", "budget"),
    [(2.0, True, 30.0), (2.0, False, 90.0), (20.0, True, 60.0), (40.0, False, 120.0), (None, True, 600.0)],
)
def test_the_time_to_report_follows_the_learned_step(p99, signature, budget):
    facts = replace(HUNG, p99_step_s=p99)
    assert hang.budget_s(facts, signature=signature) == budget
    ranks = HUNG.ranks if signature else (rank(0, BLIND), rank(1, BLIND))
    early, late = (hang.judge(replace(facts, ranks=ranks, silent_s=s)) for s in (budget - 1, budget))
    assert (early.kind, late.kind is not Kind.NONE) == (Kind.NONE, True)


@pytest.mark.parametrize("silent", [35.0, 60.0 * 30, 7200.0])
def test_while_rank_0_writes_the_others_wait_and_nothing_is_ended(silent):
    saving = (rank(0, QUIET, NO_STACK, moved=1_200_000_000), rank(1, WAITING))
    verdict = hang.judge(replace(HUNG, ranks=saving, silent_s=silent))
    assert verdict.kind is Kind.WAITS
    assert verdict.summary == "rank 0 (GPU 0, node node-a) busy: 1.2 GB read and written"


def test_while_rank_0_evaluates_on_the_cpu_nothing_is_ended():
    evaluating = (rank(0, QUIET, CHANGED), rank(1, WAITING))
    verdict = hang.judge(replace(HUNG, ranks=evaluating, silent_s=3600.0))
    assert (verdict.kind, "evaluate (eval.py:9)" in verdict.summary) == (Kind.WAITS, True)


def test_a_quiet_rank_that_computes_on_the_cpu_lives_though_it_stands_in_one_line():
    evaluating = replace(rank(0, QUIET), cpu_cores=1.0)
    verdict = hang.judge(replace(HUNG, ranks=(evaluating, rank(1, WAITING)), silent_s=3600.0))
    assert (verdict.kind, "1.0 CPU cores" in verdict.summary) == (Kind.WAITS, True)


def test_the_cpu_of_a_rank_that_spins_in_a_collective_is_no_life():
    spinning = replace(rank(0, WAITING), cpu_cores=1.0)
    assert hang.judge(replace(HUNG, ranks=(spinning, rank(1, QUIET)))).kind is Kind.END
    assert hang.judge(replace(HUNG, ranks=(spinning, rank(1, WAITING)))).kind is Kind.END


def test_growing_checkpoint_files_are_life_too():
    verdict = hang.judge(replace(HUNG, files_grew_bytes=50_000_000))
    assert (verdict.kind, verdict.summary) == (
        Kind.WAITS,
        "rank 1 (GPU 1, node node-a) busy: 50.0 MB written",
    )


@pytest.mark.parametrize(
    ("change", "against"),
    [
        ({"ranks": (rank(0, WAITING), rank(1, QUIET, moved=None))}, "bytes of rank 1"),
        ({"longest_phase_s": 800.0}, "a phase of this run took 800 s"),
        ({"seen_evaluation": False, "silent_s": 599.0}, "the first evaluation of this run"),
        (
            {"seen_checkpoint": False, "seen_evaluation": False, "silent_s": 300.0},
            "first evaluation and checkpoint",
        ),
    ],
)
def test_a_hang_is_only_reported_while_one_proof_is_missing(change, against):
    verdict = hang.judge(replace(HUNG, **change))
    assert verdict.kind is Kind.HANG
    assert any(against in reason for reason in verdict.not_ended), verdict.not_ended


def test_stacks_that_cannot_be_had_do_not_stand_against_an_end():
    verdict = hang.judge(replace(HUNG, ranks=(rank(0, WAITING, NO_STACK), rank(1, QUIET, NO_STACK))))
    assert verdict.kind is Kind.END
    assert verdict.votes[2].cast is Cast.UNSEEN
    assert "ptrace_scope is 1" in verdict.votes[2].text


@pytest.mark.parametrize("phase", ["compile", "checkpoint", "evaluation", "download"])
def test_a_known_phase_is_no_hang(phase):
    assert hang.judge(replace(HUNG, phase=phase, silent_s=5000.0)).kind is Kind.NONE


def test_signature_and_stacks_without_silence_are_nothing():
    assert hang.judge(replace(HUNG, silent_s=3.0)).kind is Kind.NONE
    assert hang.judge(replace(HUNG, silent_s=None)).kind is Kind.NONE


def test_silence_alone_is_a_stall_and_no_hang():
    blind = (rank(0, BLIND, NO_STACK), rank(1, BLIND, NO_STACK))
    verdict = hang.judge(replace(HUNG, ranks=blind))
    assert verdict.kind is Kind.NONE
    assert [vote.cast for vote in verdict.votes] == [Cast.YES, Cast.UNSEEN, Cast.UNSEEN]


def test_a_busy_gpu_votes_no_and_the_vote_is_shown():
    verdict = hang.judge(replace(HUNG, ranks=(rank(0, BUSY, NO_STACK), rank(1, BUSY, NO_STACK))))
    assert (verdict.kind, verdict.votes[1].cast) == (Kind.NONE, Cast.NO)


def test_a_hang_of_all_ranks_names_none_and_needs_all_of_them_to_be_lifeless():
    everywhere = replace(HUNG, ranks=(rank(0, QUIET), rank(1, QUIET)))
    verdict = hang.judge(everywhere)
    assert (verdict.kind, verdict.suspects) == (Kind.END, ())
    assert "no GPU of the run works" in verdict.summary
    alive = replace(everywhere, ranks=(rank(0, QUIET), rank(1, QUIET, moved=10**9)))
    assert hang.judge(alive).kind is Kind.WAITS


def test_a_flight_recorder_names_the_rank_where_the_gpus_cannot():
    waiting = replace(HUNG, ranks=tuple(rank(n, WAITING) for n in range(3)), missing_ranks=(2,))
    assert [r.rank for r in hang.judge(waiting).suspects] == [2]


def dump(at, frames=("f (a.py:1)",), name="MainThread", unseen=""):
    return stacks.Dump(7, at, () if unseen else (stacks.Thread(name, frames),), unseen)


@pytest.mark.parametrize(
    ("dumps", "sameness"),
    [
        ([dump(0), dump(10), dump(20)], Sameness.SAME),
        ([dump(0), dump(10)], Sameness.UNSEEN),
        ([dump(0), dump(1), dump(2)], Sameness.UNSEEN),
        ([dump(0), dump(10), dump(20, ("f (a.py:2)",))], Sameness.CHANGED),
        ([dump(0), dump(10, unseen="gone"), dump(20)], Sameness.UNSEEN),
        ([], Sameness.UNSEEN),
        ([dump(0, name="worker"), dump(10, name="worker"), dump(20.1, name="worker")], Sameness.SAME),
    ],
)
def test_stacks_are_the_same_only_three_times_ten_seconds_apart(dumps, sameness):
    assert stacks.compare(dumps).sameness is sameness


def test_before_steps_are_learned_the_longest_phase_of_the_run_stands_for_them_and_nothing_is_ended():
    young = replace(HUNG, p99_step_s=None, stepped=True, longest_phase_s=12.0, silent_s=40.0)
    assert hang.budget_s(young, signature=True) == 36.0
    assert hang.judge(young).kind is hang.Kind.HANG
    assert "not learned" in str(hang.judge(replace(young, silent_s=5000.0)).not_ended)
    assert hang.budget_s(replace(young, stepped=False), signature=True) == hang.UNLEARNED_S
