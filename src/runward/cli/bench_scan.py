"""`runward bench scan`."""

import click

from runward.cli import printing


@click.command()
@click.option(
    "--mb", type=click.FloatRange(1, 2000), default=20.0, show_default=True, help="Size of each log."
)
@click.option(
    "--engine", type=click.Choice(["pyperscan", "ahocorasick", "stdlib"]), help="Default: the fastest."
)
@click.option(
    "--repeats", type=click.IntRange(1, 20), default=3, show_default=True, help="Of which the median."
)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--check", is_flag=True, help="Exit 1 when a limit is missed.")
def scan(mb: float, engine: str | None, repeats: int, as_json: bool, check: bool) -> int:
    """Measure the scanner beside ripgrep and a plain re loop, on logs made here.

    Needs ripgrep (`pip install 'runward[bench]'`). Takes about a minute with 20 MB.
    """
    from runward.wiring import bench_scan

    answer = bench_scan.run(bench_scan.Plan(mb=mb, engine=engine, repeats=repeats))
    if as_json:
        printing.as_json(answer)
    else:
        click.echo(bench_scan.table(answer))
    return 1 if check and answer["missed"] else 0
