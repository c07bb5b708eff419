"""Descriptions of servers."""

from pathlib import Path

import pytest

from statewright.agents.mcp import McpServer, Sse, Stdio, StreamableHttp
from statewright.errors import InvalidConfig


def test_a_server_can_be_created_for_each_transport() -> None:
    server = McpServer.stdio("files", "npx", ["-y", "server"], env={"A": "1"}, cwd=Path("/tmp"), timeout=5)
    assert server.transport == Stdio("npx", ("-y", "server"), {"A": "1"}, "/tmp")
    assert (server.timeout, server.connect_timeout, server.allowed_tools, server.enabled) == (5, 30, None, True)
    assert McpServer.http("a", "http://h", headers={"K": "v"}).transport == StreamableHttp("http://h", {"K": "v"})
    assert McpServer.sse("a", "http://h", allowed_tools=["x"]).allowed_tools == ("x",)


def test_all_problems_are_reported_together() -> None:
    with pytest.raises(InvalidConfig) as caught:
        McpServer(" ", Sse("nowhere"), timeout=0, connect_timeout=float("nan"), allowed_tools="x")  # type: ignore[arg-type]
    lines = str(caught.value).splitlines()
    assert lines[0] == "The MCP servers have 5 problems:"
    assert [line.split("Write")[0].split(": ")[-1].strip() for line in lines[1:]] == [
        "1. An MCP server has the name ' '.",
        "url is 'nowhere'.",
        "allowed_tools is 'x'.",
        "timeout is 0.",
        "connect_timeout is nan.",
    ]


def test_a_string_as_arguments_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"args is a string"):
        McpServer.stdio("files", "npx", "-y server")


def test_an_unknown_transport_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"transport is 'stdio'\. Use McpServer\.stdio"):
        McpServer("files", "stdio")  # type: ignore[arg-type]


def test_a_server_is_shown_without_secrets() -> None:
    server = McpServer.http("web", "https://h/mcp?key=s3cret-1", headers={"Authorization": "Bearer s3cret-2"})
    assert server.shown == "MCP server 'web' (URL https://h/mcp)"
    assert "s3cret" not in repr(server)
    assert server.without_secrets("no s3cret-1, Bearer s3cret-2 or s3cret-2") == "no ***, *** or ***"


def test_short_values_are_not_hidden_and_longer_ones_are_hidden_first() -> None:
    server = McpServer.stdio("x", "y", env={"DEBUG": "1", "A": "abcd", "B": "abcdef", "C": "line one\nline two"})
    assert server.without_secrets("1 abcdef abcd line two") == "1 *** *** ***"


def test_only_arguments_named_like_secrets_are_hidden() -> None:
    server = McpServer.stdio(
        "x", "y", ["--api-key", "first-value", "--token=second-value", "TOKEN=third-value", "folder"]
    )
    assert server.without_secrets("first-value second-value third-value folder --api-key").split() == [
        *["***"] * 3,
        "folder",
        "--api-key",
    ]


def test_the_connection_key_depends_on_what_the_server_sees() -> None:
    server = McpServer.stdio("x", "y", env={"A": "1"})
    assert (
        server.connection_key
        == McpServer.stdio("x", "y", env={"A": "1"}, timeout=3, allowed_tools=["t"]).connection_key
    )
    for other in (McpServer.stdio("z", "y", env={"A": "1"}), McpServer.stdio("x", "y", env={"A": "2"})):
        assert other.connection_key != server.connection_key
