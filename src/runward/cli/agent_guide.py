"""`runward agent-guide`: how a coding agent uses Runward, as a skill file."""

from importlib import resources

import click

from runward.cli import printing


@click.command("agent-guide")
def agent_guide() -> None:
    """Print the guide for coding agents (Markdown with a skill's header)."""
    printing.data(resources.files("runward.cli").joinpath("agent_guide.md").read_text("utf-8").rstrip())
