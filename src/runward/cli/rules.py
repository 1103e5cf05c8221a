"""`runward rules`: list, test, explain and lint the diagnosis rules."""

import click

from runward.cli import printing, rules_match


@click.group()
def rules() -> None:
    """The rules that say what a log line means. Your own lie in the config directory, under rules/."""


rules.add_command(rules_match.match, "match")


@rules.command("ls")
@click.option("--family", help="Only this family.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def ls(family: str | None, as_json: bool) -> int:
    """Every rule: name, role, cause, weight."""
    from runward.wiring import rules as wired

    ruleset = wired.loaded()
    found = list(wired.rows(ruleset, family))
    for problem in ruleset.problems:
        printing.said(f"refused: {problem}")
    if as_json:
        printing.as_json({"schema_version": 1, "rules": found})
        return 0
    for row in found:
        cause = row["cause"] or ""
        click.echo(
            f"{row['family']!s:<12} {row['name']!s:<30} {row['role']!s:<9} {row['weight']!s:>3} {cause}"
        )
    return 0


@rules.command("test")
@click.argument("files", nargs=-1, metavar="[FILE...]")
def test(files: tuple[str, ...]) -> int:
    """Run the example lines of FILE (none: of all rules). Exit 1 when one does not hold."""
    from runward.wiring import rules as wired

    count, faults = wired.tested(files)
    for fault in faults:
        click.echo(f"{fault.rule}: {fault.what}")
    printing.said(f"{count} rules, {len(faults)} faults")
    return int(bool(faults))


@rules.command("explain")
@click.argument("line")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def explain(line: str, as_json: bool) -> int:
    """Which rules a LINE hits, and what stands before its message."""
    from runward.wiring import rules as wired

    found = wired.explained(wired.loaded(), line)
    if as_json:
        printing.as_json({"schema_version": 1, **found})
        return 0
    click.echo(f"rank {found['rank']}, node {found['node']}, message: {found['message']}")
    hits = found["rules"]
    for hit in hits if isinstance(hits, list) else []:
        fields = ", ".join(f"{k}={v}" for k, v in hit["fields"].items())
        click.echo(f"  {hit['weight']:>3} {hit['role']:<9} {hit['cause'] or '':<22} {hit['name']}  {fields}")
    return 0


@rules.command("lint")
@click.argument("files", nargs=-1, metavar="[FILE...]")
def lint(files: tuple[str, ...]) -> int:
    """Look for rules that fire on a healthy log or are slow on long lines. Exit 1 when there is one."""
    from runward.wiring import rules as wired

    faults = wired.linted(files)
    for fault in faults:
        click.echo(f"{fault.rule}: {fault.what}")
    return int(bool(faults))
