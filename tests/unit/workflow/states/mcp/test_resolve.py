"""1.6: servers as workflows and projects write them."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.agents.mcp import McpServer as Made
from statewright.errors import ToolError
from statewright.workflow.states.language.model import McpServer
from statewright.workflow.states.mcp.resolve import ResolvedServer, ServerResolver, read_config
from statewright.workflow.states.tools import Integrations, ToolSettings

SETTINGS = ToolSettings(allow_hosts=("8.8.8.8",), mcp_commands=("npx",))


def described(
    config: dict[str, Any] | None = None,
    context: dict[str, Any] | None = None,
    *,
    kept: dict[str, Any] | None = None,
    integrations: dict[str, Any] | None = None,
    **settings: Any,
) -> ResolvedServer:
    descriptions = ServerResolver(SETTINGS, Integrations(integrations), {"kept": kept or {}})
    return descriptions.resolve(McpServer("m", config=config or {}, settings=settings), context or {})


def test_a_program() -> None:
    found = described({"command": "npx", "args": ["-y", 3], "env": {"A": "b"}}, tools=["x"])
    assert found.server == Made.stdio("m", "npx", ["-y", "3"], env={"A": "b"}, allowed_tools=["x"])
    assert not found.is_single


@pytest.mark.parametrize(("kind", "made"), [(None, Made.sse), ("streamable-http", Made.http)])
def test_a_url_without_a_type_is_reached_as_the_language_says(kind: str | None, made: Any) -> None:
    found = described({"url": "http://8.8.8.8/", "type": kind, "auth_token": "t"})
    assert found.server == made("m", "http://8.8.8.8/", headers={"Authorization": "Bearer t"})


def test_the_older_form_counts_where_there_is_no_config() -> None:
    older = {"command": "npx", "arguments": "a 'b c' {{x}}"}
    assert read_config(McpServer("m", settings=older)) == {"command": "npx", "args": ["a", "b c", "{{x}}"]}
    both = McpServer("m", config={"url": "http://x"}, settings=older)
    assert read_config(both) == {"url": "http://x"}
    with pytest.raises(ToolError, match="cannot be split"):
        read_config(McpServer("m", settings={"command": "npx", "arguments": "'a"}))


def test_4_1_8_a_value_of_the_context_stays_one_argument_and_is_for_one_call() -> None:
    dynamic = {"resolve_dynamic_values_in_arguments": True}
    found = described({"command": "npx", "args": "run {{x}}"}, {"x": "a --evil"}, **dynamic)
    assert found.server == Made.stdio("m", "npx", ["run", "a --evil"])
    assert found.is_single
    assert not described({"command": "npx", "args": "run {{y}}"}, {"x": "a"}, **dynamic).is_single


def test_a_server_for_each_call() -> None:
    assert described({"command": "npx", "single_usage": True}).is_single


def test_what_a_project_keeps_counts_and_is_allowed() -> None:
    kept = {"command": "/opt/server", "args": ["x"], "cwd": "/tmp", "timeout": 5}
    found = described({"command": "sh"}, kept=kept, mcp_config_id="kept", tools=["a"])
    assert found.server == Made.stdio("m", "/opt/server", ["x"], cwd="/tmp", timeout=5, allowed_tools=["a"])
    assert described(kept={"url": "http://127.0.0.1/"}, mcp_config_id="kept").server == Made.http(
        "m", "http://127.0.0.1/"
    )


def test_an_integration_is_for_its_own_host() -> None:
    integrations = {"git": {"base_url": "http://9.9.9.9/api", "token": "t0ken-t0ken"}}
    config = {"headers": {"X": "{{token}}"}, "url": "http://9.9.9.9/mcp"}
    found = described(config, integrations=integrations, integration_alias="git")
    assert found.server == Made.sse("m", "http://9.9.9.9/mcp", headers={"X": "t0ken-t0ken"})
    assert found.credentials.hidden_in("it is t0ken-t0ken") == "it is ***"
    with pytest.raises(ToolError, match=r"'git' is for http://9\.9\.9\.9, but was used for '8\.8\.8\.8'"):
        described({**config, "url": "http://8.8.8.8/"}, integrations=integrations, integration_alias="git")


def test_values_of_the_environment_are_found_again_in_what_tools_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "the-key-itself")
    found = described({"command": "npx", "env": {"K": "env:KEY"}})
    assert found.credentials.hidden_in("the-key-itself") == "***"


@pytest.mark.parametrize(
    ("config", "settings", "told"),
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
def test_what_cannot_be_used_is_told(config: Any, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ToolError, match=told):
        described(config, **settings)


def test_a_name_is_resolved_once_and_reached_only_at_the_checked_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([["8.8.8.8", "8.8.4.4"], ["127.0.0.1"]])  # DNS rebinding: the second answer is another one
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


def test_a_server_of_the_project_file_is_reached_wherever_its_name_leads() -> None:
    resolved = described(kept={"url": "http://127.0.0.1/"}, mcp_config_id="kept")
    assert resolved.server.transport.addresses == ()
