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


def evidence(log: str, **context: object) -> tuple[failures.Evidence, ...]:
    """The lines that prove the verdict on a log."""
    return judge(log, **context).evidence
