"""`statewright.toml`: what workflows refer to and do not hold themselves.

Assistants, integrations, data sources, tools, defaults, and which workflows are served. Everything that is wrong in the
file is found in one go, with its line; what is merely odd becomes a warning. Paths are relative to the file. Values of
integrations stand in no message.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

from statewright.agents import check_name
from statewright.errors import Problem, ToolError, WorkflowError, nearest
from statewright.workflow.states.model import Assistant, AssistantTool, Mark
from statewright.workflow.states.tools import (
    Integrations,
    ToolRegistry,
    ToolSettings,
    check_host,
    check_reference,
    integration_stanza,
    is_secret_name,
    tool_stanza,
)

FILE_NAME: Final = "statewright.toml"
Keys = tuple[str, ...]
"""The way to a value: tables from the outermost, then the key."""
Kind = Literal["assistant", "integration", "datasource", "tool", "workflow"]
"""What workflows refer to by an id."""
_VARIABLE: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SECRET_TEXT: Final = re.compile(r"(sk|pk|rk|ghp|gho|ghs|glpat|xox[abp]|AKIA|eyJ)[-_A-Za-z0-9]{12,}|-----BEGIN|Bearer ")
_PLACE: Final = re.compile(r"\(at line (\d+), column (\d+)\)")


@dataclass(frozen=True, slots=True)
class DataSource:
    """Documents: files of a folder."""

    id: str
    folder: Path
    glob: str = "**"
    """Which of them."""


@dataclass(frozen=True, slots=True)
class ServedWorkflow:
    """A workflow that the project offers under a name."""

    name: str
    file: Path
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds where a workflow and the command say nothing; None where the project says nothing either."""

    model: str | None = None
    max_items: int | None = None
    """The most items that one iteration may have."""
    max_concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class Project:
    """What a project file says. Without a file everything is empty."""

    folder: Path
    file: Path | None = None
    assistants: Mapping[str, Assistant] = field(default_factory=dict[str, Assistant])
    integrations: Integrations = field(default_factory=Integrations)
    datasources: Mapping[str, DataSource] = field(default_factory=dict[str, DataSource])
    functions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tools as `module:function`."""
    tool_settings: ToolSettings = field(default_factory=ToolSettings)
    workflows: Mapping[str, ServedWorkflow] = field(default_factory=dict[str, ServedWorkflow])
    defaults: Defaults = Defaults()
    warnings: tuple[Problem, ...] = ()
    """What was accepted, and probably not what was meant."""

    def tool_registry(self) -> ToolRegistry:
        """The tools of the project and those that it turns on; none of its modules is imported yet."""
        return ToolRegistry(self.functions, self.tool_settings)

    def stanza_for(self, kind: Kind, id: str) -> str:  # noqa: A002  # what it is called everywhere
        """What to add to the file for an id that is nowhere."""
        return _STANZAS[kind](id)


def load_project(path: str | Path) -> Project:
    """The project of a workflow file or folder: that of the nearest `statewright.toml`, looking upward.

    The search ends at the top of a repository. Raises WorkflowError with all that is wrong in the file.
    """
    start = Path(path).resolve()
    file = start if start.name == FILE_NAME else find_project(start if start.is_dir() else start.parent)
    if file is None:
        return Project(start if start.is_dir() else start.parent)
    try:
        text = file.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise WorkflowError([Problem("", 0, 0, f"It cannot be read: {error}.")], source=str(file)) from None
    return read_project(text, file)


def find_project(folder: Path) -> Path | None:
    """The nearest project file at a folder or above it."""
    for one in (folder, *folder.parents):
        file = one / FILE_NAME
        if file.is_file() and not _may_be_planted(file):
            return file
        if (one / ".git").exists():
            return None
    return None


def _may_be_planted(file: Path) -> bool:
    """Whether somebody else has put it into a folder where everybody may write: it could name any module to run."""
    is_shared = os.name == "posix" and file.parent.stat().st_mode & stat.S_IWOTH
    return bool(is_shared) and file.stat().st_uid not in (os.getuid(), 0)


def read_project(text: str, file: Path) -> Project:
    """The project that a text says, as if it stood in the file. Raises WorkflowError."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise WorkflowError([_broken(str(error))], source=str(file)) from None
    reader = _Reader(text, file.parent)
    project = _read(document, reader, file)
    if reader.problems:
        raise WorkflowError(sorted(reader.problems, key=_order), source=str(file))
    return project


