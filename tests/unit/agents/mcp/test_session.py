"""Sessions that cannot be opened."""

import asyncio

import pytest

from statewright.agents.mcp import McpServer
from statewright.agents.mcp.session import Session
from statewright.errors import ToolError


def test_everybody_who_waits_hears_why_it_could_not_be_opened() -> None:
    async def run() -> None:
        session = Session(McpServer.stdio("s", "no-such-program"))
        answers = await asyncio.gather(session.client(), session.tools(), return_exceptions=True)
        assert session.is_over
        assert [type(answer) for answer in answers] == [ToolError, ToolError]
        assert len({str(answer) for answer in answers}) == 1
        await session.close()

    asyncio.run(run())


def test_one_that_is_closed_at_once_says_so() -> None:
    async def run() -> None:
        session = Session(McpServer.stdio("s", "no-such-program"))
        await session.close()
        with pytest.raises(ToolError, match="was closed before it was connected"):
            await session.client()

    asyncio.run(run())
