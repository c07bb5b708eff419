"""One connection for everybody: many calls, several event loops, several owners."""

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


def starts(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines())


def test_fifty_that_race_to_be_first_connect_once(tmp_path: Path) -> None:
    log = tmp_path / "starts"
    with McpTools([small(env={"STARTS": str(log)})]) as tools:

        def first(number: int) -> object:
            return call(by_name(tools)["add"], a=number, b=0)["result"]

        with ThreadPoolExecutor(50) as pool:
            assert list(pool.map(first, range(50))) == list(range(50))
        assert starts(log) == 1


def test_fifty_calls_at_a_time_run_side_by_side() -> None:
    async def run(tools: McpTools) -> list[object]:
        meet = {tool.remote_name: tool for tool in await tools.tools()}["meet"]
        return await asyncio.gather(*(meet.call({"count": 50}, context=NOTHING) for _ in range(50)))

    with McpTools([small()]) as tools:
        assert asyncio.run(run(tools)) == [{"result": 50}] * 50


def test_three_event_loops_share_a_connection(tmp_path: Path) -> None:
    log = tmp_path / "starts"
    with McpTools([small(env={"STARTS": str(log)})]) as tools:
        process = by_name(tools)["process"]
        seen: list[object] = [call(process), call(process)]
        other = threading.Thread(target=lambda: seen.append(call(process)))
        other.start()
        other.join()
        assert len(seen) == 3
        assert seen[0] == seen[1] == seen[2]
        assert starts(log) == 1


def test_runs_of_a_graph_share_a_connection_however_they_are_driven(tmp_path: Path) -> None:
    log = tmp_path / "starts"
    with McpTools([small(env={"STARTS": str(log)})]) as tools:

        async def node(state: State, runtime: Runtime) -> dict[str, int]:
            known = {tool.remote_name: tool for tool in await tools.tools()}
            context = ToolContext(runtime=runtime, stream_writer=runtime.stream_writer)
            await known["count"].call({"to": 2}, context=context)
            return await known["add"].call({"a": state["n"], "b": 1}, context=context)

        graph = StateGraph(State).add_node("node", node).add_edge(START, "node")
        app = graph.compile()
        with ThreadPoolExecutor(3) as pool:
            answers = list(pool.map(lambda n: app.invoke({"n": n})["result"], range(3)))
        assert answers == [1, 2, 3]
        assert asyncio.run(app.ainvoke({"n": 5}))["result"] == 6
        told = [part["progress"] for part in app.stream({"n": 1}, stream_mode="custom")]
        assert told == [1, 2]
        assert starts(log) == 1


def test_a_call_that_is_cancelled_is_cancelled_at_the_server(tmp_path: Path) -> None:
    file = tmp_path / "hang"

    async def run(tools: McpTools) -> None:
        hang = {tool.remote_name: tool for tool in await tools.tools()}["hang"]
        calling = asyncio.create_task(hang.call({"file": str(file)}, context=NOTHING))
        while not file.exists():
            await asyncio.sleep(0.01)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

    with McpTools([small()]) as tools:
        asyncio.run(run(tools))
        assert eventually(lambda: file.read_text(encoding="utf-8") == "cancelled")
        assert call(by_name(tools)["add"], a=1, b=1) == {"result": 2}


def test_one_that_is_cancelled_while_connecting_leaves_the_others_waiting(tmp_path: Path) -> None:
    log, go = tmp_path / "starts", tmp_path / "go"

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


def test_owners_that_describe_a_server_alike_share_it_and_the_last_one_ends_it() -> None:
    one, other = McpTools([small()]), McpTools([small(timeout=600)])
    process = call(by_name(one)["process"])["result"]
    assert call(by_name(other)["process"])["result"] == process
    one.close()
    assert call(by_name(other)["process"])["result"] == process
    other.close()
    assert not is_alive(process)


