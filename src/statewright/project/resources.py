"""The sections of resources: assistants, models, integrations, tools and MCP servers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from statewright.agents import check_name
from statewright.agents.mcp import read_server
from statewright.errors import InvalidConfig, ToolError
from statewright.project.reader import (
    BOOLEAN,
    COUNT,
    DURATION,
    LIST,
    TABLE,
    TEMPERATURE,
    TEXT,
    TEXTS,
    Keys,
    Reader,
    kind_of,
    suggest_key,
)
from statewright.redaction import looks_secret
from statewright.workflow.states.language.model import Assistant, AssistantTool
from statewright.workflow.states.mcp import is_path
from statewright.workflow.states.resources.chat_models import ModelSource
from statewright.workflow.states.tools import ToolSettings, check_host, check_reference

_ASSISTANT: Final = {
    "system_prompt": TEXT,
    "prompt_file": TEXT,
    "model": TEXT,
    "temperature": TEMPERATURE,
    "tools": LIST,
    "name": TEXT,
}
_ASSISTANT_TOOL: Final = {"name": TEXT, "integration_alias": TEXT}


def read_assistant(name: str, table: Any, keys: Keys, reader: Reader) -> Assistant:
    """Read `[assistants.NAME]`."""
    values = reader.read_table(table, keys, _ASSISTANT)
    if "system_prompt" in values and "prompt_file" in values:
        reader.add_problem(keys, "It has both a system_prompt and a prompt_file.", "Keep one of them.")
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
        reader.add_problem(keys, f"The file {name!r} cannot be read: {error}.", "Its path is relative to this file.")
        return None


def _assistant_tools(items: Sequence[Any], keys: Keys, reader: Reader) -> tuple[AssistantTool, ...]:
    """Read the tools of an assistant: names, or tables with a name and an integration."""
    tools: list[AssistantTool] = []
    for index, item in enumerate(items):
        at = (*keys, str(index))
        values = {"name": item} if isinstance(item, str) else reader.read_table(item, at, _ASSISTANT_TOOL)
        if "name" in values:
            tools.append(AssistantTool(values["name"], values.get("integration_alias"), reader.mark(keys)))
        elif isinstance(item, dict):
            reader.add_problem(at, "It has no name.", "Write the name of a tool.")
    return tuple(tools)


# -- models

_MODEL_SETTINGS: Final = {"temperature": TEMPERATURE, "max_tokens": COUNT}
_MODEL: Final = {
    "name": TEXT,
    "base_url": TEXT,
    "api_key": TEXT,
    "timeout": DURATION,
    "headers": TABLE,
    "settings": TABLE,
    **_MODEL_SETTINGS,
}


def read_model(name: str, table: Any, keys: Keys, reader: Reader) -> ModelSource:
    """Read `[models.NAME]`: a model with its own URL, key or settings. It is connected at its first use."""
    values = reader.read_table(table, keys, _MODEL)
    if "name" not in values and isinstance(table, dict) and "name" not in table:
        reader.add_problem(keys, "It has no name.", 'Write name = "openai:gpt-5".')
    if "api_key" in values:
        check_secret("api_key", values["api_key"], (*keys, "api_key"), reader)
    settings = {**values.get("settings", {}), **{key: values[key] for key in _MODEL_SETTINGS if key in values}}
    return ModelSource(
        values.get("name", ""),
        base_url=values.get("base_url"),
        api_key=values.get("api_key"),
        timeout=values.get("timeout"),
        settings=settings,
        headers=_headers(values.get("headers", {}), (*keys, "headers"), reader),
    )


def _headers(table: dict[str, Any], keys: Keys, reader: Reader) -> dict[str, str]:
    headers = {key: value for key, value in table.items() if reader.check_type(value, (*keys, key), TEXT)}
    for key, value in headers.items():
        check_secret(key, value, (*keys, key), reader)
    return headers


# -- integrations and secrets

_VARIABLE: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def read_integration(name: str, table: Any, keys: Keys, reader: Reader) -> dict[str, Any]:
    """Read the values of `[integrations.NAME]` as written."""
    values = reader.read_entries(table, keys)
    for key, value in values.items():
        if isinstance(value, dict):
            read_integration(name, value, (*keys, key), reader)
        elif isinstance(value, str):
            check_secret(key, value, (*keys, key), reader)
        elif not isinstance(value, int | float):
            reader.add_problem((*keys, key), f"It must be a string, a number or a table, and is {kind_of(value)}.")
    return values


def check_secret(name: str, value: str, keys: Keys, reader: Reader) -> None:
    """Report an invalid `env:NAME`, and warn about a secret in the file itself."""
    if value.startswith("env:"):
        if not _VARIABLE.fullmatch(value):
            reader.add_problem(keys, "The text after env: is not a valid variable name.", "Write env:NAME.")
    elif value and looks_secret(name, value):
        reader.add_warning(
            keys,
            f"The value of {name!r} looks like a secret that stands in the file itself.",
            "Put it into a variable of the environment and write env:NAME.",
        )


# -- tools

_TOOL_SETTINGS: Final = {"allow_shell": BOOLEAN, "allow_hosts": TEXTS, "mcp_commands": TEXTS, "root": TEXT}


def read_tools(table: Any, reader: Reader) -> tuple[dict[str, str], ToolSettings]:
    """Read `[tools]`: functions as `module:function`, and the settings of built-in tools."""
    entries = reader.read_entries(table, ("tools",))
    settings = {name: value for name, value in entries.items() if name in _TOOL_SETTINGS}
    functions = {name: value for name, value in entries.items() if name not in _TOOL_SETTINGS}
    good = {name: text for name, text in functions.items() if _is_function(name, text, reader)}
    return good, _tool_settings(reader.read_table(settings, ("tools",), _TOOL_SETTINGS), reader)


def _is_function(name: str, text: Any, reader: Reader) -> bool:
    keys = ("tools", name)
    if not isinstance(text, str):
        advice = suggest_key(name, _TOOL_SETTINGS, listed=False) or "Write 'module:function'."
        reader.add_problem(keys, f"A tool must be a string, and is {kind_of(text)}.", advice)
        return False
    try:
        check_name(name)
        check_reference(name, text)
    except ToolError as error:
        reader.add_problem(keys, str(error))
        return False
    return True


def _tool_settings(values: Mapping[str, Any], reader: Reader) -> ToolSettings:
    hosts: list[str] = values.get("allow_hosts", [])
    for host in hosts:
        try:
            check_host(host)
        except ToolError as error:
            reader.add_problem(("tools", "allow_hosts"), str(error))
    commands: list[str] = values.get("mcp_commands", [])
    for command in filter(is_path, commands):
        message = f"The program {command!r} is not the name of a program."
        reader.add_problem(
            ("tools", "mcp_commands"), message, "Write its name without a path, or keep the server under [mcp.NAME]."
        )
    root: Path | None = None
    if "root" in values:
        root = reader.path(values["root"], ("tools", "root"), is_wanted=Path.is_dir, noun="folder")
    return ToolSettings(
        root=root,
        allow_hosts=tuple(hosts),
        mcp_commands=tuple(commands),
        allow_shell=values.get("allow_shell", False),
        folder=reader.folder,
    )


# -- MCP servers; unlike servers in workflows they are trusted, so any program and host is allowed

_SERVER: Final = {
    "command": TEXT,
    "args": TEXTS,
    "env": TABLE,
    "cwd": TEXT,
    "url": TEXT,
    "headers": TABLE,
    "type": TEXT,
    "auth_token": TEXT,
    "integration_alias": TEXT,
    "single_usage": BOOLEAN,
    "timeout": DURATION,
    "connect_timeout": DURATION,
}
_NOT_OF_SERVERS: Final = ("integration_alias", "single_usage")


def read_mcp_server(name: str, table: Any, keys: Keys, reader: Reader) -> dict[str, Any]:
    """Read `[mcp.NAME]` as written; environment variables are resolved when the server is connected."""
    values = reader.read_table(table, keys, _SERVER)
    for where, key, text in _texts(values):
        check_secret(key, text, (*keys, *where, key), reader)
    try:
        read_server({key: value for key, value in values.items() if key not in _NOT_OF_SERVERS}, name=name or "server")
    except InvalidConfig as error:
        if "{{" not in str(values.get("url", "")):  # otherwise a placeholder, filled in from an integration
            reader.add_problem(keys, str(error))
    if "cwd" in values:
        values["cwd"] = str(reader.folder / values["cwd"])
    return values


def _texts(values: dict[str, Any]) -> Iterator[tuple[Keys, str, str]]:
    """Yield the strings that may be secret, with their location."""
    if "auth_token" in values:
        yield (), "auth_token", values["auth_token"]
    for table in ("env", "headers"):
        for key, value in values.get(table, {}).items():
            if isinstance(value, str) and "{{" not in value:
                yield (table,), key, value
