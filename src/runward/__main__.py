"""`runward` and `python -m runward`: hands over to the command line and nothing else."""

import gc
import io
import os
import sys


def _ready_all_three() -> None:
    """Streams that take any text, whatever the locale; one that the caller closed lends its number to no file."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one's
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115 -- stays
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # names are bytes, and no word of ours is worth a crash


def main() -> None:
    """Run the command line and leave with its exit code."""
    _ready_all_three()
    # What is imported stays: looking through it for garbage is a twentieth of a short verb's processor time.
    gc.disable()
    from runward.cli import entry  # noqa: PLC0415 -- the traceback of a broken install should name this line

    gc.freeze()
    gc.enable()
    if (
        sys.stdout.errors == "strict"
    ):  # a character that the terminal lacks is written as its number, and ends nothing
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(entry.run(sys.argv[1:]))


if __name__ == "__main__":
    main()
