"""Options shared by several commands. Light to import; `cli.db.database` interprets the values.

Options that belong together are the fields of a dataclass, which a command takes as one parameter. Typer knows no such
groups: `cli.commands.expand_groups` replaces the parameter by its fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from statewright.ids import DEFAULT_WORKSPACE

VARIABLE: Final = "STATEWRIGHT_DATABASE"
DEFAULT: Final = Path(".statewright/runs.db")
MEMORY: Final = "memory:"
"""Value of --database that saves nothing."""

DatabaseOption = Annotated[
    str | None,
    typer.Option("--database", "--db", metavar="PATH", help=f"The database file. Default: ${VARIABLE} or {DEFAULT}."),
]
ServerDatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        "--db",
        metavar="PATH",
        help=f"The database file. Default: ${VARIABLE}, that of the project, or {DEFAULT}.",
    ),
]
KeyOption = Annotated[
    Path | None, typer.Option("--key-file", metavar="PATH", help="The file with the encryption key of the database.")
]
GraphOption = Annotated[
    str | None,
    typer.Option("--graph", metavar="FILE.py[:GRAPH]", help="The graph with the types of the state."),
]
BranchOption = Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch of the thread.")]
LimitOption = Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="List at most N entries.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ThreadArgument = Annotated[str, typer.Argument(metavar="THREAD", help="The id of the thread.")]
BaseUrlOption = Annotated[
    str | None,
    typer.Option("--base-url", metavar="URL", help="The URL of the model server. Default: that of the provider."),
]


@dataclass(frozen=True, kw_only=True)
class DatabaseOptions:
    """The database of a command, and its key."""

    database: DatabaseOption = None
    key_file: KeyOption = None

    @property
    def words(self) -> tuple[str, ...]:
        """The options as words of another command line that uses the same database."""
        path = ("--database", self.database) if self.database else ()
        return (*path, *(("--key-file", str(self.key_file)) if self.key_file else ()))


@dataclass(frozen=True, kw_only=True)
class ServerDatabaseOptions(DatabaseOptions):
    """The database of a server, which its project may name."""

    database: ServerDatabaseOption = None


@dataclass(frozen=True, kw_only=True)
class WorkspaceOptions(DatabaseOptions):
    """A workspace and its database."""

    workspace: Annotated[str, typer.Option("--workspace", metavar="NAME", help="The workspace, by slug or id.")] = (
        DEFAULT_WORKSPACE
    )


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The models of a command."""

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
    """The limits and the output of a run."""

    script: Annotated[
        Path | None,
        typer.Option(
            "--script",
            metavar="FILE",
            help="A JSON file with outputs of the states of a workflow, which replace its models and tools.",
        ),
    ] = None
    json: Annotated[bool, typer.Option("--json", help="Print the state as one JSON document.")] = False
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
            help="The maximum number of branches into which a workflow splits one result.",
        ),
    ] = None
    show_traceback: Annotated[bool, typer.Option("--traceback", help="Print the Python traceback of a failure.")] = (
        False
    )

    @property
    def config(self) -> dict[str, Any]:
        """The limits, as the configuration of a run."""
        limits = {"recursion_limit": self.recursion_limit, "max_concurrency": self.max_concurrency}
        return {name: limit for name, limit in limits.items() if limit is not None}
