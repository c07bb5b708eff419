"""Options that several commands share. This module is fast to import; `cli.db.database` interprets the values.

Options that belong together are the fields of a dataclass, which a command takes as one parameter. Typer does not
support such groups: `cli.commands.expand_groups` replaces the parameter with its fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from statewright.data.mappings import without_none
from statewright.ids import DEFAULT_WORKSPACE
from statewright.storage.locations import is_postgres_url, parse_postgres_url

DATABASE_VARIABLE: Final = "STATEWRIGHT_DATABASE"
DEFAULT_DATABASE: Final = Path(".statewright/runs.db")
EXAMPLE_URL: Final = "postgresql://user@host/name"
MEMORY: Final = "memory:"
"""The value of --database with which nothing is saved."""

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        "--db",
        metavar="PATH|URL",
        help=f"The database: a file, or a URL such as {EXAMPLE_URL}. Default: ${DATABASE_VARIABLE}, or "
        f"{DEFAULT_DATABASE}.",
    ),
]
ServerDatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        "--db",
        metavar="PATH|URL",
        help=f"The database: a file, or a URL such as {EXAMPLE_URL}. Default: ${DATABASE_VARIABLE}, the project's "
        f"database, or {DEFAULT_DATABASE}.",
    ),
]
KeyOption = Annotated[
    Path | None, typer.Option("--key-file", metavar="PATH", help="A file with the encryption key of the database.")
]
GraphOption = Annotated[
    str | None,
    typer.Option(
        "--graph", metavar="FILE.py[:GRAPH]", help="The graph of the thread, for values of user-defined types."
    ),
]
BranchOption = Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch of the thread.")]
LimitOption = Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="List at most N entries.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ThreadArgument = Annotated[str, typer.Argument(metavar="THREAD", help="The id of the thread.")]
BaseUrlOption = Annotated[
    str | None,
    typer.Option("--base-url", metavar="URL", help="The URL of the model server. Default: the provider's URL."),
]


@dataclass(frozen=True, kw_only=True)
class DatabaseOptions:
    """The database of a command, and its encryption key."""

    database: DatabaseOption = None
    key_file: KeyOption = None

    @property
    def args(self) -> tuple[str, ...]:
        """The options as command-line arguments, for a suggested command that uses the same database.

        A URL has no password there.
        """
        database = self.database
        if database is not None and is_postgres_url(database):
            database = str(parse_postgres_url(database))
        location = ("--database", database) if database else ()
        return (*location, *(("--key-file", str(self.key_file)) if self.key_file else ()))


@dataclass(frozen=True, kw_only=True)
class ServerDatabaseOptions(DatabaseOptions):
    """The database of a server, which may be configured in its project."""

    database: ServerDatabaseOption = None


@dataclass(frozen=True, kw_only=True)
class WorkspaceOptions(DatabaseOptions):
    """A workspace and its database."""

    workspace: Annotated[str, typer.Option("--workspace", metavar="NAME", help="The workspace, by slug or id.")] = (
        DEFAULT_WORKSPACE
    )


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The models that a command uses."""

    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            metavar="[NAME=]MODEL",
            help="The model, e.g. openai:gpt-5. With NAME=, only for that assistant or agent. Repeatable.",
        ),
    ] = None
    base_url: BaseUrlOption = None


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The script, limits and output of a run."""

    script: Annotated[
        Path | None,
        typer.Option(
            "--script",
            metavar="FILE",
            help="A JSON file with scripted outputs of a workflow's states, used instead of its models and tools.",
        ),
    ] = None
    json: Annotated[bool, typer.Option("--json", help="Print the state as a JSON document.")] = False
    recursion_limit: Annotated[
        int | None, typer.Option("--recursion-limit", metavar="N", help="The maximum number of supersteps.")
    ] = None
    max_concurrency: Annotated[
        int | None, typer.Option("--max-concurrency", metavar="N", help="The maximum number of concurrent tasks.")
    ] = None
    max_items: Annotated[
        int | None,
        typer.Option(
            "--max-items",
            metavar="N",
            min=1,
            help="The maximum number of items over which a workflow fans out.",
        ),
    ] = None
    show_traceback: Annotated[bool, typer.Option("--traceback", help="Print the Python traceback on failure.")] = False

    @property
    def config(self) -> dict[str, Any]:
        """The limits, as the configuration of a run."""
        limits = {"recursion_limit": self.recursion_limit, "max_concurrency": self.max_concurrency}
        return without_none(limits)
