"""`runward logs RUN`: the output of an attempt, packed pieces included."""

import click


@click.command()
@click.argument("run")
@click.option("-f", "--follow", is_flag=True, help="Stay, and print what comes, until the run has ended.")
@click.option("--attempt", type=click.IntRange(min=1), help="Which attempt; the last when not given.")
@click.option(
    "--rank", type=click.IntRange(min=0), help="Only lines of that rank ([rank3]:, [default3]:, 3:)."
)
@click.option("-g", "--grep", metavar="REGEX", help="Only lines that match.")
@click.option("-n", "--lines", type=click.IntRange(min=0), help="Only the last N lines.")
def logs(
    run: str, follow: bool, attempt: int | None, rank: int | None, grep: str | None, lines: int | None
) -> None:
    """Print what an attempt wrote."""
    from runward.wiring import log_reading

    wanted = log_reading.Wanted(run, attempt, rank, grep, lines, follow)
    log_reading.write(wanted)
