"""Every cell of the patrol's decision table, and that not knowing is none of the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.core import errors, far_facts, patrol_table, patrolling, stages
from runward.ui import patrol_lines

NOW = 1_800_000_000.0
Q = far_facts.Questions(
    logs=("/r/train.log",), checkpoints=("/r/ckpt",), mounts=("/r",), markers=("/r/DONE",), results=("/r/res",),
    counts=("/r/data",),
)  # fmt: skip
WANTED = patrolling.Expected("b", Q, total=3, sources={"/r/data": 10}, resume="python train.py --resume")
LOG = far_facts.LogFacts(
    "/r/train.log", size=100, mtime=NOW - 5, inode=7, steps=("Epoch 3/9",), epoch="Epoch 3/9", step_at=50
)
FINE = far_facts.Facts(
    complete=True, now=NOW, boot_id="a", cpus=4, processes=1, oom_kill=0, mem_current=10, mem_max=100,
    disks=(far_facts.Disk("/r", None, 50, 1 << 40, 10),), logs=(LOG,),
    folders=(far_facts.Folder("/r/ckpt", newest_at=NOW - 60, names=("step_20",)),), markers={"/r/DONE": False},
    results=(far_facts.Result("/r/res", True, 1),), counts={"/r/data": 10},
)  # fmt: skip
GONE = FINE._replace(processes=0)
SEEN = patrolling.Remembered(NOW - 1800, "a", 0, (7, 50), "Epoch 2/9", NOW - 1800, "x")
Cell = patrolling.Cell


def look(facts, before=SEEN, wanted=WANTED):
    return patrol_table.judge(facts, wanted, before, NOW)[0]


def but(facts=FINE, **changes):
    return facts._replace(**changes)


def log(**changes):
    return (LOG._replace(**changes),)


TABLE = [
    ("its own run lost its watcher", but(runs='{"runs": [{"run": "r", "state": "running", "watcher": null}]}'),
     Cell.HEALTHY, True, "run r has no watcher"),
    ("gone with its watcher", but(GONE, runs='[{"run": "r", "state": "running", "watcher": null}]'), Cell.GONE, True,
     "run r has no watcher"),
    ("its own run is watched", but(GONE, runs='[{"run": "r", "state": "waiting", "watcher": {"pid": 1}}]'),
     Cell.HEALTHY, False, ""),
    ("no answer", "ssh:b: no answer", Cell.SSH_DOWN, True, "no answer"),
    ("all is well", FINE, Cell.HEALTHY, False, ""),
    ("gone, no marker", GONE, Cell.GONE, True, "at 1/3 (incomplete); no reboot"),
    ("gone after a reboot", but(GONE, boot_id="z"), Cell.GONE, True, "rebooted"),
    ("gone after a memory kill", but(GONE, oom_kill=2), Cell.GONE, True, "killed for memory (2 more"),
    ("gone, and its log is not there", but(GONE, logs=(far_facts.LogFacts("/r/train.log", "not there"),)), Cell.GONE,
     True, "no reboot; hang-up, manual kill or quiet exit; log /r/train.log: not there"),
    ("gone, and its disk is not there", but(GONE, disks=(far_facts.Disk("/r", "not there"),)), Cell.GONE, True,
     "no crash line; hang-up, manual kill or quiet exit; mount /r: not there"),
    ("all done", but(GONE, markers={"/r/DONE": True}, results=(far_facts.Result("/r/res", True, 3),)),
     Cell.ALL_DONE, False, ""),
    ("marker but results missing", but(GONE, markers={"/r/DONE": True}), Cell.GONE, True, "incomplete"),
    ("fewer files than the source", but(counts={"/r/data": 9}), Cell.TRANSFER, True, "9 of 10"),
    ("crash is the last thing said", but(logs=log(crash_at=60, crashes=1, crash="Traceback (most")), Cell.CRASHED,
     True, "Traceback"),
    ("crash of long ago", but(logs=log(crash_at=20, crashes=4)), Cell.HEALTHY, False, ""),
    ("disk full while saving", but(logs=log(full_at=70)), Cell.CRASHED, True, "disk full"),
    ("queue done with failed cells", but(GONE, logs=log(done_at=70, done="QUEUE DONE -- 2 cell(s) FAILED: a, b")),
     Cell.CRASHED, True, "failed cells"),
    ("disk", but(disks=(far_facts.Disk("/r", None, 95, 1, 10),)), Cell.PRESSURE, True, "disk 95%"),
    ("inodes", but(disks=(far_facts.Disk("/r", None, 5, 1, 97),)), Cell.PRESSURE, True, "inodes 97%"),
    ("memory", but(mem_current=91), Cell.PRESSURE, True, "memory 91%"),
    ("log missing", but(logs=(far_facts.LogFacts("/r/train.log", "not there"),)), Cell.UNKNOWN, True, "not there"),
    ("mount missing", but(disks=(far_facts.Disk("/r", "not there"),)), Cell.UNKNOWN, True, "not there"),
    ("answer broke off", but(complete=False), Cell.UNKNOWN, True, "broke off"),
    ("processes not seen", but(processes=None), Cell.UNKNOWN, True, "could not be seen: no answer"),
    ("squeue fails", but(GONE, whys={"squeue": "squeue failed"}), Cell.UNKNOWN, True, "squeue failed (for a run that is no Slurm job"),
    ("the copy was never begun", but(counts={"/r/data": None}, whys={"count.10": "not there"}), Cell.TRANSFER, True,
     "not there, 0 of 10"),
    ("results were never begun", but(GONE, markers={}, results=(far_facts.Result("/r/res", False),)), Cell.GONE, True,
     "at 0/3"),
    ("files not counted", but(counts={"/r/data": None}), Cell.UNKNOWN, True, "could not be counted"),
    ("result there", but(results=(far_facts.Result("/r/res.csv", True, None, ("a,b", "1,2")),)), Cell.RESULT, False, ""),
    ("a run is held", but(runs='{"runs":[{"run":"x","state":"held"}]}'), Cell.CRASHED, True, "run x is held"),
    ("a run of ours lives", but(GONE, runs='{"runs":[{"run":"x","state":"running"}]}'), Cell.HEALTHY, False, ""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "facts", "cell", "escalate", "said"), TABLE, ids=[row[0] for row in TABLE])
def test_each_cell_of_the_table(name, facts, cell, escalate, said):
    report = look(facts)
    assert (report.cell, report.escalate) == (cell, escalate), report
    assert said in "; ".join(report.reasons)
    assert patrol_lines.lines(report)
    assert patrol_lines.as_json(report)["cell"] == cell


def frozen(newest):
    return but(logs=log(mtime=NOW - 7200, size=100), folders=(far_facts.Folder("/r/ckpt", newest_at=newest),))


def test_a_stall_needs_every_witness_to_be_silent():
    quiet = frozen(NOW - 7200)
    kept = patrolling.remember(quiet, patrolling.Remembered(), NOW - 7000)
    assert look(quiet, kept).cell is Cell.STALLED
    moving = look(frozen(NOW - 30), SEEN)
    assert moving.cell is Cell.HEALTHY
    assert "block-buffered" in moving.notes[0]


GPU = (far_facts.Gpu(0, 0.0, 1000.0, 80000.0),)
NOTES = [
    (but(gpus=GPU), "GPU 0 % while steps advance"),
    (but(gpus=GPU, threads=400), "cap OMP_NUM_THREADS"),
    (but(load=90.0), "noisy neighbour"),
    (but(boot_id="z"), "rebooted since the last look; it runs again"),
]


@pytest.mark.parametrize(("facts", "said"), NOTES)
def test_what_looks_bad_and_is_not_is_a_note_and_calls_nobody(facts, said):
    report = look(facts)
    assert (report.cell, report.escalate) == (Cell.HEALTHY, False)
    assert said in "; ".join(report.notes)


def test_a_gpu_at_0_beside_a_step_that_stands_is_not_excused():
    report = look(but(gpus=GPU), SEEN._replace(step="Epoch 3/9"))
    assert report.notes == ()
    (shown,) = patrol_lines.as_json(report)["seen"]["gpus"]
    assert shown == {"index": 0, "util_pct": 0.0, "mem_used_mib": 1000.0, "mem_total_mib": 80000.0}


@pytest.mark.parametrize(
    ("text", "limit"), [("max", None), ("9223372036854771712", None), ("1000", 1000), ("", None)]
)
def test_a_memory_limit_that_is_none_is_no_limit_and_raises_no_alarm(text, limit):
    answer = f"{far_facts.BEGIN}\nmem.current=950\nmem.max={text}\noom_kill=0\n{far_facts.END}"
    facts = far_facts.parse(answer, far_facts.Questions())
    assert facts.mem_max == limit
    assert ("memory 95%" in "; ".join(look(but(mem_current=950, mem_max=facts.mem_max)).reasons)) == (
        limit == 1000
    )


def test_nothing_said_about_completion_is_not_called_complete_or_dead():
    wanted = patrolling.Expected("b", far_facts.Questions())
    facts = but(GONE, markers={}, results=(), counts={}, logs=(), folders=())
    assert look(facts, wanted=wanted).cell is Cell.NOT_RUNNING


def test_a_failed_run_is_told_of_once_and_a_held_one_until_somebody_answers():
    facts = but(runs='{"runs":[{"run":"x","state":"failed"}]}')
    first, kept = patrol_table.judge(facts, WANTED, SEEN, NOW)
    assert first.cell is Cell.CRASHED
    assert look(facts, kept).cell is Cell.HEALTHY


def test_safe_remedies_are_named_and_others_are_not():
    assert look(GONE).remedy.act is patrolling.Act.RESUME
    assert look(GONE, wanted=WANTED._replace(resume=None)).remedy.act is None
    assert look(but(counts={"/r/data": 1})).remedy.act is patrolling.Act.TRANSFER
    assert look(but(logs=log(crash_at=60, crash="Killed"))).remedy.act is None


CLASSIC = [
    (FINE, "PATROL b: proc=1 done=1/3 epoch=Epoch 3/9 disk=50% inode=10%", "PATROL: healthy / in progress — nothing to do."),
    (GONE, "PATROL b: proc=0 done=1/3", "PATROL: 崩了 — process gone at 1/3 (incomplete)"),
    (but(processes=None), "PATROL b: proc=? done=1/3", "PATROL: 崩了 — "),
    (but(GONE, markers={"/r/DONE": True}, results=(far_facts.Result("/r/res", True, 3),)), "PATROL b: proc=0 done=3/3",
     "PATROL: all 3 done, process exited → load-verify + pull, THEN teardown"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "first", "second"), CLASSIC)
def test_classic_lines(facts, first, second):
    rows = patrol_lines.classic(look(facts), WANTED)
    assert rows[0].startswith(first)
    assert rows[1].startswith(second)


def test_the_classic_line_of_a_box_that_does_not_answer_is_the_only_one():
    rows = patrol_lines.classic(look("gone"), WANTED)
    assert rows == [
        "PATROL b: ssh FAILED — only YOU can see the console (balance / power / preemption). Check it."
    ]


@given(st.text(), st.text())
def test_any_answer_is_parsed_and_never_reads_as_healthy(text, inner):
    for answer in (text, f"{far_facts.BEGIN}\n{inner}", f"{far_facts.BEGIN}\nproc={inner}\n{far_facts.END}"):
        facts = far_facts.parse(answer, Q)
        if facts.processes is None:
            assert look(facts).cell is not Cell.HEALTHY


REFUSED = [
    "a | b",
    "a; b",
    "a;b",
    "a && b",
    "a > f",
    "a 2>&1",
    "echo $(id)",
    "echo `id`",
    "a &",
    'a "$(id)"',
    "a\nb",
    "a 'b",
    " ",
]


@pytest.mark.parametrize("text", REFUSED)
def test_a_stage_that_needs_a_shell_is_refused(text):
    with pytest.raises(errors.UsageError):
        stages.split("s", text)


@pytest.mark.parametrize(
    ("text", "words"),
    [("python t.py --lr 1e-4", ("python", "t.py", "--lr", "1e-4")), ("grep 'a|b;$(c)' f", ("grep", "a|b;$(c)", "f")),
     ('echo "it\'s; ok"', ("echo", "it's; ok")), ("a \\| b", ("a", "|", "b"))],
)  # fmt: skip
def test_quoted_signs_are_data(text, words):
    assert stages.split("s", text) == words
