import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.core import checkpoints, errors, repairs, resume
from runward.core.checkpoints import Checkpoint, Form, Listing, Pointer, State

STEP_20 = Checkpoint("/c/step_20", 20, 200.0, State.COMPLETE)
STEP_25 = Checkpoint("/c/step_25", 25, 250.0, State.DAMAGED, "no central directory")
LAST = Checkpoint("/c/last.ckpt", None, 200.0, State.COMPLETE)


def listing(*found, pointers=()):
    return Listing("/c", found, tuple(pointers))


def link(target, exists=True):
    return Pointer(
        "/c/latest", Form.LINK, target, f"/c/{target}" if exists else None, "" if exists else "gone"
    )


def plan(command, template, chosen=STEP_20, mode=None, seen=None):
    how = resume.How(template, mode)
    return resume.plan(shlex.split(command), how, chosen, seen or listing(STEP_20))


@pytest.mark.parametrize(
    ("command", "template", "expected"),
    [
        ("train.py --lr 1", "--load {path}", "train.py --lr 1 --load /c/step_20"),
        ("train.py --load old --lr 1", "--load {path}", "train.py --load /c/step_20 --lr 1"),
        ("train.py --load=old --lr 1", "--load {path}", "train.py --load /c/step_20 --lr 1"),
        ("train.py --load old", "--load={path}", "train.py --load=/c/step_20"),
        ("train.py --load --lr 1", "--load {path}", "train.py --load /c/step_20 --lr 1"),
        ("train.py trainer.ckpt=old a=b", "trainer.ckpt={path}", "train.py trainer.ckpt=/c/step_20 a=b"),
        ("train.py +trainer.ckpt=old", "trainer.ckpt={path}", "train.py +trainer.ckpt=/c/step_20"),
        ("train.py a=b", "+trainer.ckpt={path}", "train.py a=b +trainer.ckpt=/c/step_20"),
        ("train.py {resume} data", "--load {path}", "train.py --load /c/step_20 data"),
        ("sh -c 'train.py {resume} | tee x'", "--load {path}", "sh -c 'train.py --load /c/step_20 | tee x'"),
        ("train.py", "--load {dir} --ckpt-step {step}", "train.py --load /c --ckpt-step 20"),
        ("train.py --ckpt-step 5", "--load {dir} --ckpt-step {step}", "train.py --ckpt-step 20 --load /c"),
        ("train.py --auto data", "--auto", "train.py --auto data"),
        ("train.py --loader x", "--load {path}", "train.py --loader x --load /c/step_20"),
        ("--load train.py", "--load {path}", "--load train.py --load /c/step_20"),
    ],
)
def test_the_option_is_appended_placed_or_replaces_the_one_already_there(command, template, expected):
    assert list(plan(command, template).argv) == shlex.split(expected)


@pytest.mark.parametrize(
    ("command", "template", "said"),
    [
        ("train.py --load a --load b", "--load {path}", "2 times"),
        ("train.py --load a {resume}", "--load {path}", "and {resume} too"),
        ("train.py {resume} {resume}", "--load {path}", "2 times"),
        ("train.py {resume}", None, "what goes there is not said"),
        ("train.py", "--load {pth}", "did you mean 'path'"),
        ("train.py", "--load '{path}", "quotation"),
        ("train.py", "", "empty"),
        ("bash -c 'python train.py'", "--load {path}", "Put {resume}"),
    ],
)
def test_a_wrong_template_is_refused_before_anything_starts(command, template, said):
    with pytest.raises(errors.UsageError) as caught:
        resume.check(shlex.split(command), resume.How(template))
    assert said in str(caught.value)


def test_by_arg_without_a_template_is_refused():
    with pytest.raises(errors.UsageError):
        resume.check(["train.py"], resume.How(None, resume.Mode.ARG))


@pytest.mark.parametrize(
    ("how", "typed"),
    [
        (resume.How("--load {path} --at {step}"), "train.py --load '/c/step 20' --at 20"),
        (
            resume.How(None, resume.Mode.ENV),
            "RUNWARD_RESUME_PATH='/c/step 20' RUNWARD_RESUME_STEP=20 train.py",
        ),
        (resume.How(), "train.py"),
    ],
)
def test_what_a_person_types_to_go_on_is_the_whole_command(how, typed):
    assert resume.by_hand(["train.py"], how, "/c/step 20", 20, "/c") == typed
    assert resume.by_hand(["train.py"], how, None, None, "/c") == "train.py"


def test_with_nothing_to_resume_the_command_stays_and_the_place_vanishes():
    assert plan("train.py {resume} --load mine", "--init {path}", None).argv == ("train.py", "--load", "mine")
    assert plan("train.py --load mine", "--load {path}", None).argv == ("train.py", "--load", "mine")


