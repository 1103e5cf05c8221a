"""`runward nodes`: the memory of bad nodes and GPUs."""

import time

import click

from runward.cli import printing


@click.group()
def nodes() -> None:
    """Look at nodes that failed before, and forgive them. Marks lose half their weight in a week."""


@nodes.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--known", default=0, metavar="N", help="Nodes in the cluster: at most a tenth is proposed.")
def ls(as_json: bool, known: int) -> None:
    """List nodes with marks, worst first, and which are proposed to be left out."""
    from runward.core import durations
    from runward.core import nodes as core
    from runward.wiring import nodes as wiring

    now = time.time()
    table = core.standings(wiring.open_memory().marks(), now, known)
    if as_json:
        rows = [
            {
                "node": s.node,
                "weight": round(s.weight, 3),
                "proposed": s.proposed,
                "capped": s.capped,
                "gpus": list(s.gpus),
                "marks": [
                    {"at": m.at, "cause": str(m.cause), "run": m.run, "gpu": m.gpu, "text": m.text}
                    for m in s.marks
                ],
            }
            for s in table
        ]
        printing.as_json({"schema_version": 1, "nodes": rows})
        return
    for standing in table:
        word = "leave out" if standing.proposed else "capped" if standing.capped else "watch"
        newest = standing.marks[0]
        age = durations.format_duration(max(0.0, now - newest.at))
        print(
            f"{standing.node}  {word}  weight {standing.weight:.2f}  {newest.cause} {age} ago in {newest.run}"
        )
    if not table:
        print("no node has a mark")


@nodes.command()
@click.argument("node")
@click.option("--gpu", default=None, metavar="UUID", help="Only the marks of this GPU.")
def forgive(node: str, gpu: str | None) -> None:
    """Forget the marks of NODE: it was repaired."""
    from runward.core import errors
    from runward.wiring import nodes as wiring

    memory = wiring.open_memory()
    known = sorted({mark.node for mark in memory.marks()})
    count = memory.forgive(node, gpu)
    if not count:
        raise errors.NotFound(
            errors.Problem(
                f"no marks of {node!r}",
                nearest=errors.nearest(node, known),
                next_step="See runward nodes ls.",
            )
        )
    click.echo(f"forgot {count} marks of {node}", err=True)
