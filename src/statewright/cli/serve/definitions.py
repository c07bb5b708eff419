"""`statewright definitions`: check step workflows, and store them on a server."""

from __future__ import annotations

import json as json_format
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from statewright.cli.console.failure import report_os_errors
from statewright.cli.console.options import JsonOption, LimitOption
from statewright.cli.console.printing import pluralize, say
from statewright.cli.console.table import Column, format_instant, print_list
from statewright.cli.console.values import to_json
from statewright.cli.runs.client_session import UrlOption, open_client
from statewright.workflow.steps import read_definition

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="A step workflow in JSON.")]


def check(file: FileArgument) -> None:
    """Check a step workflow, and list all problems. Its handlers are checked by the server that stores it."""
    definition = load_definition(file)
    say(f"ok: {definition['name']} {definition['version']}, {pluralize(len(definition['steps']), 'step')}")


def add(file: FileArgument, json: JsonOption = False, url: UrlOption = None) -> None:
    """Store a version of a step workflow on a server. Storing an identical version again changes nothing."""
    body = load_definition(file)
    with open_client(url) as client:
        stored = client.definitions.add(body)
    say(to_json(stored.raw) if json else f"{stored.id}  {stored.name} {stored.version}")


def ls(limit: LimitOption = 20, json: JsonOption = False, url: UrlOption = None) -> None:
    """List the stored versions, newest first."""
    with open_client(url) as client:
        stored = list(islice(client.definitions.iterate(), limit))
    print_list(
        stored,
        {
            Column("DEFINITION", keep_words=True): lambda version: version.id,
            Column("NAME", keep_words=True): lambda version: version.name,
            Column("VERSION", keep_words=True): lambda version: version.version,
            Column("STORED", keep_words=True): lambda version: format_instant(version.created_at),
            Column("DESCRIPTION"): lambda version: version.description,
        },
        as_json=json,
        to_data=lambda version: version.raw,
        if_empty="There are no stored definitions. Add one with: statewright definitions add FILE.json",
    )


def show(
    definition: Annotated[str, typer.Argument(metavar="ID", help="The id of a stored version.")],
    json: JsonOption = False,
    url: UrlOption = None,
) -> None:
    """Print a stored version as it was written. With --json, include its metadata."""
    with open_client(url) as client:
        stored = client.definitions.get(definition)
    say(to_json(stored.raw if json else stored.definition))


def load_definition(file: Path) -> dict[str, Any]:
    """Read and check a step workflow, and return it as written.

    Raises WorkflowError with all problems, and UsageError for a file that cannot be read.
    """
    with report_os_errors(f"The file {str(file)!r} cannot be read"):
        content = file.read_bytes()
    read_definition(content, source=str(file))
    return json_format.loads(content)
