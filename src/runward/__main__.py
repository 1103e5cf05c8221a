"""`runward` and `python -m runward`: hands over to the command line and nothing else."""

import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    from runward.cli import entry  # noqa: PLC0415 -- the traceback of a broken install should name this line

    sys.exit(entry.run(sys.argv[1:]))


if __name__ == "__main__":
    main()
