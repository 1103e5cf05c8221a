"""Names that must not be mixed up. They are strings at run time and types for the checker."""

from typing import NewType

RunName = NewType("RunName", str)
"""What the user calls a run; `demo~1` is an older run of the same name."""

JobId = NewType("JobId", str)
"""The backend's own id of what it executes for one attempt: a pid, a container id, a Slurm job id."""

Token = NewType("Token", str)
"""`<run>-<attempt>-<nonce>`: journalled before a submit, findable in every backend afterwards."""

NodeName = NewType("NodeName", str)


def token(run: str, attempt: int, nonce: str) -> Token:
    """The token of an attempt; `nonce` makes a re-used run name harmless."""
    return Token(f"{run}-{attempt}-{nonce}")
