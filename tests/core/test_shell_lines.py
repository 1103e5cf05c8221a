"""Options in entrypoints that are lines for a shell: given once, in their place, and nothing else is touched."""

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.core import errors, shell_lines

HF = ("--resume_from_checkpoint", "/c x/step_2")
VERL = ("trainer.resume_mode=resume_path", "trainer.resume_from_path=/c x/global_step_2")


@pytest.mark.parametrize(
    ("line", "told", "made"),
    [
        ("python t.py --lr 1", HF, "python t.py --lr 1 --resume_from_checkpoint '/c x/step_2'"),
        (
            "python t.py --resume_from_checkpoint /c/step_1 --lr 1",
            HF,
            "python t.py --resume_from_checkpoint '/c x/step_2' --lr 1",
        ),
        (
            'python t.py --resume_from_checkpoint="$OLD" > "$LOG" 2>&1',
            HF,
            "python t.py --resume_from_checkpoint '/c x/step_2' > \"$LOG\" 2>&1",
        ),
        ("cd $W && python t.py", HF, "cd $W && python t.py --resume_from_checkpoint '/c x/step_2'"),
        (
            "python t.py {resume} | tee log",
            HF,
            "python t.py --resume_from_checkpoint '/c x/step_2' | tee log",
        ),
        ("python t.py {resume} | tee log", (), "python t.py | tee log"),
        ("python t.py --flag", (), "python t.py --flag"),
        (
            "python -m verl.trainer.main_ppo trainer.resume_mode=auto a=1",
            VERL,
            "python -m verl.trainer.main_ppo trainer.resume_mode=resume_path a=1 'trainer.resume_from_path=/c x/global_step_2'",
        ),
        (
            "python m.py +trainer.resume_mode=auto '+trainer.resume_from_path=/old'",
            VERL,
            "python m.py +trainer.resume_mode=resume_path +'trainer.resume_from_path=/c x/global_step_2'",
        ),
        (
            "python t.py --resume_from_checkpoint --lr 1",
            HF,
            "python t.py --resume_from_checkpoint '/c x/step_2' --lr 1",
        ),
    ],
)
def test_an_option_is_given_once_in_its_place(line, told, made):
    assert shell_lines.tell(line, told) == made


@pytest.mark.parametrize(
    "line",
    [
        "python t.py | tee log",
        "python t.py; echo done",
        "python t.py &",
        "bash -c 'python t.py'",
        "/bin/sh -ec 'python t.py'",
        "python t.py --resume_from_checkpoint a --resume_from_checkpoint b",
    ],
)
def test_a_line_whose_end_belongs_to_something_else_is_refused_with_what_to_do(line):
    with pytest.raises(errors.UsageError):
        shell_lines.tell(line, HF)


@given(
    st.lists(
        st.text(st.characters(blacklist_characters="\x00", codec="utf-8"), min_size=1), min_size=1, max_size=5
    )
)
def test_words_are_what_a_shell_makes_of_quoted_ones(given_words):
    assert [one.text for one in shell_lines.words(shlex.join(given_words))] == given_words


@given(st.text(alphabet=" ab'\"\\$;|&<>\n={}-", max_size=30))
def test_no_line_makes_it_raise_anything_but_a_refusal(line):
    try:
        shell_lines.tell(line, HF)
    except errors.UsageError:
        return


def test_a_real_shell_sees_the_option_where_it_was_put():
    line = shell_lines.tell("""printf '%s|' "a b" '$HOME' --load old""", ("--load", "/n e/w"))
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout == "a b|$HOME|--load|/n e/w|"