def test_every_attempt_has_both_variables_and_no_step_is_empty():
    assert plan("t", None, STEP_20).env == {"RUNWARD_RESUME_PATH": "/c/step_20", "RUNWARD_RESUME_STEP": "20"}
    assert plan("t", "--load {path}", LAST).env["RUNWARD_RESUME_STEP"] == ""
    assert plan("t", None, None, seen=listing()).env == {"RUNWARD_RESUME_PATH": "", "RUNWARD_RESUME_STEP": ""}


def test_a_template_that_asks_for_a_step_holds_where_the_name_has_none():
    held = plan("t", "--load {dir} --ckpt-step {step}", LAST)
    assert "no step" in held.problem
    assert held.argv == ("t",)


def test_something_newer_never_holds_a_trainer_that_is_told():
    seen = listing(STEP_20, STEP_25, pointers=[link("step_25")])
    assert plan("t", "--load {path}", seen=seen).problem is None
    assert plan("t", None, mode=resume.Mode.ENV, seen=seen).problem is None


def test_a_trainer_that_looks_for_itself_goes_on_when_its_pointer_is_right():
    seen = listing(STEP_20, STEP_25, pointers=[link("step_20")])
    assert plan("t", None, seen=seen).problem is None


@pytest.mark.parametrize(
    ("seen", "chosen", "commands"),
    [
        (listing(STEP_20, STEP_25), STEP_20, ["mv -T -- /c/step_25 /c/step_25.quarantined"]),
        (
            listing(STEP_20, STEP_25, pointers=[link("step_25")]),
            STEP_20,
            ["mv -T -- /c/step_25 /c/step_25.quarantined", "ln -sfn -- step_20 /c/latest"],
        ),
        (
            listing(STEP_20, pointers=[link("step_30", exists=False)]),
            STEP_20,
            ["ln -sfn -- step_20 /c/latest"],
        ),
        (
            listing(STEP_20, pointers=[Pointer("/c/tracker", Form.TRACKER, "30", None, "gone")]),
            STEP_20,
            ["printf %s 20 > /c/tracker"],
        ),
        (
            listing(STEP_25, pointers=[link("step_25")]),
            None,
            [
                "mv -T -- /c/step_25 /c/step_25.quarantined",
                "mv -T -- /c/latest /c/latest.quarantined",
            ],
        ),
    ],
)
def test_a_trainer_that_would_load_another_one_is_held_with_the_commands_that_mend_it(seen, chosen, commands):
    held = plan("t", None, chosen, seen=seen)
    assert "looks for itself" in held.problem
    assert [repairs.command(one) for one in held.mend] == commands


def test_the_copy_of_the_chosen_step_under_another_name_is_as_good():
    twin = Checkpoint("/c/last.ckpt", 20, 201.0, State.COMPLETE)
    assert plan("t", None, seen=listing(STEP_20, twin)).problem is None


words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@given(st.lists(words, max_size=6), words)
def test_any_words_give_a_plan_or_a_usage_error(argv, template):
    try:
        made = resume.plan(argv, resume.How(template), STEP_20, listing(STEP_20))
    except errors.UsageError:
        return
    assert len(made.argv) >= len([word for word in argv if word != resume.PLACE]) - len(argv)
    assert made.env[resume.ENV_PATH] == STEP_20.path


@given(st.lists(st.sampled_from(["--lr", "1", "--load", "--load=a", "x.y=1", "data"]), max_size=6))
def test_after_planning_the_option_stands_exactly_once_with_the_chosen_path(argv):
    argv = ["train.py", *argv]
    if sum(word == "--load" or word.startswith("--load=") for word in argv) > 1:
        with pytest.raises(errors.UsageError):
            resume.plan(argv, resume.How("--load {path}"), STEP_20, listing(STEP_20))
        return
    made = resume.plan(argv, resume.How("--load {path}"), STEP_20, listing(STEP_20)).argv
    assert [made[i + 1] for i, word in enumerate(made) if word.startswith("--load")] == ["/c/step_20"]
    assert checkpoints.choose([STEP_20]) is STEP_20


@pytest.mark.parametrize(
    ("chosen", "at", "path", "step", "agrees"),
    [
        ("/c/step_20", 20, "/c/step_20", None, True),
        ("/c/step_20", 20, "step_20/", None, True),
        ("/c/step_20", 20, "ckpt/step_20", 21, True),
        ("/c/step_20", 20, "/c/step_20/model.pt", None, True),
        ("/c/step_20", 20, "/c/step_25", None, False),
        ("/c/step_20", 20, "/c", None, None),
        ("/c/step_20", 20, "/c", 20, True),
        ("/c/step_20", 20, "/c/step_20", 25, True),
        ("/c/step_20", 20, None, None, None),
        ("/c/last.ckpt", None, None, 300, None),
        ("/c/last.ckpt", None, "/c/last.ckpt", 300, True),
        (None, None, None, None, None),
        (None, None, "/c/step_20", None, False),
    ],
)
def test_what_the_log_says_was_loaded_is_compared_with_what_was_chosen(chosen, at, path, step, agrees):
    assert resume.agrees(resume.Origin(chosen, at), resume.Origin(path, step)) is agrees
