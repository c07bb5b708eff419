"""A connection that opens a new session when the last one has ended."""

import asyncio
import sys
from pathlib import Path

import pytest

from statewright.agents.mcp import McpServer
from statewright.agents.mcp.session import Connection
from statewright.errors import ToolError


def test_a_failed_start_is_retried_only_by_the_next_call(tmp_path: Path) -> None:
    log = tmp_path / "starts"
    code = f"open({str(log)!r}, 'a').write('x')"

    async def run() -> None:
        connection = Connection(McpServer.stdio("s", sys.executable, ["-c", code]))
        for count in (1, 2):
            answers = await asyncio.gather(*(connection.tools() for _ in range(5)), return_exceptions=True)
            assert {type(answer) for answer in answers} == {ToolError}
            assert len(log.read_text(encoding="utf-8")) == count
        await connection.close()

    asyncio.run(run())


def test_an_unopened_connection_can_be_closed() -> None:
    connection = Connection(McpServer.stdio("s", "no-such-program"))
    asyncio.run(connection.close())
    assert connection.owners == set()


def test_a_closed_connection_can_be_opened_again() -> None:
    async def run() -> None:
        connection = Connection(McpServer.stdio("s", "no-such-program"))
        for _ in range(2):
            with pytest.raises(ToolError, match="could not be started"):
                await connection.tools()
            await connection.close()

    asyncio.run(run())
