"""Commands that answer a question: may the job start, is it finished? Three answers, with what was said."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """`met` None: the command itself failed, and nothing is known."""

    met: bool | None
    said: str


def answer(code: int | None, stdout: str, *, timed_out: bool = False) -> Answer:
    r"""The answer of a command: yes is the number 1 on stdout, or exit code 0 with nothing on stdout.

    >>> [answer(*done).met for done in ((0, "1\n"), (0, ""), (0, "0"), (1, ""), (1, "1"), (2, ""), (127, ""))]
    [True, True, False, False, True, None, None]
    """
    word = stdout.strip()
    if timed_out or code is None:
        return Answer(None, "ended at its deadline" if timed_out else "did not end by itself")
    if word:
        return Answer(_is_one(word), f"said {word[:80]!r}")
    if code in (0, 1):
        return Answer(code == 0, f"exit code {code}")
    return Answer(None, f"exit code {code}")


def _is_one(word: str) -> bool:
    try:
        return int(word) == 1
    except ValueError:
        return False
