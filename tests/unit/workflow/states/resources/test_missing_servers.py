"""The check of the MCP servers of a file."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from statewright.workflow.states import load_workflow
from statewright.workflow.states.resources.missing import check_servers
from statewright.workflow.states.tools import Integrations, ToolSettings

TEXT = """
assistants:
- id: a
  system_prompt: p
  mcp_servers:
  - {name: good, config: {command: npx}}
  - {name: disabled, enabled: false, config: {command: sh}}
  - {name: program, config: {command: sh}}
  - {name: host, config: {url: "http://example.com:81/mcp"}}
  - {name: later, config: {url: "http://{{host}}/mcp"}}
  - {name: kept, mcp_config_id: tickets}
  - {name: nowhere, mcp_config_id: tickts}
tools:
- {id: t, tool: x, mcp_server: {name: alias, config: {command: npx}, integration_alias: git, mcp_connect_url: "http://x"}}
states: [{id: s, assistant_id: a, next: {state_id: end}}]
"""


def find_messages(**settings: Any) -> list[str]:
    definition = load_workflow(TEXT).definition
    project = SimpleNamespace(integrations=Integrations(), mcp={"tickets": {"command": "x"}})
    problems = check_servers(definition, project, ToolSettings(**settings))
    return [f"{problem.line}: {problem.message} {problem.suggestion}" for problem in problems]


def test_each_unusable_server_is_reported_with_a_correction() -> None:
    program, host, nowhere, alias, proxy = find_messages(mcp_commands=("npx",))
    assert program.startswith("8: MCP server 'program': The program 'sh' is not allowed.")
    assert 'mcp_commands = ["npx", "sh"]' in program
    assert host.startswith("9: MCP server 'host': the host 'example.com' is not allowed.")
    assert 'allow_hosts = ["example.com:81"]' in host
    assert nowhere.startswith("12: MCP server 'nowhere': the server 'tickts' does not exist.")
    assert "[mcp.tickts]" in nowhere
    assert "the integration 'git' does not exist." in alias
    assert "[integrations.git]" in alias
    assert "mcp_connect_url is not supported." in proxy


def test_allowed_servers_are_not_reported() -> None:
    messages = find_messages(mcp_commands=("npx", "sh"), allow_hosts=("example.com:81",))
    assert [message.split("'")[1] for message in messages] == ["nowhere", "alias", "alias"]