def _broken(message: str) -> Problem:
    place = _PLACE.search(message)
    line, column = (int(place[1]), int(place[2])) if place else (0, 0)
    return Problem("", line, column, f"It is no TOML: {_PLACE.sub('', message).strip()}.")


def _order(problem: Problem) -> int:
    return problem.line


# -- what may stand in the file


class _Form(NamedTuple):
    """What a value must be."""

    name: str
    fits: Callable[[Any], bool]


def _of(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in cast("list[Any]", value))


def _is_concurrency(value: Any) -> bool:
    return _is_count(value) and value <= 100


def _is_temperature(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 2


_TEXT: Final = _Form("a text", _of(str))
_BOOLEAN: Final = _Form("true or false", _of(bool))
_COUNT: Final = _Form("a whole number of at least 1", _is_count)
_CONCURRENCY: Final = _Form("a whole number from 1 to 100", _is_concurrency)
_TEMPERATURE: Final = _Form("a number from 0 to 2", _is_temperature)
_TEXTS: Final = _Form("a list of texts", _is_texts)
_LIST: Final = _Form("a list", _of(list))
_TABLE: Final = _Form("a table", _of(dict))

_ASSISTANT: Final = {
    "system_prompt": _TEXT,
    "prompt_file": _TEXT,
    "model": _TEXT,
    "temperature": _TEMPERATURE,
    "tools": _LIST,
    "name": _TEXT,
}
_ASSISTANT_TOOL: Final = {"name": _TEXT, "integration_alias": _TEXT}
_DATASOURCE: Final = {"folder": _TEXT, "glob": _TEXT}
_WORKFLOW: Final = {"file": _TEXT, "description": _TEXT}
_SETTINGS: Final = {"allow_shell": _BOOLEAN, "allow_hosts": _TEXTS, "root": _TEXT}
_DEFAULTS: Final = {"model": _TEXT, "max_items": _COUNT, "max_concurrency": _CONCURRENCY}
_SECTIONS: Final = {
    "assistants": _TABLE,
    "integrations": _TABLE,
    "datasources": _TABLE,
    "tools": _TABLE,
    "workflows": _TABLE,
    "defaults": _TABLE,
}


class _Reader:
    """Takes values out of the document, and notes what is wrong with them."""

    def __init__(self, text: str, folder: Path) -> None:
        self.folder = folder
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self._lines = _lines_of(text)

    def problem(self, keys: Keys, message: str, suggestion: str = "") -> None:
        self.problems.append(Problem(_path(keys), self.line(keys), 1 if self.line(keys) else 0, message, suggestion))

    def warn(self, keys: Keys, message: str, suggestion: str = "") -> None:
        self.warnings.append(Problem(_path(keys), self.line(keys), 1 if self.line(keys) else 0, message, suggestion))

    def line(self, keys: Keys) -> int:
        """Where a key stands, or what is nearest above it; 0 if that is nowhere."""
        above = (keys[:count] for count in range(len(keys), 0, -1))
        return next((self._lines[one] for one in above if one in self._lines), 0)

    def mark(self, keys: Keys) -> Mark:
        return Mark(self.line(keys), 1 if self.line(keys) else 0)

    def table(self, given: Any, keys: Keys, forms: Mapping[str, _Form]) -> dict[str, Any]:
        """The values of a table that are what they must be."""
        found: dict[str, Any] = {}
        for name, value in self.entries(given, keys).items():
            if name not in forms:
                self.warn((*keys, name), f"The key {name!r} is not known.", _hint(name, forms))
            elif self.fits(value, (*keys, name), forms[name]):
                found[name] = value
        return found

    def entries(self, given: Any, keys: Keys) -> dict[str, Any]:
        return cast("dict[str, Any]", given) if self.fits(given, keys, _TABLE) else {}

    def fits(self, value: Any, keys: Keys, form: _Form) -> bool:
        if form.fits(value):
            return True
        # Of an integration not even a part of a value is quoted.
        found = "" if keys[0] == "integrations" else f": {json.dumps(value, default=str)[:80]}"
        self.problem(keys, f"It must be {form.name}, and is {_kind(value)}{found}.")
        return False


def _read(document: dict[str, Any], reader: _Reader, file: Path) -> Project:
    sections = reader.table(document, (), _SECTIONS)
    functions, settings = _tools(sections.get("tools", {}), reader)
    defaults = reader.table(sections.get("defaults", {}), ("defaults",), _DEFAULTS)
    return Project(
        folder=file.parent,
        file=file,
        assistants=_each(sections, "assistants", reader, _assistant),
        integrations=Integrations(_each(sections, "integrations", reader, _integration)),
        datasources=_each(sections, "datasources", reader, _datasource),
        functions=functions,
        tool_settings=settings,
        workflows=_each(sections, "workflows", reader, _workflow),
        defaults=Defaults(**defaults),
        # Last: the others have found them.
        warnings=tuple(sorted(reader.warnings, key=_order)),
    )


def _each(
    sections: Mapping[str, Any], section: str, reader: _Reader, read: Callable[[str, Any, Keys, _Reader], Any]
) -> dict[str, Any]:
    given = reader.entries(sections.get(section, {}), (section,))
    return {name: read(name, value, (section, name), reader) for name, value in given.items()}


def _assistant(name: str, given: Any, keys: Keys, reader: _Reader) -> Assistant:
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


def _text_in(name: str, keys: Keys, reader: _Reader) -> str | None:
    try:
        return (reader.folder / name).read_bytes().decode()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reader.problem(keys, f"The file {name!r} cannot be read: {error}.", "Its path is relative to this file.")
        return None


def _assistant_tools(given: Sequence[Any], keys: Keys, reader: _Reader) -> tuple[AssistantTool, ...]:
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


def _integration(name: str, given: Any, keys: Keys, reader: _Reader) -> dict[str, Any]:
    values = reader.entries(given, keys)
    for key, value in values.items():
        if isinstance(value, dict):
            _integration(name, value, (*keys, key), reader)
        elif isinstance(value, str):
            _check_secret(key, value, (*keys, key), reader)
        elif not isinstance(value, int | float):
            reader.problem((*keys, key), f"It must be a text, a number or a table, and is {_kind(value)}.")
    return values


def _check_secret(name: str, value: str, keys: Keys, reader: _Reader) -> None:
    if value.startswith("env:"):
        if not _VARIABLE.fullmatch(value):
            reader.problem(keys, "What follows env: is no name of a variable.", "Write env:NAME.")
    elif value and (is_secret_name(name) or _SECRET_TEXT.search(value)):
        reader.warn(
            keys,
            f"The value of {name!r} looks like a secret that stands in the file itself.",
            "Put it into a variable of the environment and write env:NAME.",
        )


def _datasource(name: str, given: Any, keys: Keys, reader: _Reader) -> DataSource:
    values = reader.table(given, keys, _DATASOURCE)
    if "folder" not in values and isinstance(given, dict) and "folder" not in given:
        reader.problem(keys, "It has no folder.", 'Write folder = "documents".')
    folder = _inside(values.get("folder", "."), (*keys, "folder"), reader, is_wanted=Path.is_dir, noun="folder")
    return DataSource(name, folder, values.get("glob", "**"))


def _workflow(name: str, given: Any, keys: Keys, reader: _Reader) -> ServedWorkflow:
    values = reader.table(given, keys, _WORKFLOW)
    if "file" not in values and isinstance(given, dict) and "file" not in given:
        reader.problem(keys, "It has no file.", f'Write file = "{name}.yaml".')
    file = _inside(values.get("file", "."), (*keys, "file"), reader, is_wanted=Path.exists, noun="file")
    return ServedWorkflow(name, file, values.get("description"))


def _inside(name: str, keys: Keys, reader: _Reader, *, is_wanted: Callable[[Path], bool], noun: str) -> Path:
    """A path that counts from the file. That nothing is there is odd, and no problem of those who do not need it."""
    place = reader.folder / name
    if "\0" in name:
        reader.problem(keys, "It is no path.")
    elif not is_wanted(place):
        reader.warn(keys, f"There is no {noun} {name!r}.", "Its path is relative to this file.")
    return place


def _tools(given: Any, reader: _Reader) -> tuple[dict[str, str], ToolSettings]:
    entries = reader.entries(given, ("tools",))
    settings = {name: value for name, value in entries.items() if name in _SETTINGS}
    functions = {name: value for name, value in entries.items() if name not in _SETTINGS}
    good = {name: text for name, text in functions.items() if _is_function(name, text, reader)}
    return good, _settings(reader.table(settings, ("tools",), _SETTINGS), reader)


def _is_function(name: str, text: Any, reader: _Reader) -> bool:
    keys = ("tools", name)
    if not isinstance(text, str):
        hint = _hint(name, _SETTINGS, listed=False) or "Write 'module:function'."
        reader.problem(keys, f"A tool must be a text, and is {_kind(text)}.", hint)
        return False
    try:
        check_name(name)
        check_reference(name, text)
    except ToolError as error:
        reader.problem(keys, str(error))
        return False
    return True


def _settings(values: Mapping[str, Any], reader: _Reader) -> ToolSettings:
    hosts: list[str] = values.get("allow_hosts", [])
    for host in hosts:
        try:
            check_host(host)
        except ToolError as error:
            reader.problem(("tools", "allow_hosts"), str(error))
    root: Path | None = None
    if "root" in values:
        root = _inside(values["root"], ("tools", "root"), reader, is_wanted=Path.is_dir, noun="folder")
    return ToolSettings(
        root=root, allow_hosts=tuple(hosts), allow_shell=values.get("allow_shell", False), folder=reader.folder
    )


# -- where things stand, and how they are named


_HEADER: Final = re.compile(r"\s*\[\[?([^\[\]]+)\]\]?\s*(?:#.*)?$")
_ENTRY: Final = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_KEY: Final = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def _lines_of(text: str) -> dict[Keys, int]:
    """The line of each key, as far as a look at the text tells. The parser does not say where it found what."""
    lines: dict[Keys, int] = {}
    table: Keys = ()
    is_in_text = False
    for number, line in enumerate(text.splitlines(), 1):
        header, entry = _HEADER.match(line), _ENTRY.match(line)
        if not is_in_text and header:
            table = _keys_in(header[1])
            lines.setdefault(table, number)
        elif not is_in_text and entry:
            keys = _keys_in(entry[1])
            for count in range(1, len(keys) + 1):
                lines.setdefault((*table, *keys[:count]), number)
        if (line.count('"""') + line.count("'''")) % 2:
            is_in_text = not is_in_text
    return lines


def _keys_in(written: str) -> Keys:
    return tuple(one.strip("\"'") for one in _KEY.findall(written))


def _path(keys: Keys) -> str:
    return ".".join(key if re.fullmatch(r"[\w-]+", key) else json.dumps(key, ensure_ascii=False) for key in keys)


def _hint(name: str, known: Collection[str], *, listed: bool = True) -> str:
    guess = nearest(name[:60], known)
    return (f"Did you mean {guess!r}? " if guess else "") + (f"Keys: {', '.join(known)}." if listed else "")


def _kind(value: Any) -> str:
    kinds = {bool: "a boolean", str: "a text", int: "a number", float: "a number", list: "a list", dict: "a table"}
    return kinds.get(cast("type[Any]", type(value)), "a date or time")


def _section(kind: str, id: str, *lines: str) -> str:  # noqa: A002
    return "\n".join((f"[{kind}.{_path((id,))}]", *lines))


_STANZAS: Final[dict[str, Callable[[str], str]]] = {
    "assistant": lambda id: _section("assistants", id, 'system_prompt = "You are ..."'),  # noqa: A006
    "integration": integration_stanza,
    "datasource": lambda id: _section("datasources", id, 'folder = "documents"', 'glob = "**/*.md"'),  # noqa: A006
    "tool": tool_stanza,
    "workflow": lambda id: _section("workflows", id, 'file = "workflow.yaml"'),  # noqa: A006
}
