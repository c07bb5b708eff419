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
    typer.Option("--database", "--db", metavar="PATH", help=f"The database file. Default: ${VARIABLE}, or {DEFAULT}."),
]
KeyOption = Annotated[
    Path | None, typer.Option("--key-file", metavar="PATH", help="A file with the key of an encrypted database.")
]
ModelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        metavar="[NAME=]MODEL",
        help="The model to use, e.g. openai:gpt-5, for every assistant and agent, or only for NAME.",
    ),
]
BaseUrlOption = Annotated[
    str | None,
    typer.Option("--base-url", metavar="URL", help="The URL of the model server, if it is not the provider's own."),
]
GraphOption = Annotated[
    str | None, typer.Option("--graph", metavar="FILE.py[:GRAPH]", help="The graph that knows the types of the state.")
]
BranchOption = Annotated[str, typer.Option("--branch", metavar="NAME", help="The branch of the thread.")]
WorkspaceOption = Annotated[
    str, typer.Option("--workspace", metavar="NAME", help="The workspace of the threads: its slug or its id.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
ThreadArgument = Annotated[str, typer.Argument(metavar="THREAD", help="The id of the thread.")]
