"""Names that must not be mixed up. They are strings at run time and types for the checker."""

from typing import NewType

Token = NewType("Token", str)
"""`<run>-<attempt>-<nonce>`: journalled before a submit, findable in every backend afterwards."""


def token(run: str, attempt: int, nonce: str) -> Token:
    """The token of an attempt; `nonce` makes a re-used run name harmless."""
    return Token(f"{run}-{attempt}-{nonce}")
