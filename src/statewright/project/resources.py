"""The sections with resources that workflows refer to: assistants, models, integrations, tools and MCP servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from statewright.agents import check_name
from statewright.agents.mcp import read_server
from statewright.data.problems import describe_kind
from statewright.errors import InvalidConfig, ToolError, nearest
from statewright.project.reader import Reader
from statewright.project.tables import (
    AssistantTable,
    AssistantToolTable,
    McpServerTable,
    ModelTable,
    ToolsTable,
    check_variable,
)
from statewright.project.toml_positions import Keys
from statewright.redaction import looks_secret
from statewright.workflow.states.language.model import Assistant, AssistantTool
from statewright.workflow.states.resources.chat_models import ModelSource
from statewright.workflow.states.tools import ToolSettings, split_reference


def build_assistant(name: str, table: AssistantTable, keys: Keys, reader: Reader) -> Assistant:
    """Build an assistant, and read its prompt file."""
    prompt = table.system_prompt
    if table.prompt_file is not None:
        if prompt is not None:
            reader.add_problem(keys, "It has both a system_prompt and a prompt_file.", "Keep one of them.")
        prompt = _read_prompt(table.prompt_file, (*keys, "prompt_file"), reader)
    return Assistant(
        id=name,
        system_prompt=prompt,
        name=table.name,
        model=table.model,
        temperature=table.temperature,
        tools=tuple(_iter_tools(table.tools, (*keys, "tools"), reader)),
        at=reader.find_position(keys),
    )


def _read_prompt(name: str, keys: Keys, reader: Reader) -> str | None:
    try:
        return (reader.folder / name).read_bytes().decode()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reader.add_problem(keys, f"The file {name!r} cannot be read: {error}.", "Its path is relative to this file.")
        return None


def _iter_tools(items: Sequence[Any], keys: Keys, reader: Reader) -> Iterator[AssistantTool]:
    """Yield the tools of an assistant, each of which is written as a name or as a table."""
    for index, item in enumerate(items):
        value = {"name": item} if isinstance(item, str) else item
        if tool := reader.read(AssistantToolTable, value, (*keys, index)):
            yield AssistantTool(tool.name, tool.integration_alias, reader.find_position(keys))


# -- models


def build_model(_: str, table: ModelTable, keys: Keys, reader: Reader) -> ModelSource:
    """Build a model, which may have a URL, a key or settings of its own. It is connected on first use."""
    _warn_about_secret("api_key", table.api_key, keys, reader)
    for key, header in table.headers.items():
        _warn_about_secret(key, header, (*keys, "headers"), reader)
    settings = table.model_dump(include={"temperature", "max_tokens"}, exclude_unset=True)
    return ModelSource(
        table.name,
        base_url=table.base_url,
        api_key=table.api_key,
        timeout=table.timeout,
        settings={**table.settings, **settings},
        headers=table.headers,
    )


# -- integrations and secrets


def read_integrations(entries: Mapping[str, Any], keys: Keys, reader: Reader) -> dict[str, dict[str, Any]]:
    """Read `[integrations]`, or the tables within an integration. References to variables, `env:NAME`, remain."""
    tables = {name: reader.read(dict[str, Any], value, (*keys, name)) or {} for name, value in entries.items()}
    for name, table in tables.items():
        table_keys = (*keys, name)
        for key, value in table.items():
            if isinstance(value, dict):
                read_integrations({key: value}, table_keys, reader)
            elif isinstance(value, str | int | float):
                try:
                    _warn_about_secret(key, check_variable(value), table_keys, reader)
                except ValueError as error:
                    reader.add_problem((*table_keys, key), *error.args)
            else:
                kind = describe_kind(value, "a table")
                reader.add_problem((*table_keys, key), f"It must be a string, a number or a table, but is {kind}.")
    return tables


def _warn_about_secret(key: str, value: Any, table_keys: Keys, reader: Reader) -> None:
    """Warn about a secret that is written in the file, where a reference to an environment variable should be."""
    if isinstance(value, str) and value and not value.startswith("env:") and looks_secret(key, value):
        reader.add_warning(
            (*table_keys, key),
            f"The value of {key!r} looks like a secret.",
            "Store it in an environment variable, and write env:NAME here.",
        )


# -- tools


def read_tools(entries: dict[str, Any], reader: Reader) -> tuple[dict[str, str], ToolSettings]:
    """Read `[tools]`. Return the functions, as `module:function` by name, and the settings of built-in tools."""
    settings = {key: value for key, value in entries.items() if key in ToolsTable.model_fields}
    table = reader.read(ToolsTable, settings, ("tools",)) or ToolsTable()
    functions = {
        name: value for name, value in entries.items() if name not in settings and _check_function(name, value, reader)
    }
    root = table.root
    return functions, ToolSettings(
        root=None
        if root is None
        else reader.resolve_path(root, ("tools", "root"), exists=Path.is_dir, description="folder"),
        allow_hosts=table.allow_hosts,
        mcp_commands=table.mcp_commands,
        allow_shell=table.allow_shell,
        folder=reader.folder,
    )


def _check_function(name: str, reference: Any, reader: Reader) -> bool:
    """Return True if an entry of `[tools]` is a valid reference to a function; otherwise report it."""
    keys = ("tools", name)
    if not isinstance(reference, str):  # probably a misspelt setting
        guess = nearest(name[:60], ToolsTable.model_fields)
        advice = f"Did you mean {guess!r}?" if guess else "Write 'module:function'."
        reader.add_problem(keys, f"A tool must be a string, but is {describe_kind(reference, 'a table')}.", advice)
        return False
    try:
        check_name(name)
        split_reference(name, reference)
    except ToolError as error:
        reader.add_problem(keys, str(error))
        return False
    return True


# -- MCP servers


def build_mcp_server(name: str, table: McpServerTable, keys: Keys, reader: Reader) -> dict[str, Any]:
    """Build the configuration of an MCP server. Environment variables are resolved when it is connected."""
    _warn_about_secret("auth_token", table.auth_token, keys, reader)
    for section, settings in (("env", table.env), ("headers", table.headers)):
        for key, setting in settings.items():
            if "{{" not in str(setting):
                _warn_about_secret(key, setting, (*keys, section), reader)
    values = table.model_dump(exclude_unset=True)
    connection = {key: item for key, item in values.items() if key not in ("integration_alias", "single_usage")}
    try:
        read_server(connection, name=name or "server")  # unlike `read_server`, TOML allows an empty name
    except InvalidConfig as error:
        if "{{" not in (table.url or ""):  # a URL with a placeholder is complete only with its integration
            reader.add_problem(keys, str(error))
    return {**values, "cwd": str(reader.folder / table.cwd)} if table.cwd is not None else values
