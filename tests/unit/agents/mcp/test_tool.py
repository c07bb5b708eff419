"""A tool of a server, without a server."""

import asyncio
import threading
from typing import Any

import pytest
from mcp_types import Tool as ListedTool

from statewright.agents.mcp import McpServer, McpTool
from statewright.agents.mcp.host import Owner
from statewright.agents.mcp.tools import _ProgressReporter
from statewright.agents.tools import ToolContext
from statewright.errors import ToolError
from statewright.graph import Runtime

SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}


def made(**listed: Any) -> McpTool:
    given = {"name": "t", "inputSchema": SCHEMA, **listed}
    return McpTool("s-t", ListedTool.model_validate(given), McpServer.stdio("s", "no-such-program"), Owner())


class Heart:
    """What a runtime asks of its host, as far as it is needed here."""

    def __init__(self) -> None:
        self.beats: list[str] = []

    def heartbeat(self) -> None:
        self.beats.append(threading.current_thread().name)


def test_a_tool_is_what_the_server_says() -> None:
    tool = made(description="d", annotations={"destructiveHint": True})
    assert (tool.name, tool.remote_name, tool.description, tool.parameters) == ("s-t", "t", "d", SCHEMA)
    assert tool.annotations == {"destructiveHint": True}
    assert (made(title="Title").description, made().description, made().annotations) == ("Title", "", {})


@pytest.mark.parametrize("wrong", [object(), float("inf"), "\ud800", {1: object()}])
def test_arguments_that_are_no_json_are_refused_before_anything_is_started(wrong: object) -> None:
    with pytest.raises(ToolError, match="arguments of tool 's-t' cannot be written as JSON"):
        asyncio.run(made().call({"x": wrong}, context=ToolContext()))


def test_what_keeps_a_server_from_starting_is_told_to_who_calls() -> None:
    with pytest.raises(ToolError, match="'no-such-program'"):
        asyncio.run(made().call({}, context=ToolContext()))


def test_progress_is_told_on_the_loop_of_the_call_and_is_a_heartbeat() -> None:
    heart, told = Heart(), list[tuple[str, Any]]()

    def write(value: Any) -> None:
        told.append((threading.current_thread().name, value))

    async def run() -> None:
        runtime: Runtime[Any] = Runtime(heart)  # type: ignore[arg-type]
        progress = _ProgressReporter("s-t", ToolContext(stream_writer=write, runtime=runtime))
        other = threading.Thread(target=lambda: asyncio.run(progress(1, None, None)))
        other.start()
        other.join()
        await asyncio.sleep(0)

    asyncio.run(run())
    here = threading.current_thread().name
    assert told == [(here, {"type": "tool_progress", "tool": "s-t", "call": None, "progress": 1})]
    assert heart.beats == [here]
