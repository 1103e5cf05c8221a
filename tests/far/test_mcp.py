"""The tool server, asked by the official client."""

import asyncio
import os
import sys

import pytest

pytestmark = pytest.mark.e2e


async def _tools(tmp_path, *more):
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    env = {**os.environ, "RUNWARD_STATE_DIR": str(tmp_path)}
    params = StdioServerParameters(command=sys.executable, args=["-m", "runward", "mcp", *more], env=env)
    async with stdio_client(params) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        if not more:
            await _ask(session, tmp_path)
        names = {tool.name for tool in (await session.list_tools()).tools}
        answer = await session.call_tool("list_runs", {})
        missing = await session.call_tool("run_status", {"run": "$(touch pwned) none"})
        return names, answer.content[0].text, missing.content[0].text


async def _ask(session, tmp_path):
    looked = await session.call_tool("patrol", {"targets": ["local:"]})
    assert '"cell"' in looked.content[0].text
    asked = {"targets": ["local:"], "match": "no[.]such", "log": f"{tmp_path}/none", "marker": "--act"}
    looked = await session.call_tool("patrol", asked)
    assert f"log {tmp_path}/none: not there" in looked.content[0].text
    hostile = await session.call_tool("patrol", {"targets": ["ssh:-oProxyCommand=touch pwned/", "--act"]})
    assert "exit 2" in hostile.content[0].text
    waited = await session.call_tool("wait", {"target": f"file:{tmp_path}/none", "timeout_s": 0.1})
    assert '"met": false' in waited.content[0].text


@pytest.mark.filterwarnings("default")
def test_actions_are_offered_only_when_it_was_started_so(tmp_path):
    names, answer, missing = asyncio.run(_tools(tmp_path))
    assert {"list_runs", "why_did_it_end", "patrol", "wait"} <= names
    assert not names & {"stop_run", "restart_run"}
    assert '"runs"' in answer
    assert "exit 3" in missing
    names, _, _ = asyncio.run(_tools(tmp_path, "--allow-actions"))
    assert {"stop_run", "restart_run"} <= names
