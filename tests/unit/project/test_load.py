"""Finding and reading whole project files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.unit.project.conftest import read, read_problems, read_warnings

from statewright.errors import WorkflowError
from statewright.project import DataSource, Defaults, ServedWorkflow, load_project
from statewright.workflow.states.language.model import AssistantTool

FULL_TEXT = '''
[defaults]
model = "small"
max_items = 50
max_concurrency = 4

[assistants.writer]
system_prompt = """
[not.a.table]
key = 1
"""
model = "large"
temperature = 0.5
name = "The writer"
tools = ["read_file", { name = "search", integration_alias = "jira" }]

[assistants."the reader"]
prompt_file = "prompts/reader.md"

[integrations.jira]
base_url = "https://jira.example.com"
token = "env:JIRA_TOKEN"
headers = { "X-Key" = "env:JIRA_KEY" }

[datasources.docs]
folder = "documents"
glob = "**/*.md"

[tools]
triple = "own_tools:triple"
allow_shell = true
allow_hosts = ["*.example.com"]
root = "."

[workflows.triage]
file = "triage.yaml"
description = "Sorts tickets."
'''


def test_a_full_project_file_is_read(folder: Path) -> None:
    project = read(FULL_TEXT, folder)
    assert project.warnings == ()
    writer, reader = project.assistants["writer"], project.assistants["the reader"]
    assert (writer.id, writer.model, writer.temperature, writer.name) == ("writer", "large", 0.5, "The writer")
    assert [(tool.name, tool.integration_alias) for tool in writer.tools] == [("read_file", None), ("search", "jira")]
    assert isinstance(writer.tools[0], AssistantTool)
    assert writer.at.line == 7
    assert reader.system_prompt == "You read."
    assert reader.at.line == 17
    assert project.integrations.aliases == ("jira",)
    assert project.datasources == {"docs": DataSource("docs", folder / "documents", "**/*.md")}
    assert project.workflows == {"triage": ServedWorkflow("triage", folder / "triage.yaml", "Sorts tickets.")}
    assert project.defaults == Defaults("small", 50, 4)
    assert project.functions == {"triple": "own_tools:triple"}
    assert {"triple", "run_command", "http_request", "read_file"} <= set(project.tool_registry().names)


def test_the_nearest_project_file_above_is_used(folder: Path) -> None:
    (folder / "statewright.toml").write_text(FULL_TEXT, encoding="utf-8")
    (folder / "flows/deep").mkdir(parents=True)
    (folder / "flows/deep/flow.yaml").touch()
    for start in (folder, folder / "flows/deep", folder / "flows/deep/flow.yaml", folder / "statewright.toml"):
        assert load_project(start).file == folder.resolve() / "statewright.toml"
    (folder / "flows/statewright.toml").write_text("", encoding="utf-8")
    assert load_project(folder / "flows/deep/flow.yaml").folder == folder.resolve() / "flows"


def test_the_search_ends_at_the_root_of_a_repository(folder: Path) -> None:
    (folder / "statewright.toml").write_text(FULL_TEXT, encoding="utf-8")
    (folder / "repo/.git").mkdir(parents=True)
    assert load_project(folder / "repo").file is None


def test_a_project_without_a_file_is_empty(folder: Path) -> None:
    (folder / ".git").mkdir()
    project = load_project(folder / "triage.yaml")
    assert (project.file, project.folder, project.assistants) == (None, folder.resolve(), {})
    assert project.tool_registry().names == ()


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_in_a_shared_folder_is_ignored(folder: Path) -> None:
    file = folder / "statewright.toml"
    file.write_text(FULL_TEXT, encoding="utf-8")
    (folder / ".git").mkdir()
    os.chown(file, 12345, -1)
    assert load_project(folder).file is not None
    folder.chmod(0o1777)
    assert load_project(folder).file is None


def test_invalid_toml_is_reported_with_its_line(folder: Path) -> None:
    (folder / "statewright.toml").write_text("[defaults]\nmodel = \n", encoding="utf-8")
    with pytest.raises(WorkflowError) as caught:
        load_project(folder)
    assert str(folder) in str(caught.value)
    assert [(problem.line, problem.column) for problem in caught.value.problems] == [(2, 9)]
    assert "It is not valid TOML: Invalid value." in str(caught.value)


def test_an_unreadable_file_is_reported(folder: Path) -> None:
    (folder / "statewright.toml").write_bytes(b"\xff")
    with pytest.raises(WorkflowError, match="It cannot be read"):
        load_project(folder)


def test_all_problems_are_reported_at_once_with_their_lines(folder: Path) -> None:
    text = """
