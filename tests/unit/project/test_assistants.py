"""`[assistants]`."""

from __future__ import annotations

from pathlib import Path

from tests.unit.project.conftest import problems, read


def test_an_assistant_has_its_prompt_from_a_file(folder: Path) -> None:
    assistant = read('[assistants.a]\nprompt_file = "prompts/reader.md"', folder).assistants["a"]
    assert (assistant.id, assistant.system_prompt) == ("a", "You read.")


def test_a_tool_is_a_name_or_a_name_with_an_integration(folder: Path) -> None:
    text = '[assistants.a]\ntools = ["x", {name = "y", integration_alias = "z"}]'
    tools = read(text, folder).assistants["a"].tools
    assert [(one.name, one.integration_alias) for one in tools] == [("x", None), ("y", "z")]


def test_a_prompt_stands_in_one_place(folder: Path) -> None:
    (found, missing) = problems('[assistants.a]\nsystem_prompt = "x"\nprompt_file = "no"', folder)
    assert "both a system_prompt and a prompt_file" in found
    assert "'no' cannot be read" in missing
