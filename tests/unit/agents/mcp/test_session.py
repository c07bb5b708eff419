"""Sessions that cannot be opened."""

import asyncio

import pytest

from statewright.agents.mcp import McpServer
from statewright.agents.mcp.session import Session
from statewright.errors import ToolError


def test_a_failed_start_is_reported_to_all_waiting_callers() -> None:
    async def run() -> None:
        session = Session(McpServer.stdio("s", "no-such-program"))
        answers = await asyncio.gather(session.client(), session.tools(), return_exceptions=True)
        assert session.is_over
        assert [type(answer) for answer in answers] == [ToolError, ToolError]
        assert len({str(answer) for answer in answers}) == 1
        await session.close()

    asyncio.run(run())


def test_a_session_closed_before_it_is_connected_raises_an_error() -> None:
    async def run() -> None:
        session = Session(McpServer.stdio("s", "no-such-program"))
        await session.close()
        with pytest.raises(ToolError, match="was closed before it was connected"):
            await session.client()

    asyncio.run(run())
