"""The verdict on a log by the shipped rules, which are made ready once."""

import functools
from collections.abc import Mapping

from runward.core import failures
from runward.wiring import diagnose

_engine = functools.cache(diagnose.engine)


def judge(log: str | Mapping[str, str], **context: object) -> failures.Diagnosis:
    """Of one log, or of one a name; `context`: what is known beside it."""
    case = {"context": context, "log" if isinstance(log, str) else "logs": log}
    return diagnose.case(_engine(), case, ".")


def verdict(log: str | Mapping[str, str], **context: object) -> failures.Verdict:
    """The verdict alone."""
    return judge(log, **context).verdict


def blame(log: str | Mapping[str, str], code: int = 1, **context: object) -> tuple[str, str, int | None]:
    """Cause, action and rank; of a run that ended with `code` where nothing else is told of it."""
    found = verdict(log, **(context or {"exit_code": code}))
    return found.cause, found.action, found.rank


def answer(log: str | Mapping[str, str], code: int = 1, **context: object) -> tuple[str, str]:
    """Cause and action, as `blame`."""
    cause, action, _ = blame(log, code, **context)
    return cause, action


def guess(log: str | Mapping[str, str], **context: object) -> tuple[str, int | None]:
    """Cause and rank, as `blame`."""
    cause, _, rank = blame(log, **context)
    return cause, rank


def said(front: str, text: str) -> str:
    """`text` with `front` before each line."""
    return "".join(f"{front}{line}\n" for line in text.splitlines())


def evidence(log: str, **context: object) -> tuple[failures.Evidence, ...]:
    """The lines that prove the verdict on a log."""
    return judge(log, **context).evidence
