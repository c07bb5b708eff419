"""The check of a file for missing resources."""

from __future__ import annotations

from pathlib import Path

import pytest

from statewright.project import Project, read_project
from statewright.workflow.states import load_workflow
from statewright.workflow.states.resources.missing import find_missing_resources

TEXT = """
assistants:
- {id: a, assistant_id: kept, tools: [{name: find, integration_alias: jira}], datasource_ids: [docs]}
- {id: b, system_prompt: p, model: "openai:gpt-5"}
- {id: c, system_prompt: p, model: "openai:gpt-5", mcp_servers: [{name: m, config: {command: npx}}]}
tools: [{id: t, tool: other, integration_alias: git}]
states: [{id: s, assistant_id: a, next: {state_id: end}}]
"""


def find_messages(project: Project) -> list[str]:
    return [
        f"{fault.line}: {fault.message}" for fault in find_missing_resources(load_workflow(TEXT).definition, project)
    ]


def test_each_missing_name_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    *names, key = find_messages(Project(tmp_path))
    assert names == [
        "3: The assistant 'kept' is not in the project.",
        "3: The tool 'find' is not in the project.",
        "3: The integration 'jira' is not in the project.",
        "3: The data source 'docs' is not in the project.",
        "6: The tool 'other' is not in the project.",
        "6: The integration 'git' is not in the project.",
        names[6],
    ]
    assert names[6].startswith("5: MCP server 'm': The program 'npx' is not allowed.")
    assert key.startswith("4: Model 'openai:gpt-5' needs an API key")


def test_resources_of_the_project_are_not_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    text = """
[assistants.kept]
system_prompt = "p"
[tools]
find = "m:f"
other = "m:o"
mcp_commands = ["npx"]
[integrations]
jira = {user = "x"}
git = {user = "x"}
[datasources.docs]
folder = "."
"""
    assert find_messages(read_project(text, tmp_path / "statewright.toml")) == []
