"""`runward bench diagnose`: labelled logs through the diagnosis."""

import json
import os

import click

from runward.cli import printing


@click.command("diagnose")
@click.argument("cases", metavar="CASES.jsonl")
@click.option("--predictions", metavar="OUT.jsonl", help="Write one prediction a line.")
@click.option("--score", is_flag=True, help="Compare with the labels and print the figures.")
def diagnose(cases: str, predictions: str | None, score: bool) -> int:
    """Diagnose every case; reads id, context and log of each, nothing else, before it scores."""
    from runward.wiring import bench_diagnose as wired

    found = wired.cases(cases)
    guessed = list(wired.predictions(found, os.path.dirname(os.path.abspath(cases))))
    lines = [json.dumps(guess) for guess in guessed]
    if predictions:
        with open(predictions, "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)
    if score:
        printing.as_json(wired.score(found, guessed))
    elif not predictions:
        for line in lines:
            click.echo(line)
    return 0
