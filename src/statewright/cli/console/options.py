"""Options shared by several commands. Light to import; `cli.db.database` interprets the values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

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
ModelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        metavar="[NAME=]MODEL",
        help="The model, e.g. openai:gpt-5. With NAME=, only for that assistant or agent. Repeatable.",
    ),
]
BaseUrlOption = Annotated[
    str | None,
    typer.Option("--base-url", metavar="URL", help="The URL of the model server. Default: that of the provider."),
]
GraphOption = Annotated[
    str | None,
    typer.Option("--graph", metavar="FILE.py[:GRAPH]", help="The graph with the types of the state."),
]
BranchOption = Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch of the thread.")]
WorkspaceOption = Annotated[str, typer.Option("--workspace", metavar="NAME", help="The workspace, by slug or id.")]
LimitOption = Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="List at most N entries.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ThreadArgument = Annotated[str, typer.Argument(metavar="THREAD", help="The id of the thread.")]
