"""`[assistants.NAME]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from statewright.project.form import LIST, TEMPERATURE, TEXT
from statewright.project.lines import Keys
from statewright.project.reader import Reader
from statewright.workflow.states.language.model import Assistant, AssistantTool

_ASSISTANT: Final = {
    "system_prompt": TEXT,
    "prompt_file": TEXT,
    "model": TEXT,
    "temperature": TEMPERATURE,
    "tools": LIST,
    "name": TEXT,
}
_ASSISTANT_TOOL: Final = {"name": TEXT, "integration_alias": TEXT}


def read_assistant(name: str, given: Any, keys: Keys, reader: Reader) -> Assistant:
    """An assistant that the project keeps."""
    values = reader.table(given, keys, _ASSISTANT)
    if "system_prompt" in values and "prompt_file" in values:
        reader.problem(keys, "It has both a system_prompt and a prompt_file.", "Keep one of them.")
    prompt = values.get("system_prompt")
    if "prompt_file" in values:
        prompt = _text_in(values["prompt_file"], (*keys, "prompt_file"), reader)
    return Assistant(
        id=name,
        system_prompt=prompt,
        name=values.get("name"),
        model=values.get("model"),
        temperature=values.get("temperature"),
        tools=_assistant_tools(values.get("tools", []), (*keys, "tools"), reader),
        at=reader.mark(keys),
    )


def _text_in(name: str, keys: Keys, reader: Reader) -> str | None:
    try:
        return (reader.folder / name).read_bytes().decode()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reader.problem(keys, f"The file {name!r} cannot be read: {error}.", "Its path is relative to this file.")
        return None


def _assistant_tools(given: Sequence[Any], keys: Keys, reader: Reader) -> tuple[AssistantTool, ...]:
    """Names, or tables with a name and an integration."""
    tools: list[AssistantTool] = []
    for place, one in enumerate(given):
        at = (*keys, str(place))
        values = {"name": one} if isinstance(one, str) else reader.table(one, at, _ASSISTANT_TOOL)
        if "name" in values:
            tools.append(AssistantTool(values["name"], values.get("integration_alias"), reader.mark(keys)))
        elif isinstance(one, dict):
            reader.problem(at, "It has no name.", "Write the name of a tool.")
    return tuple(tools)
