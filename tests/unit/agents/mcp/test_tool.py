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


def make_tool(**listed: Any) -> McpTool:
    fields = {"name": "t", "inputSchema": SCHEMA, **listed}
    return McpTool("s-t", ListedTool.model_validate(fields), McpServer.stdio("s", "no-such-program"), Owner())


class RecordingHost:
    """A host of a runtime, which records heartbeats."""

    def __init__(self) -> None:
        self.beats: list[str] = []

    def heartbeat(self) -> None:
        self.beats.append(threading.current_thread().name)


def test_a_tool_has_the_description_of_the_server() -> None:
    tool = make_tool(description="d", annotations={"destructiveHint": True})
    assert (tool.name, tool.remote_name, tool.description, tool.parameters) == ("s-t", "t", "d", SCHEMA)
    assert tool.annotations == {"destructiveHint": True}
    assert (make_tool(title="Title").description, make_tool().description, make_tool().annotations) == ("Title", "", {})


@pytest.mark.parametrize("value", [object(), float("inf"), "\ud800", {1: object()}])
def test_arguments_that_are_not_json_are_refused_before_the_server_starts(value: object) -> None:
    with pytest.raises(ToolError, match="arguments of tool 's-t' cannot be written as JSON"):
        asyncio.run(make_tool().call({"x": value}, context=ToolContext()))


def test_a_server_that_cannot_be_started_is_reported_to_the_caller() -> None:
    with pytest.raises(ToolError, match="'no-such-program'"):
        asyncio.run(make_tool().call({}, context=ToolContext()))


def test_progress_is_reported_on_the_loop_of_the_call_and_sends_a_heartbeat() -> None:
    host, reports = RecordingHost(), list[tuple[str, Any]]()

    def write(value: Any) -> None:
        reports.append((threading.current_thread().name, value))

    async def run() -> None:
        runtime: Runtime[Any] = Runtime(host)  # type: ignore[arg-type]
        progress = _ProgressReporter("s-t", ToolContext(stream_writer=write, runtime=runtime))
        other = threading.Thread(target=lambda: asyncio.run(progress(1, None, None)))
        other.start()
        other.join()
        await asyncio.sleep(0)

    asyncio.run(run())
    thread_name = threading.current_thread().name
    assert reports == [(thread_name, {"type": "tool_progress", "tool": "s-t", "call": None, "progress": 1})]
    assert host.beats == [thread_name]
