"""Servers that listen: the present form of the protocol over HTTP, and its first form."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from tests.mcp_servers import Listening, by_name, call, eventually
from tests.work import longer_and_longer

from statewright.agents.mcp import McpServer, McpTools
from statewright.agents.tools import ToolContext
from statewright.errors import ToolError


def test_tools_are_listed_and_called(listening: Listening) -> None:
    with McpTools([listening.described()]) as tools:
        known = by_name(tools)
        assert known["add"].name == "web-add"
        assert call(known["add"], a=1, b=2) == {"result": 3}
        assert call(known["say"], text="hi") == "hi"
        with pytest.raises(ToolError, match=r"Tool 'web-fail' failed: .*no such page"):
            call(known["fail"], text="no such page")


def test_headers_are_sent_with_each_request(listening: Listening) -> None:
    with McpTools([listening.described(headers={"X-Key": "k-1"})]) as tools:
        assert call(by_name(tools)["header"], name="X-Key") == {"result": "k-1"}


def test_progress_and_changes_are_heard(listening: Listening) -> None:
    heard: list[dict[str, float]] = []
    with McpTools([listening.described()]) as tools:
        known = by_name(tools)
        call(known["count"], ToolContext(stream_writer=heard.append), to=3)
        assert [one["progress"] for one in heard] == [1, 2, 3]
        call(known["grow"], name="grown")
        assert eventually(lambda: "grown" in by_name(tools))


def test_a_tool_that_hangs_is_given_up_and_cancelled_at_the_server(listening: Listening, tmp_path: Path) -> None:
    file = tmp_path / "hang"
    for seconds in longer_and_longer():
        with McpTools([listening.described(timeout=seconds)]) as tools:
            with pytest.raises(ToolError, match=rf"did not answer the call of 'hang' within {seconds:g} s"):
                call(by_name(tools)["hang"], file=str(file))
            if file.exists():
                break
    assert eventually(lambda: file.read_text(encoding="utf-8") == "cancelled")


def test_a_server_that_crashes_fails_the_call_and_is_reached_again_once_it_is_back(mortal: Listening) -> None:
    with McpTools([mortal.described(timeout=120)]) as tools:
        known = by_name(tools)
        with pytest.raises(ToolError, match=r"lost during the call of 'crash'.*not repeated"):
            call(known["crash"], words="bye")
        with pytest.raises(ToolError, match=r"could not be reached|was lost during"):
            call(known["process"])
        mortal.start()
        assert call(known["process"])["result"] > 0


def test_a_server_that_was_started_anew_between_calls_is_reached_again(mortal: Listening) -> None:
    with McpTools([mortal.described()]) as tools:
        process = by_name(tools)["process"]
        before = call(process)["result"]
        mortal.stop()
        mortal.start()
        with contextlib.suppress(ToolError):  # it may be the call that finds out that the connection is gone
            call(process)
        assert call(process)["result"] != before


def test_a_server_that_forgot_the_session_gets_a_new_one() -> None:
    server = Listening("streamable-http", "forgetful.py")
    with McpTools([server.described()]) as tools:
        known = by_name(tools)
        before = call(known["session"])
        assert call(known["session"]) == before
        call(known["forget"])
        with pytest.raises(ToolError, match=r"lost during the call of 'session': Session terminated\..*reconnects"):
            call(known["session"])
        assert call(known["session"]) != before
    server.stop()


def test_a_server_that_refuses_the_first_message_fails_at_once() -> None:
    server = Listening("sse", "guarded.py")
    with pytest.raises(ToolError, match=r"could not be reached: .*a message was refused with 401 Unauthorized"):
        McpTools([server.described(connect_timeout=120)]).load()
    server.stop()


def test_large_answers_come_through_the_present_form(listening: Listening) -> None:
    with McpTools([listening.described()]) as tools:
        repeat = by_name(tools)["repeat"]
        assert len(call(repeat, text="x" * 1000, times=900)) == 900_000
        if listening.kind == "streamable-http":
            assert len(call(repeat, text="x" * 1000, times=8000)) == 8_000_000


def test_arguments_that_the_server_refuses_as_too_large_fail_at_once(listening: Listening) -> None:
    with McpTools([listening.described(timeout=120)]) as tools:
        known = by_name(tools)
        with pytest.raises(ToolError, match=r"'say'.*(413|too large|error response)"):
            call(known["say"], text="x" * 10_000_000)
        assert call(known["say"], text="small") == "small"


@pytest.mark.parametrize("make", [McpServer.http, McpServer.sse])
def test_an_address_where_nobody_listens_is_named_without_its_secrets(make: type[McpServer]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    url = f"http://me:secret-1@127.0.0.1:{port}/mcp?key=secret-2"
    with pytest.raises(ToolError) as caught:
        McpTools([make("web", url, headers={"Authorization": "Bearer secret-3"})]).load()  # type: ignore[operator]
    assert f"MCP server 'web' (URL http://127.0.0.1:{port}/mcp) could not be reached: ConnectError" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_path_where_no_server_is_gives_an_error(listening: Listening) -> None:
    wrong = listening.url.replace("/mcp", "/nothing").replace("/sse", "/nothing")
    made = McpServer.sse if listening.kind == "sse" else McpServer.http
    with pytest.raises(ToolError, match=r"could not be reached: .*(404|Not Found|not found)"):
        McpTools([made("web", wrong)]).load()


def test_a_server_that_accepts_and_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        for made in (McpServer.http, McpServer.sse):
            tools = McpTools([made("web", url, connect_timeout=0.5)])
            with pytest.raises(ToolError, match=r"could not be reached: .*within 0\.5 s"):
                tools.load()
            tools.close()


def test_a_server_is_reached_at_its_checked_addresses_whatever_its_name_resolves_to(listening: Listening) -> None:
    """The name has no address at all, and nothing listens at the first of the checked ones."""
    # The header, because the server answers under its own name only.
    server = listening.described(headers={"Host": f"127.0.0.1:{listening.port}"})
    url = server.transport.url.replace("127.0.0.1", "tools.invalid")
    pinned = replace(server.transport, url=url, addresses=("127.0.0.2", "127.0.0.1"))
    with McpTools([replace(server, transport=pinned)]) as tools:
        assert call(by_name(tools)["add"], a=1, b=2) == {"result": 3}
