"""1.6 and 4.1.8: what descriptions of servers may name."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.agents import NO_CREDENTIALS, Credentials
from statewright.errors import MissingApiKey, ToolError
from statewright.workflow.states.mcp.resolve import ServerValues, refers_to_context

GIT = Credentials("git", {"token": "t0ken", "host": "git.example.com"})


def filled(written: dict[str, Any], context: dict[str, Any] | None = None, credentials: Credentials = GIT) -> Any:
    return ServerValues("m", credentials).fill(written, context or {})


def test_values_of_an_integration_are_put_in_everywhere() -> None:
    assert filled(
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


def test_variables_of_the_program_may_be_named_after_they_are_known() -> None:
    found = filled({"env": {"PLACE": "at {{host}}"}, "command": "{{PLACE}}", "args": ["{{PLACE}}"]})
    assert (found["command"], found["args"]) == ("at git.example.com", ["at git.example.com"])


def test_the_environment_is_for_whole_values_of_headers_variables_and_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAME", "secret")
    values = ServerValues("m", NO_CREDENTIALS)
    found = values.fill({"env": {"A": "env:NAME", "B": "x env:NAME"}, "auth_token": "env:NAME", "url": "env:NAME"}, {})
    assert found == {"env": {"A": "secret", "B": "x env:NAME"}, "auth_token": "secret", "url": "env:NAME"}
    assert values.secrets == {"secret"}
    monkeypatch.delenv("NAME")
    with pytest.raises(MissingApiKey, match=r"MCP server 'm' takes env\.A from the environment variable NAME"):
        filled({"env": {"A": "env:NAME"}})


@pytest.mark.parametrize("name", ["command", "url", "auth_token"])
def test_4_1_8_the_context_is_for_arguments_only(name: str) -> None:
    with pytest.raises(ToolError, match=f"{name} refers to {{{{x}}}}, which has no value. Available: host, token"):
        filled({name: "{{x}}"}, {"x": "evil"})
    assert filled({"args": ["{{x}}", "{{token}}"]}, {"x": "a b", "token": "evil"})["args"] == ["a b", "t0ken"]


def test_4_1_8_a_value_is_never_read_as_a_template() -> None:
    assert filled({"args": ["{{x}}"]}, {"x": "{{token}}"})["args"] == ["{{token}}"]


def test_what_arguments_may_not_name_stays_as_it_is_written() -> None:
    assert filled({"args": ["{{x}}"]}, None)["args"] == ["{{x}}"]


def test_whether_arguments_name_something_of_the_run() -> None:
    assert refers_to_context(["{{x.y}}"], {"x": 1}, {})
    assert not refers_to_context(["{{x}}"], {"x": 1}, {"x": 2})
    assert not refers_to_context(["{{y}}", 5], {"x": 1}, {})
    assert not refers_to_context(None, {"x": 1}, {})
