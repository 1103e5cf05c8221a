"""`runward mcp`: tools for coding agents over stdin and stdout."""

import click


@click.command()
@click.option(
    "--allow-actions", is_flag=True, help="Offer stop and restart, too. Without it nothing can be changed."
)
def mcp(allow_actions: bool) -> None:
    """Serve tools: runs, status, diagnosis, events, logs, checkpoints, patrol, bounded wait."""
    from runward.wiring import serving_tools

    serving_tools.serve(allow_actions=allow_actions)
