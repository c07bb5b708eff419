"""The startup message of the development server: its URL, the graphs that it serves, and how to start a run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from statewright.cli.console.printing import say
from statewright.cli.console.table import Column, PrintableConsole, print_table
from statewright.client import DEFAULT_URL
from statewright.server.settings import Auth
from statewright.service import Catalog, Served

_KINDS: Final = {"graph": "Python", "states": "states in YAML", "steps": "steps in JSON"}


def announce(url: str, catalog: Catalog, database: object, auth: Auth, *, has_page: bool = True) -> None:
    """Print the startup message, coloured on a terminal."""
    terminal = PrintableConsole(highlight=False, soft_wrap=True)
    terminal.print(Text("Statewright is listening on ").append(url, style="bold cyan"))
    if has_page:
        terminal.print(Text("Page: ").append(page_url(url), style="bold cyan"))
    if catalog.served:
        terminal.print("Serving:")
        print_table([Column(keep_words=True), Column(), Column()], [_row(served) for served in catalog.served])
        _print_start_commands(terminal, url, catalog.served[0], auth)
    else:
        terminal.print("No graphs to serve yet. Add a step workflow with: statewright definitions add FILE.json")
    terminal.print(f"Runs are stored in {database}", style="dim", markup=False)
    terminal.file.flush()


def page_url(url: str) -> str:
    """Return the address of the web page of a server."""
    return f"{url}/ui/"


def announce_reload(catalog: Catalog) -> None:
    """Print the graphs that are served after a reload."""
    say(f"Serving: {', '.join(served.name for served in catalog.served) or 'no graphs'}", flush=True)


def _row(served: Served) -> tuple[Text, str, Text]:
    description = served.description.strip().split("\n", 1)[0]
    return Text(f"  {served.name}", style="bold"), _KINDS[served.kind], Text(description, style="dim")


def _print_start_commands(terminal: Console, url: str, served: Served, auth: Auth) -> None:
    body = json.dumps(example_input(served.app.get_input_jsonschema()), ensure_ascii=False)
    terminal.print("Start a run:")
    terminal.print(f"  {start_command(url, served.name, body)}", markup=False)
    terminal.print(f"  {curl_command(url, served.name, body, auth)}", markup=False)


def start_command(url: str, graph: str, body: str) -> str:
    """Return the command line that starts a run."""
    server = [] if url == DEFAULT_URL else ["--url", url]
    return shlex.join(["statewright", "runs", "start", graph, "--input", body, "--wait", *server])


def curl_command(url: str, graph: str, body: str, auth: Auth) -> str:
    """Return the curl command that starts a run; a required key is read from the environment."""
    key = ' -H "x-api-key: $STATEWRIGHT_API_KEY"' if auth == "keys" else ""
    data = shlex.quote(f'{{"graph": {json.dumps(graph, ensure_ascii=False)}, "input": {body}}}')
    return (
        f"curl {shlex.quote(f'{url}/api/v1/workflow-runs?wait=60')} -H 'content-type: application/json'{key} -d {data}"
    )


_EXAMPLES: Final[Mapping[Any, Any]] = {
    "string": "...",
    "integer": 0,
    "number": 0,
    "boolean": False,
    "array": [],
    "object": {},
}
"""Example values by JSON Schema type."""


def example_input(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an example input with the required fields, or with the first optional one if none is required."""
    properties: Mapping[str, Any] = schema.get("properties") or {}
    names = [name for name in schema.get("required") or list(properties)[:1] if name in properties]
    return {name: _EXAMPLES.get(properties[name].get("type")) for name in names}
