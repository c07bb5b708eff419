"""1.6 and 4.1.8: the placeholders in definitions of MCP servers."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.agents import NO_CREDENTIALS, Credentials
from statewright.errors import MissingApiKey, ToolError
from statewright.workflow.states.mcp.resolve import ServerValues, refers_to_context

GIT = Credentials("git", {"token": "t0ken", "host": "git.example.com"})


def fill(values: dict[str, Any], context: dict[str, Any] | None = None, credentials: Credentials = GIT) -> Any:
    return ServerValues("m", credentials).fill(values, context or {})


def test_values_of_an_integration_are_filled_in_everywhere() -> None:
    assert fill(
        {
            "url": "https://{{host}}/mcp",
            "headers": {"X": "a {{token}}"},
            "auth_token": "{{token}}",
            "args": ["--host={{host}}", 5],
            "env": {"T": "{{token}}"},
            "type": "sse",
        }
    ) == {
        "url": "https://git.example.com/mcp",
        "headers": {"X": "a t0ken"},
        "auth_token": "t0ken",
        "args": ["--host=git.example.com", 5],
        "env": {"T": "t0ken"},
        "type": "sse",
    }


def test_defined_variables_of_the_program_may_be_used() -> None:
    filled = fill({"env": {"PLACE": "at {{host}}"}, "command": "{{PLACE}}", "args": ["{{PLACE}}"]})
    assert (filled["command"], filled["args"]) == ("at git.example.com", ["at git.example.com"])


def test_the_environment_is_used_for_whole_headers_variables_and_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "secret")
    server_values = ServerValues("m", NO_CREDENTIALS)
    filled = server_values.fill(
        {"env": {"A": "env:NAME", "B": "x env:NAME"}, "auth_token": "env:NAME", "url": "env:NAME"}, {}
    )
    assert filled == {"env": {"A": "secret", "B": "x env:NAME"}, "auth_token": "secret", "url": "env:NAME"}
    assert server_values.secrets == {"secret"}
    monkeypatch.delenv("NAME")
    with pytest.raises(MissingApiKey, match=r"MCP server 'm' takes env\.A from the environment variable NAME"):
        fill({"env": {"A": "env:NAME"}})


@pytest.mark.parametrize("name", ["command", "url", "auth_token"])
def test_4_1_8_context_values_are_used_only_for_arguments(name: str) -> None:
    with pytest.raises(ToolError, match=f"{name} refers to {{{{x}}}}, which has no value. Available: host, token"):
        fill({name: "{{x}}"}, {"x": "evil"})
    assert fill({"args": ["{{x}}", "{{token}}"]}, {"x": "a b", "token": "evil"})["args"] == ["a b", "t0ken"]


def test_4_1_8_values_are_not_rendered_as_templates() -> None:
    assert fill({"args": ["{{x}}"]}, {"x": "{{token}}"})["args"] == ["{{token}}"]


def test_unknown_placeholders_in_arguments_stay_unchanged() -> None:
    assert fill({"args": ["{{x}}"]}, None)["args"] == ["{{x}}"]


def test_references_to_the_context_are_detected() -> None:
    assert refers_to_context(["{{x.y}}"], {"x": 1}, {})
    assert not refers_to_context(["{{x}}"], {"x": 1}, {"x": 2})
    assert not refers_to_context(["{{y}}", 5], {"x": 1}, {})
    assert not refers_to_context(None, {"x": 1}, {})
