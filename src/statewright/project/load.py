"""Finding and reading the project file."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Callable, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypeVar

from statewright.errors import Problem, WorkflowError
from statewright.project.graphs import (
    build_datasource,
    build_workflow,
    check_names,
    read_graphs,
    read_queues,
    read_spending_limits,
)
from statewright.project.reader import Reader
from statewright.project.resources import build_assistant, build_mcp_server, build_model, read_integrations, read_tools
from statewright.project.schema import Defaults, Project, Serving
from statewright.project.tables import (
    AssistantTable,
    DataSourceTable,
    HandlersTable,
    McpServerTable,
    ModelTable,
    Sections,
    WorkflowTable,
)
from statewright.project.toml_positions import Keys
from statewright.storage.locations import PostgresUrl
from statewright.workflow.states.tools import Integrations

FILE_NAME: Final = "statewright.toml"
_POSITION: Final = re.compile(r"\(at line (\d+), column (\d+)\)")
T = TypeVar("T")
E = TypeVar("E")


def load_project(path: str | Path) -> Project:
    """Return the project of a file or folder: the nearest `statewright.toml` in the folder or one of its parents.

    The search ends at the root of a Git repository. Without a project file, the project is empty. Raises WorkflowError
    with all problems of the project file.
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
    """Return the nearest project file in a folder or its parents, up to the root of a Git repository."""
    for parent in (folder, *folder.parents):
        file = parent / FILE_NAME
        if file.is_file() and not _is_untrusted(file):
            return file
        if (parent / ".git").exists():
            return None
    return None


def _is_untrusted(file: Path) -> bool:
    """Return True for a file in a world-writable folder that another user owns, as it may name any module to import."""
    is_shared = os.name == "posix" and file.parent.stat().st_mode & stat.S_IWOTH
    return bool(is_shared) and file.stat().st_uid not in (os.getuid(), 0)


def read_project(text: str, file: Path) -> Project:
    """Parse the text of a project file. Raises WorkflowError."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise WorkflowError([_syntax_problem(str(error))], source=str(file)) from None
    reader = Reader(text, file.parent)
    project = _read_sections(document, reader, file)
    if reader.problems:
        raise WorkflowError(sorted(reader.problems, key=attrgetter("line")), source=str(file))
    return project


def _syntax_problem(message: str) -> Problem:
    match = _POSITION.search(message)
    line, column = (int(match[1]), int(match[2])) if match else (0, 0)
    return Problem("", line, column, f"It is not valid TOML: {_POSITION.sub('', message).strip()}.")


def _read_sections(document: dict[str, Any], reader: Reader, file: Path) -> Project:
    sections = reader.read(Sections, document, ()) or Sections()
    functions, settings = read_tools(sections.tools, reader)
    handlers = reader.read(HandlersTable, sections.handlers, ("handlers",), strict=True) or HandlersTable()
    check_names(sections, reader)
    return Project(
        folder=file.parent,
        file=file,
        assistants=_build_entries("assistants", sections.assistants, AssistantTable, build_assistant, reader),
        integrations=Integrations(read_integrations(sections.integrations, ("integrations",), reader)),
        datasources=_build_entries("datasources", sections.datasources, DataSourceTable, build_datasource, reader),
        functions=functions,
        tool_settings=settings,
        mcp=_build_entries("mcp", sections.mcp, McpServerTable, build_mcp_server, reader),
        models=_build_entries("models", sections.models, ModelTable, build_model, reader),
        workflows=_build_entries("workflows", sections.workflows, WorkflowTable, build_workflow, reader),
        defaults=reader.read(Defaults, sections.defaults, ("defaults",)) or Defaults(),
        graphs=read_graphs(sections.graphs, reader),
        handler_modules=tuple(dict.fromkeys(handlers.modules)),
        serving=_read_serving(sections.serve, reader),
        queues=read_queues(sections.queues, reader),
        spending_limits=read_spending_limits(sections.spending_limits, reader),
        # Last, because reading the other sections adds warnings.
        warnings=tuple(sorted(reader.warnings, key=attrgetter("line"))),
    )


def _read_serving(table: Mapping[str, Any], reader: Reader) -> Serving:
    serving = reader.read(Serving, table, ("serve",), strict=True) or Serving()
    if isinstance(serving.database, PostgresUrl) and serving.database.has_password:
        reader.add_warning(
            ("serve", "database"),
            "The URL of the database contains a password.",
            "Store it in the environment variable PGPASSWORD or in the file ~/.pgpass, or the whole URL in "
            "STATEWRIGHT_DATABASE.",
        )
    return serving


def _build_entries(
    section: str,
    entries: Mapping[str, Any],
    model: type[T],
    build: Callable[[str, T, Keys, Reader], E],
    reader: Reader,
) -> dict[str, E]:
    """Build the valid entries of a section. Invalid entries are reported and left out."""
    tables = {name: reader.read(model, value, (section, name)) for name, value in entries.items()}
    return {name: build(name, table, (section, name), reader) for name, table in tables.items() if table is not None}