defaults.max_items = 0
[assistants.a]
temperature = 3
tools = [1, {}]
system_prompt = "a"
prompt_file = "none.md"
[assistants]
b = "text"
[integrations.c]
token = ["hunter2-in-a-list"]
key = "env:1 2"
[datasources.d]
glob = 1
[workflows.e]
[tools]
f = 1
allow_shel = true
g = "module"
h = "module:function"
"i j" = "m:f"
allow_hosts = ["https://x", "*"]
root = 1
"""
    messages = read_problems(text, folder)
    assert messages == [
        "In 'defaults.max_items' (line 2, column 1): It must be a whole number of at least 1, but is a number: 0.",
        "In 'assistants.a' (line 3, column 1): It has both a system_prompt and a prompt_file. Keep one of them.",
        "In 'assistants.a.temperature' (line 4, column 1): It must be a number from 0 to 2, but is a number: 3.",
        "In 'assistants.a.tools.0' (line 5, column 1): It must be a table, but is a number: 1.",
        "In 'assistants.a.tools.1' (line 5, column 1): 'name' is missing. Write name = \"read_file\".",
        messages[5],
        "In 'assistants.b' (line 9, column 1): It must be a table, but is a string: \"text\".",
        "In 'integrations.c.token' (line 11, column 1): It must be a string, a number or a table, but is a list.",
        "In 'integrations.c.key' (line 12, column 1): "
        "The text after env: is not a valid variable name. Write env:NAME.",
        "In 'datasources.d' (line 13, column 1): 'folder' is missing. Write folder = \"documents\".",
        "In 'datasources.d.glob' (line 14, column 1): It must be a string, but is a number: 1.",
        "In 'workflows.e' (line 15, column 1): 'file' is missing. Write file = \"workflow.yaml\".",
        "In 'tools.f' (line 17, column 1): A tool must be a string, but is a number. Write 'module:function'.",
        "In 'tools.allow_shel' (line 18, column 1): A tool must be a string, but is a boolean. "
        "Did you mean 'allow_shell'?",
        messages[14],
        messages[15],
        messages[16],
        "In 'tools.root' (line 23, column 1): It must be a string, but is a number: 1.",
    ]
    assert "none.md' cannot be read" in messages[5]
    assert "Tool 'g' is 'module', which is not a reference to a function." in messages[14]
    assert "'i j' is not a valid tool name" in messages[15]
    assert "'https://x' is not a host" in messages[16]
    assert "hunter2" not in "".join(messages)


@pytest.mark.parametrize("section", ["assistants", "integrations", "datasources", "tools", "workflows", "defaults"])
def test_a_section_must_be_a_table(section: str, folder: Path) -> None:
    message = f"In '{section}' (line 1, column 1): It must be a table, but is a number: 1."
    expected = message.removesuffix(": 1.") + "." if section == "integrations" else message
    assert read_problems(f"{section} = 1", folder) == [expected]


def test_unknown_keys_cause_warnings_with_suggestions(folder: Path) -> None:
    text = "asistants = 1\n[assistants.a]\nprompt = 'x'\nmodle = 'y'\n[defaults]\nmax_item = 3\n"
    messages = read_warnings(text, folder)
    assert messages[0].startswith(
        "In 'asistants' (line 1, column 1): Unknown key 'asistants'. Did you mean 'assistants'?"
    )
    assert "In 'assistants.a.modle' (line 4, column 1): Unknown key 'modle'. Did you mean 'model'?" in messages[2]
    assert "Did you mean 'max_items'? Keys: max_concurrency, max_items, model, provider." in messages[3]
