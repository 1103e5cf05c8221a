"""`runward` and `python -m runward`: hands over to the command line and nothing else."""

import gc
import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    # What is imported stays: looking through it for garbage is a twentieth of a short verb's processor time.
    gc.disable()
    from runward.cli import entry  # noqa: PLC0415 -- the traceback of a broken install should name this line

    gc.freeze()
    gc.enable()
    sys.exit(entry.run(sys.argv[1:]))


if __name__ == "__main__":
    main()
