"""Servers in the forms in which they are configured."""

from typing import Any

import pytest

from statewright.agents.mcp import McpServer, Sse, Stdio, StreamableHttp, read_server, read_servers
from statewright.agents.mcp.server import Transport
from statewright.errors import InvalidConfig

FORMS: list[tuple[dict[str, Any], Transport]] = [
    ({"transport": {"type": "streamable-http", "url": "http://h"}}, StreamableHttp("http://h")),
    (
        {"transport": {"type": "sse", "url": "http://h", "requestInit": {"headers": {"K": "v"}}}},
        Sse("http://h", {"K": "v"}),
    ),
    ({"transport": {"type": "stdio", "command": "x", "args": ["a"]}}, Stdio("x", ("a",))),
    ({"command": "x", "args": ["a", 1, True], "env": {"A": 1}}, Stdio("x", ("a", "1", "true"), {"A": "1"})),
    ({"command": "x", "arguments": "-a 'b c'", "cwd": "/tmp"}, Stdio("x", ("-a", "b c"), cwd="/tmp")),
    ({"type": "http", "url": "http://h", "headers": {"K": "v"}}, StreamableHttp("http://h", {"K": "v"})),
    ({"transport": "sse", "url": "http://h"}, Sse("http://h")),
    ({"config": {"url": "http://h", "auth_token": "t"}}, StreamableHttp("http://h", {"Authorization": "Bearer t"})),
    ({"config": {"command": "x", "url": None, "env": {}}, "description": "d"}, Stdio("x")),
]


@pytest.mark.parametrize(("entry", "transport"), FORMS)
def test_all_forms_of_an_entry_are_read(entry: dict[str, Any], transport: Transport) -> None:
    assert read_server({"name": "s", **entry}) == McpServer("s", transport)


def test_the_default_type_of_a_url_can_be_set() -> None:
    assert read_server({"url": "http://h"}, name="s", untyped_url="sse").transport == Sse("http://h")


def test_options_of_an_entry_are_read() -> None:
    server = read_server(
        {"command": "x", "tools": ["a"], "timeout": 5, "connect_timeout": 2, "disabled": True}, name="s"
    )
    assert (server.allowed_tools, server.timeout, server.connect_timeout, server.enabled) == (("a",), 5, 2, False)


def test_servers_are_read_in_the_order_of_the_file() -> None:
    entries = {"b": {"command": "x"}, "a": {"url": "http://h"}}
    for data in (entries, {"mcpServers": entries}, [{"name": name, **entry} for name, entry in entries.items()]):
        assert [server.name for server in read_servers(data)] == ["b", "a"]
    server = McpServer.stdio("m", "x")
    assert read_servers([server]) == (server,)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({}, "neither a command nor a url"),
        ({"command": "x", "url": "http://h"}, "both a command and a url"),
        ({"comand": "x"}, "unknown key 'comand'. Did you mean 'command'?"),
        ({"type": "ws", "url": "ws://h"}, "type is unknown. "),
        ({"type": 3, "url": "http://h"}, "type is unknown"),
        ({"command": "x", "config": {"command": "y"}}, "command is set twice"),
        ({"command": "x", "headers": {}}, "headers does not apply to a server of type stdio"),
        ({"url": "http://h", "env": {}}, "env does not apply to a server of type streamable-http"),
        ({"command": "x", "args": {"a": 1}}, "args is a dict"),
        ({"command": "x", "args": "'"}, "unbalanced quotes"),
        ({"command": "x", "args": [["a"]]}, "args contains a list"),
        ({"command": "x", "env": ["A=1"]}, "env is a list"),
        ({"command": "x", "env": {"A": None}}, "env contains a NoneType"),
        ({"command": 3}, "command is 3"),
        ({"url": "http://h", "auth_token": "t", "headers": {"authorization": "x"}}, "auth_token and a header"),
        ({"command": "x", "timeout": "5"}, "timeout is '5'"),
        ({"transport": ["stdio"], "command": "x"}, "transport is a list"),
        ({"command": "x", "enabled": "no"}, "enabled is 'no'"),
    ],
)
def test_an_invalid_entry_is_refused_with_the_name_of_the_server(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        read_server(entry, name="s")
    assert str(caught.value).startswith("MCP server 's': ")
    assert message in str(caught.value)


def test_problems_of_several_servers_are_reported_together() -> None:
    entries = [{"name": "a"}, {"name": "b", "command": "x"}, "c", {"name": "b", "command": "y"}, {"command": "x"}]
    with pytest.raises(InvalidConfig) as caught:
        read_servers(entries)  # type: ignore[arg-type]
    message = str(caught.value)
    assert message.startswith("The MCP servers have 4 problems:")
    for part in ("'a': it has neither", "an entry is a str", "the name ''", "'b': 2 servers have this name"):
        assert part in message


def test_an_entry_that_is_not_a_mapping_is_refused_with_its_name() -> None:
    with pytest.raises(InvalidConfig, match=r"MCP server 'a': config is a str"):
        read_servers({"a": "npx server"})


def test_several_problems_of_one_server_are_reported_together() -> None:
    with pytest.raises(InvalidConfig) as caught:
        read_servers({"a": {"command": "", "timeout": 0}, "b": {"url": "x"}})
    assert [line[:5] for line in str(caught.value).splitlines()] == ["The M", "  1. ", "  2. ", "  3. "]


def test_errors_contain_no_secrets() -> None:
    for entry in ({"command": "x", "env": {"K": ["s3cret"]}}, {"url": "ftp://s3cret@h", "headers": {"K": "s3cret"}}):
        with pytest.raises(InvalidConfig) as caught:
            read_server(entry, name="s")
        assert "s3cret" not in str(caught.value)
