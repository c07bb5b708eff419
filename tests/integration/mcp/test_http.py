"""MCP servers over HTTP: the current transport and the older SSE."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from tests.mcp_servers import HttpServer, by_name, call, eventually
from tests.work import longer_and_longer

from statewright.agents.mcp import McpServer, McpTools
from statewright.agents.tools import ToolContext
from statewright.errors import ToolError


@pytest.mark.sampled(2)
def test_tools_are_listed_and_called(http_server: HttpServer) -> None:
    with McpTools([http_server.mcp_server()]) as tools:
        by_remote_name = by_name(tools)
        assert by_remote_name["add"].name == "web-add"
        assert call(by_remote_name["add"], a=1, b=2) == {"result": 3}
        assert call(by_remote_name["say"], text="hi") == "hi"
        with pytest.raises(ToolError, match=r"Tool 'web-fail' failed: .*no such page"):
            call(by_remote_name["fail"], text="no such page")


def test_headers_are_sent_with_each_request(http_server: HttpServer) -> None:
    with McpTools([http_server.mcp_server(headers={"X-Key": "k-1"})]) as tools:
        assert call(by_name(tools)["header"], name="X-Key") == {"result": "k-1"}


def test_progress_and_changes_of_the_tools_are_received(http_server: HttpServer) -> None:
    updates: list[dict[str, float]] = []
    with McpTools([http_server.mcp_server()]) as tools:
        by_remote_name = by_name(tools)
        call(by_remote_name["count"], ToolContext(stream_writer=updates.append), to=3)
        assert [update["progress"] for update in updates] == [1, 2, 3]
        call(by_remote_name["grow"], name="grown")
        assert eventually(lambda: "grown" in by_name(tools))


def test_a_call_that_times_out_is_cancelled_on_the_server(http_server: HttpServer, tmp_path: Path) -> None:
    file = tmp_path / "hang"
    for seconds in longer_and_longer():
        with McpTools([http_server.mcp_server(timeout=seconds)]) as tools:
            with pytest.raises(ToolError, match=rf"did not answer the call of 'hang' within {seconds:g} s"):
                call(by_name(tools)["hang"], file=str(file))
            if file.exists():
                break
    assert eventually(lambda: file.read_text(encoding="utf-8") == "cancelled")


@pytest.mark.sampled(2)
def test_a_crash_fails_the_call_and_the_restarted_server_is_used_again(restartable_server: HttpServer) -> None:
    with McpTools([restartable_server.mcp_server(timeout=120)]) as tools:
        by_remote_name = by_name(tools)
        with pytest.raises(ToolError, match=r"lost during the call of 'crash'.*not repeated"):
            call(by_remote_name["crash"], words="bye")
        with pytest.raises(ToolError, match=r"could not be reached|was lost during"):
            call(by_remote_name["process"])
        restartable_server.start()
        assert call(by_remote_name["process"])["result"] > 0


@pytest.mark.sampled(2)
def test_a_server_restarted_between_calls_is_used_again(restartable_server: HttpServer) -> None:
    with McpTools([restartable_server.mcp_server()]) as tools:
        process = by_name(tools)["process"]
        before = call(process)["result"]
        restartable_server.stop()
        restartable_server.start()
        with contextlib.suppress(ToolError):  # this call may be the first to notice the lost connection
            call(process)
        assert call(process)["result"] != before


def test_a_server_that_lost_the_session_gets_a_new_one() -> None:
    server = HttpServer("streamable-http", "forgetful.py")
    with McpTools([server.mcp_server()]) as tools:
        by_remote_name = by_name(tools)
        before = call(by_remote_name["session"])
        assert call(by_remote_name["session"]) == before
        call(by_remote_name["forget"])
        with pytest.raises(ToolError, match=r"lost during the call of 'session': Session terminated\..*reconnects"):
            call(by_remote_name["session"])
        assert call(by_remote_name["session"]) != before
    server.stop()


def test_a_server_that_rejects_the_first_message_fails_at_once() -> None:
    server = HttpServer("sse", "guarded.py")
    with pytest.raises(ToolError, match=r"could not be reached: .*a message was refused with 401 Unauthorized"):
        McpTools([server.mcp_server(connect_timeout=120)]).load()
    server.stop()


def test_large_answers_are_received(http_server: HttpServer) -> None:
    with McpTools([http_server.mcp_server()]) as tools:
        repeat = by_name(tools)["repeat"]
        assert len(call(repeat, text="x" * 1000, times=900)) == 900_000
        if http_server.kind == "streamable-http":
            assert len(call(repeat, text="x" * 1000, times=8000)) == 8_000_000


def test_arguments_that_are_too_large_for_the_server_fail_at_once(http_server: HttpServer) -> None:
    with McpTools([http_server.mcp_server(timeout=120)]) as tools:
        by_remote_name = by_name(tools)
        with pytest.raises(ToolError, match=r"'say'.*(413|too large|error response)"):
            call(by_remote_name["say"], text="x" * 10_000_000)
        assert call(by_remote_name["say"], text="small") == "small"


@pytest.mark.parametrize("create", [McpServer.http, McpServer.sse])
def test_the_error_for_an_unreachable_server_contains_no_secrets(create: type[McpServer]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    url = f"http://me:secret-1@127.0.0.1:{port}/mcp?key=secret-2"
    with pytest.raises(ToolError) as caught:
        McpTools([create("web", url, headers={"Authorization": "Bearer secret-3"})]).load()  # type: ignore[operator]
    assert f"MCP server 'web' (URL http://127.0.0.1:{port}/mcp) could not be reached: ConnectError" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_wrong_path_is_an_error(http_server: HttpServer) -> None:
    wrong = http_server.url.replace("/mcp", "/nothing").replace("/sse", "/nothing")
    create = McpServer.sse if http_server.kind == "sse" else McpServer.http
    with pytest.raises(ToolError, match=r"could not be reached: .*(404|Not Found|not found)"):
        McpTools([create("web", wrong)]).load()


def test_a_server_that_never_answers_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        for create in (McpServer.http, McpServer.sse):
            tools = McpTools([create("web", url, connect_timeout=0.5)])
            with pytest.raises(ToolError, match=r"could not be reached: .*within 0\.5 s"):
                tools.load()
            tools.close()


def test_a_server_is_reached_at_its_checked_addresses(http_server: HttpServer) -> None:
    """The name does not resolve, and nothing listens on the first of the checked addresses."""
    # The server accepts only its own name in this header.
    server = http_server.mcp_server(headers={"Host": f"127.0.0.1:{http_server.port}"})
    url = server.transport.url.replace("127.0.0.1", "tools.invalid")
    pinned = replace(server.transport, url=url, addresses=("127.0.0.2", "127.0.0.1"))
    with McpTools([replace(server, transport=pinned)]) as tools:
        assert call(by_name(tools)["add"], a=1, b=2) == {"result": 3}
