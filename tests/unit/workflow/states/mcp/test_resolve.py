"""1.6: MCP servers as workflows and projects define them."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.agents.mcp import McpServer as Made
from statewright.errors import ToolError
from statewright.workflow.states.language.model import McpServer
from statewright.workflow.states.mcp.resolve import ResolvedServer, ServerResolver, read_config
from statewright.workflow.states.tools import Integrations, ToolSettings

SETTINGS = ToolSettings(allow_hosts=("8.8.8.8",), mcp_commands=("npx",))


def resolve(
    config: dict[str, Any] | None = None,
    context: dict[str, Any] | None = None,
    *,
    project_server: dict[str, Any] | None = None,
    integrations: dict[str, Any] | None = None,
    **settings: Any,
) -> ResolvedServer:
    resolver = ServerResolver(SETTINGS, Integrations(integrations), {"kept": project_server or {}})
    return resolver.resolve(McpServer("m", config=config or {}, settings=settings), context or {})


def test_a_command_is_resolved() -> None:
    resolved = resolve({"command": "npx", "args": ["-y", 3], "env": {"A": "b"}}, tools=["x"])
    assert resolved.server == Made.stdio("m", "npx", ["-y", "3"], env={"A": "b"}, allowed_tools=["x"])
    assert not resolved.is_single_use


@pytest.mark.parametrize(("kind", "constructor"), [(None, Made.sse), ("streamable-http", Made.http)])
def test_a_url_without_a_type_uses_sse(kind: str | None, constructor: Any) -> None:
    resolved = resolve({"url": "http://8.8.8.8/", "type": kind, "auth_token": "t"})
    assert resolved.server == constructor("m", "http://8.8.8.8/", headers={"Authorization": "Bearer t"})


def test_the_older_form_is_used_without_a_config() -> None:
    older = {"command": "npx", "arguments": "a 'b c' {{x}}"}
    assert read_config(McpServer("m", settings=older)) == {"command": "npx", "args": ["a", "b c", "{{x}}"]}
    server = McpServer("m", config={"url": "http://x"}, settings=older)
    assert read_config(server) == {"url": "http://x"}
    with pytest.raises(ToolError, match="cannot be split"):
        read_config(McpServer("m", settings={"command": "npx", "arguments": "'a"}))


def test_4_1_8_a_context_value_stays_one_argument_and_makes_the_server_single_use() -> None:
    dynamic = {"resolve_dynamic_values_in_arguments": True}
    resolved = resolve({"command": "npx", "args": "run {{x}}"}, {"x": "a --evil"}, **dynamic)
    assert resolved.server == Made.stdio("m", "npx", ["run", "a --evil"])
    assert resolved.is_single_use
    assert not resolve({"command": "npx", "args": "run {{y}}"}, {"x": "a"}, **dynamic).is_single_use


def test_single_usage_makes_the_server_single_use() -> None:
    assert resolve({"command": "npx", "single_usage": True}).is_single_use


def test_a_server_of_the_project_takes_precedence_and_is_allowed() -> None:
    project_server = {"command": "/opt/server", "args": ["x"], "cwd": "/tmp", "timeout": 5}
    resolved = resolve({"command": "sh"}, project_server=project_server, mcp_config_id="kept", tools=["a"])
    assert resolved.server == Made.stdio("m", "/opt/server", ["x"], cwd="/tmp", timeout=5, allowed_tools=["a"])
    assert resolve(project_server={"url": "http://127.0.0.1/"}, mcp_config_id="kept").server == Made.http(
        "m", "http://127.0.0.1/"
    )


def test_an_integration_is_limited_to_its_host() -> None:
    integrations = {"git": {"base_url": "http://9.9.9.9/api", "token": "t0ken-t0ken"}}
    config = {"headers": {"X": "{{token}}"}, "url": "http://9.9.9.9/mcp"}
    resolved = resolve(config, integrations=integrations, integration_alias="git")
    assert resolved.server == Made.sse("m", "http://9.9.9.9/mcp", headers={"X": "t0ken-t0ken"})
    assert resolved.credentials.hidden_in("it is t0ken-t0ken") == "it is ***"
    with pytest.raises(ToolError, match=r"'git' is for http://9\.9\.9\.9, but was used for '8\.8\.8\.8'"):
        resolve({**config, "url": "http://8.8.8.8/"}, integrations=integrations, integration_alias="git")


def test_values_of_the_environment_are_masked_in_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "the-key-itself")
    resolved = resolve({"command": "npx", "env": {"K": "env:KEY"}})
    assert resolved.credentials.hidden_in("the-key-itself") == "***"


@pytest.mark.parametrize(
    ("config", "settings", "message"),
    [
        ({"command": "sh"}, {}, "'sh' is not allowed"),
        ({"url": "http://9.9.9.9/"}, {}, r"host '9.9.9.9' \(port 80\) is not allowed"),
        ({"command": "npx", "env": {"PATH": "/tmp"}}, {}, "The variable 'PATH'"),
        ({}, {"mcp_connect_url": "http://x"}, "mcp_connect_url, which is not supported"),
        ({}, {"mcp_config_id": "kpt"}, r"(?s)'kpt', which is not in the project. Did you mean 'kept'.*\[mcp.kpt\]"),
        ({"command": "npx", "url": "http://8.8.8.8/"}, {}, "both a command and a url"),
        ({"command": "npx"}, {"integration_alias": "no"}, "Integration 'no' does not exist"),
    ],
)
def test_unusable_servers_are_rejected(config: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ToolError, match=message):
        resolve(config, **settings)


def test_a_host_is_resolved_once_and_only_the_checked_addresses_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([["8.8.8.8", "8.8.4.4"], ["127.0.0.1"]])  # DNS rebinding: the second answer differs
    monkeypatch.setattr("statewright.workflow.states.tools.guard.resolve_host", lambda host, port: next(answers))
    settings = ToolSettings(allow_hosts=("*.example.com",))
    server = ServerResolver(settings, Integrations(None), {}).resolve(
        McpServer("m", config={"url": "http://a.example.com/"}), {}
    )
    assert server.server.transport.addresses == ("8.8.8.8", "8.8.4.4")
    with pytest.raises(ToolError, match="not a public address"):
        ServerResolver(settings, Integrations(None), {}).resolve(
            McpServer("m", config={"url": "http://a.example.com/"}), {}
        )


def test_a_server_of_the_project_is_not_limited_to_checked_addresses() -> None:
    resolved = resolve(project_server={"url": "http://127.0.0.1/"}, mcp_config_id="kept")
    assert resolved.server.transport.addresses == ()
