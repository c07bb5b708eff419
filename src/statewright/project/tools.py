"""`[tools]`: functions by name, and how far tools go."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from statewright.agents import check_name
from statewright.errors import ToolError
from statewright.project.form import BOOLEAN, TEXT, TEXTS, kind_of
from statewright.project.reader import Reader, hint
from statewright.workflow.states.mcp import is_path
from statewright.workflow.states.tools import ToolSettings, check_host, check_reference

_SETTINGS: Final = {"allow_shell": BOOLEAN, "allow_hosts": TEXTS, "mcp_commands": TEXTS, "root": TEXT}


def read_tools(given: Any, reader: Reader) -> tuple[dict[str, str], ToolSettings]:
    """The functions as `module:function`, and the settings."""
    entries = reader.entries(given, ("tools",))
    settings = {name: value for name, value in entries.items() if name in _SETTINGS}
    functions = {name: value for name, value in entries.items() if name not in _SETTINGS}
    good = {name: text for name, text in functions.items() if _is_function(name, text, reader)}
    return good, _settings(reader.table(settings, ("tools",), _SETTINGS), reader)


def _is_function(name: str, text: Any, reader: Reader) -> bool:
    keys = ("tools", name)
    if not isinstance(text, str):
        advice = hint(name, _SETTINGS, listed=False) or "Write 'module:function'."
        reader.problem(keys, f"A tool must be a text, and is {kind_of(text)}.", advice)
        return False
    try:
        check_name(name)
        check_reference(name, text)
    except ToolError as error:
        reader.problem(keys, str(error))
        return False
    return True


def _settings(values: Mapping[str, Any], reader: Reader) -> ToolSettings:
    hosts: list[str] = values.get("allow_hosts", [])
    for host in hosts:
        try:
            check_host(host)
        except ToolError as error:
            reader.problem(("tools", "allow_hosts"), str(error))
    commands: list[str] = values.get("mcp_commands", [])
    for command in filter(is_path, commands):
        message = f"The program {command!r} is no name of a program."
        reader.problem(
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