def test_servers_that_differ_in_a_secret_are_not_shared() -> None:
    with McpTools([small(env={"KEY": "1"})]) as one, McpTools([small(env={"KEY": "2"})]) as other:
        values = [call(by_name(tools)["variable"], name="KEY") for tools in (one, other)]
        assert values == [{"result": "1"}, {"result": "2"}]


def test_an_owner_that_nobody_holds_counts_as_closed_but_tools_hold_their_owner() -> None:
    process = by_name(McpTools([small()]))["process"]
    gc.collect()
    number = call(process)["result"]
    assert call(process)["result"] == number
    del process
    gc.collect()
    assert eventually(lambda: not is_alive(number))


def test_agents_that_nobody_holds_leave_no_programs_behind(tmp_path: Path) -> None:
    """Nothing of a run may live on in a timer, a loop or a cache, and its agent with it."""
    log = tmp_path / "starts"

    def runs(number: int) -> None:
        server = small(env={"STARTS": str(log), "NUMBER": str(number)})
        Agent("a", model=ScriptedModel(["hi"]), mcp_servers=[server]).run("go")

    for number in range(3):
        runs(number)
    programs = [int(line) for line in log.read_text(encoding="utf-8").split()]
    assert len(programs) == 3

    def all_gone() -> bool:
        gc.collect()
        return not any(map(is_alive, programs))

    assert eventually(all_gone)


def test_what_is_closed_says_so() -> None:
    with McpTools([small()]) as tools:
        add = by_name(tools)["add"]
    with pytest.raises(ToolError, match=r"are closed"):
        call(add, a=1, b=1)
    with pytest.raises(ToolError, match=r"are closed"):
        tools.load()


def test_closing_while_it_connects_ends_the_program(tmp_path: Path) -> None:
    log = tmp_path / "starts"

    async def run() -> None:
        tools = McpTools([small("--wait", str(tmp_path / "never"), env={"STARTS": str(log)})])
        listing = asyncio.create_task(tools.tools())
        while not log.exists():
            await asyncio.sleep(0.01)
        async with tools:
            pass
        with pytest.raises(ToolError, match=r"was closed before it was connected"):
            await listing

    asyncio.run(run())
    assert eventually(lambda: not is_alive(int(log.read_text(encoding="utf-8"))))


def test_servers_that_cannot_be_used_are_all_told_of() -> None:
    servers = [McpServer.stdio("a", "no-such-a"), small(), McpServer.stdio("b", "no-such-b")]
    with McpTools(servers) as tools, pytest.raises(ToolError, match=r"(?s)'no-such-a'.*'no-such-b'"):
        tools.load()


def test_servers_that_cannot_be_used_may_be_left_out_with_a_warning() -> None:
    with McpTools([McpServer.stdio("a", "no-such-a"), small()], on_unavailable="warn") as tools:
        with pytest.warns(McpUnavailableWarning, match=r"MCP server 'a' .*'no-such-a'.* could not be started"):
            known = tools.load()
        assert {tool.server.name for tool in known} == {"e"}


def test_only_what_is_allowed_is_given() -> None:
    with McpTools([small(allowed_tools=["say", "add"])]) as tools:
        assert [tool.name for tool in tools.load()] == ["e-add", "e-say"]
    with (
        McpTools([small(allowed_tools=["sya"])]) as tools,
        pytest.raises(ToolError, match=r"has no tool 'sya', which is in allowed_tools. Did you mean 'say'"),
    ):
        tools.load()


def test_a_tool_is_found_by_either_name_and_nothing_is_guessed() -> None:
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
def test_a_forked_process_has_connections_of_its_own() -> None:
    with McpTools([wild()]) as tools:
        echo = by_name(tools)["echo"]
        ours = call(echo)
        reading, writing = os.pipe()
        if os.fork() == 0:
            answer = call(echo)
            tools.close()
            os.write(writing, answer.encode())
            os._exit(0)
        os.close(writing)
        theirs = os.read(reading, 1000).decode()
        os.close(reading)
        os.wait()
        assert theirs
        assert theirs != ours
        assert call(echo) == ours
