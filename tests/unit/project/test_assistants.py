"""The section `[assistants]`."""

from __future__ import annotations

from pathlib import Path

from tests.unit.project.conftest import read, read_problems


def test_a_prompt_is_read_from_its_file(folder: Path) -> None:
    assistant = read('[assistants.a]\nprompt_file = "prompts/reader.md"', folder).assistants["a"]
    assert (assistant.id, assistant.system_prompt) == ("a", "You read.")


def test_a_tool_is_a_name_or_a_name_with_an_integration(folder: Path) -> None:
    text = '[assistants.a]\ntools = ["x", {name = "y", integration_alias = "z"}]'
    tools = read(text, folder).assistants["a"].tools
    assert [(tool.name, tool.integration_alias) for tool in tools] == [("x", None), ("y", "z")]


def test_a_prompt_and_a_prompt_file_exclude_each_other(folder: Path) -> None:
    (conflict, missing) = read_problems('[assistants.a]\nsystem_prompt = "x"\nprompt_file = "no"', folder)
    assert "both a system_prompt and a prompt_file" in conflict
    assert "'no' cannot be read" in missing
