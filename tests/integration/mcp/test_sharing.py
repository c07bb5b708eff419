"""One connection shared by many calls, event loops and owners."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypedDict

import pytest
from tests.mcp_servers import by_name, call, eventually, everything, is_alive, program, small, wild

from statewright import START, Runtime, StateGraph
from statewright.agents import Agent
from statewright.agents.mcp import McpServer, McpTools, McpUnavailableWarning
from statewright.agents.tools import ToolContext
from statewright.errors import ToolError
from statewright.models import ScriptedModel

NOTHING = ToolContext()


class State(TypedDict, total=False):
    n: int
    result: int


def count_starts(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def test_fifty_concurrent_first_calls_connect_once(tmp_path: Path) -> None:
    log = tmp_path / "count_starts"
    with McpTools([small(env={"STARTS": str(log)})]) as tools:

        def add(number: int) -> object:
            return call(by_name(tools)["add"], a=number, b=0)["result"]

        with ThreadPoolExecutor(50) as pool:
            assert list(pool.map(add, range(50))) == list(range(50))
        assert count_starts(log) == 1


def test_fifty_calls_run_concurrently() -> None:
    async def run(tools: McpTools) -> list[object]:
        meet = {tool.remote_name: tool for tool in await tools.tools()}["meet"]
        return await asyncio.gather(*(meet.call({"count": 50}, context=NOTHING) for _ in range(50)))

    with McpTools([small()]) as tools:
        assert asyncio.run(run(tools)) == [{"result": 50}] * 50


def test_three_event_loops_share_a_connection(tmp_path: Path) -> None:
    log = tmp_path / "count_starts"
    with McpTools([small(env={"STARTS": str(log)})]) as tools:
        process = by_name(tools)["process"]
        processes: list[object] = [call(process), call(process)]
        thread = threading.Thread(target=lambda: processes.append(call(process)))
        thread.start()
        thread.join()
        assert len(processes) == 3
        assert processes[0] == processes[1] == processes[2]
        assert count_starts(log) == 1


def test_sync_async_and_streamed_runs_share_a_connection(tmp_path: Path) -> None:
    log = tmp_path / "count_starts"
    with McpTools([small(env={"STARTS": str(log)})]) as tools:

        async def node(state: State, runtime: Runtime) -> dict[str, int]:
            by_remote_name = {tool.remote_name: tool for tool in await tools.tools()}
            context = ToolContext(runtime=runtime, stream_writer=runtime.stream_writer)
            await by_remote_name["count"].call({"to": 2}, context=context)
            return await by_remote_name["add"].call({"a": state["n"], "b": 1}, context=context)

        graph = StateGraph(State).add_node("node", node).add_edge(START, "node")
        app = graph.compile()
        with ThreadPoolExecutor(3) as pool:
            answers = list(pool.map(lambda n: app.invoke({"n": n})["result"], range(3)))
        assert answers == [1, 2, 3]
        assert asyncio.run(app.ainvoke({"n": 5}))["result"] == 6
        progress = [part["progress"] for part in app.stream({"n": 1}, stream_mode="custom")]
        assert progress == [1, 2]
        assert count_starts(log) == 1


def test_a_cancelled_call_is_cancelled_on_the_server(tmp_path: Path) -> None:
    file = tmp_path / "hang"

    async def run(tools: McpTools) -> None:
        hang = {tool.remote_name: tool for tool in await tools.tools()}["hang"]
        task = asyncio.create_task(hang.call({"file": str(file)}, context=NOTHING))
        while not file.exists():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with McpTools([small()]) as tools:
        asyncio.run(run(tools))
        assert eventually(lambda: file.read_text(encoding="utf-8") == "cancelled")
        assert call(by_name(tools)["add"], a=1, b=1) == {"result": 2}


def test_cancelling_one_caller_during_connection_does_not_affect_the_others(tmp_path: Path) -> None:
    log, go = tmp_path / "count_starts", tmp_path / "go"

    async def run(tools: McpTools) -> int:
        first = asyncio.create_task(tools.tools())
        second = asyncio.create_task(tools.tools())
        while not log.exists():
            await asyncio.sleep(0.01)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        go.touch()
        return len(await second)

    with McpTools([small("--wait", str(go), env={"STARTS": str(log)})]) as tools:
        assert asyncio.run(run(tools)) == 7


def test_owners_share_an_equal_server_until_the_last_one_closes() -> None:
    first, second = McpTools([small()]), McpTools([small(timeout=600)])
    process = call(by_name(first)["process"])["result"]
    assert call(by_name(second)["process"])["result"] == process
    first.close()
    assert call(by_name(second)["process"])["result"] == process
    second.close()
    assert not is_alive(process)


def test_servers_that_differ_in_a_secret_are_not_shared() -> None:
    with McpTools([small(env={"KEY": "1"})]) as first, McpTools([small(env={"KEY": "2"})]) as second:
        values = [call(by_name(tools)["variable"], name="KEY") for tools in (first, second)]
        assert values == [{"result": "1"}, {"result": "2"}]


def test_a_garbage_collected_owner_is_closed_but_its_tools_keep_it_alive() -> None:
    process = by_name(McpTools([small()]))["process"]
    gc.collect()
    number = call(process)["result"]
    assert call(process)["result"] == number
    del process
    gc.collect()
    assert eventually(lambda: not is_alive(number))


def test_garbage_collected_agents_leave_no_server_processes(tmp_path: Path) -> None:
    """No timer, loop or cache may keep a run and its agent alive."""
    log = tmp_path / "count_starts"

    def run_agent(number: int) -> None:
        server = small(env={"STARTS": str(log), "NUMBER": str(number)})
        Agent("a", model=ScriptedModel(["hi"]), mcp_servers=[server]).run("go")

    for number in range(3):
        run_agent(number)
    programs = [int(line) for line in log.read_text(encoding="utf-8").split()]
    assert len(programs) == 3

    def all_gone() -> bool:
        gc.collect()
        return not any(map(is_alive, programs))

    assert eventually(all_gone)


def test_using_closed_tools_is_an_error() -> None:
    with McpTools([small()]) as tools:
        add = by_name(tools)["add"]
    with pytest.raises(ToolError, match=r"are closed"):
        call(add, a=1, b=1)
    with pytest.raises(ToolError, match=r"are closed"):
        tools.load()


def test_closing_during_connection_ends_the_server_process(tmp_path: Path) -> None:
    log = tmp_path / "count_starts"

    async def run() -> None:
        tools = McpTools([small("--wait", str(tmp_path / "never"), env={"STARTS": str(log)})])
        task = asyncio.create_task(tools.tools())
        while not log.exists():
            await asyncio.sleep(0.01)
        async with tools:
            pass
        with pytest.raises(ToolError, match=r"was closed before it was connected"):
            await task

    asyncio.run(run())
    assert eventually(lambda: not is_alive(int(log.read_text(encoding="utf-8"))))


def test_the_error_names_every_unavailable_server() -> None:
    servers = [McpServer.stdio("a", "no-such-a"), small(), McpServer.stdio("b", "no-such-b")]
    with McpTools(servers) as tools, pytest.raises(ToolError, match=r"(?s)'no-such-a'.*'no-such-b'"):
        tools.load()


def test_unavailable_servers_can_be_omitted_with_a_warning() -> None:
    with McpTools([McpServer.stdio("a", "no-such-a"), small()], on_unavailable="warn") as tools:
        with pytest.warns(McpUnavailableWarning, match=r"MCP server 'a' .*'no-such-a'.* could not be started"):
            by_remote_name = tools.load()
        assert {tool.server.name for tool in by_remote_name} == {"e"}


def test_only_allowed_tools_are_loaded() -> None:
    with McpTools([small(allowed_tools=["say", "add"])]) as tools:
        assert [tool.name for tool in tools.load()] == ["e-add", "e-say"]
    with (
        McpTools([small(allowed_tools=["sya"])]) as tools,
        pytest.raises(ToolError, match=r"has no tool 'sya', which is in allowed_tools. Did you mean 'say'"),
    ):
        tools.load()


def test_a_tool_is_found_by_either_of_its_names() -> None:
    async def run(tools: McpTools) -> None:
        assert (await tools.tool("e-add")).remote_name == "add"
        assert (await tools.tool("add")).name == "e-add"
        assert (await tools.tool("echo", server="w")).name == "w-echo"
        with pytest.raises(ToolError, match=r"MCP server 'e' has no tool 'ad'. Did you mean 'add'"):
            await tools.tool("ad", server="e")
        with pytest.raises(ToolError, match=r"Several MCP servers have a tool 'grow'. Use a full name: e-grow, w-grow"):
            await tools.tool("grow")
        with pytest.raises(ToolError, match=r"MCP server 'x' does not exist. Servers: e, off, w"):
            await tools.tool("add", server="x")
        with pytest.raises(ToolError, match=r"MCP server 'off' .* is disabled"):
            await tools.tool("add", server="off")

    servers = [everything(), program(file="wild.py", name="w"), program("stdio", name="off", enabled=False)]
    with McpTools(servers) as tools:
        asyncio.run(run(tools))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_opens_its_own_connections() -> None:
    with McpTools([wild()]) as tools:
        echo = by_name(tools)["echo"]
        parent_answer = call(echo)
        reading, writing = os.pipe()
        if os.fork() == 0:
            answer = call(echo)
            tools.close()
            os.write(writing, answer.encode())
            os._exit(0)
        os.close(writing)
        child_answer = os.read(reading, 1000).decode()
        os.close(reading)
        os.wait()
        assert child_answer
        assert child_answer != parent_answer
        assert call(echo) == parent_answer
