"""A volume that only pods see: paths below it are another folder here, in what a pod is asked and in what it says."""

import os


def inside(argv: list[str]) -> list[str]:
    """A command with the pod's paths, as it is run here."""
    theirs, _, ours = os.environ.get("STAND_IN_VOLUME", "").partition("=")
    return [ours + word.removeprefix(theirs) if theirs and word.startswith(theirs) else word for word in argv]


def outside(data: bytes) -> bytes:
    """What was said here, as the pod would say it."""
    theirs, _, ours = os.environ.get("STAND_IN_VOLUME", "").partition("=")
    if not theirs or ours.encode() not in data:
        return data
    with open(os.environ["STAND_IN_SAID"], "ab") as file:
        file.write(data)
    return data.replace(ours.encode(), theirs.encode())
