"""`statewright dev`: a development server with a worker in the same process, and reloading."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from statewright.cli.console.options import BaseUrlOption, DatabaseOption, KeyOption

if TYPE_CHECKING:
    import socket

    from statewright.cli.serve.server import Auth, ServerLocation
    from statewright.cli.workflow.models import Models
    from statewright.project import Project

DRAIN = 5.0
"""Seconds that running steps have to finish before a reload; short, because a developer is waiting."""


def dev(
    target: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="FILE.py[:GRAPH], FILE.yaml or FILE.json. Default: the project's graphs."),
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", metavar="ADDRESS", help="Where to listen. Default: 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", "-p", metavar="N", min=0, max=65535, help="The port. Default: 8123; 0 takes a free one."
        ),
    ] = None,
    database: DatabaseOption = None,
    key_file: KeyOption = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="MODEL", help="The model to use, whatever the files say.")
    ] = None,
    base_url: BaseUrlOption = None,
    reload: Annotated[bool, typer.Option("--reload/--no-reload", help="Reload the code when it changes.")] = True,
    child: Annotated[str | None, typer.Option("--child", hidden=True)] = None,
) -> None:
    """Serve the graphs of a project or of one file while you work on them. Needs the extra `server`."""
    from statewright.cli.serve.catalog import select_project
    from statewright.cli.serve.server import resolve_location
    from statewright.cli.workflow.models import read_models
    from statewright.server.libraries import require_libraries

    require_libraries()
    models = read_models([model] if model is not None else None, base_url)
    if child is None and reload:
        _reload(target, host, port, database)
    if child is not None:
        # Bytecode is identified by the second and size of its source, and a file may be saved twice in one second.
        sys.dont_write_bytecode = True
    project = select_project(target)
    location = resolve_location(project, host, port, database, key_file)
    _serve(project, location, models, child)


def _reload(target: str | None, host: str | None, port: int | None, database: str | None) -> None:
    """Run the server in a child process that is replaced on changes, and exit with its exit code."""
    from statewright.cli.serve.reload import Reloader
    from statewright.cli.serve.server import resolve_location
    from statewright.cli.serve.sockets import open_listening_socket

    location = resolve_location(_find_project(target), host, port, database, None)
    with open_listening_socket(location.host, location.port) as listening:
        raise SystemExit(Reloader(listening, sys.argv[1:], target, DRAIN).run())


def _find_project(target: str | None) -> Project:
    """Return the project of a target without importing its modules."""
    from statewright.cli.serve.catalog import select_project
    from statewright.project import load_project

    return select_project(None) if target is None else load_project(Path(target.partition(":")[0]))


def _serve(project: Project, location: ServerLocation, models: Models, child: str | None) -> None:
    from dataclasses import replace

    from statewright.cli.console.failure import FAILED
    from statewright.cli.serve.announce import announce, announce_reload
    from statewright.cli.serve.catalog import build_catalog
    from statewright.cli.serve.server import build_server_settings, build_service_settings, run_server
    from statewright.cli.serve.sockets import ParentLink, open_listening_socket, socket_url
    from statewright.observe import configure_logging

    catalog = build_catalog(project, models)
    auth = choose_auth(location)
    settings = build_server_settings(project, location, auth, drain=DRAIN)
    limits = replace(build_service_settings(project), drain=DRAIN)
    taking_over = ParentLink(child) if child is not None else None
    is_first = taking_over is None or taking_over.wait_for_turn()
    if taking_over is not None:
        taking_over.exit_with_parent()
    listening: socket.socket = (
        taking_over.listening if taking_over else open_listening_socket(location.host, location.port)
    )
    if is_first:
        announce(socket_url(listening), catalog, location.database, auth)
    else:
        announce_reload(catalog)
    with configure_logging("console"), configure_logging("console", level="WARNING", loggers=["uvicorn"]):
        done = run_server(project, catalog, location, settings, limits, listening)
    if not done:
        raise SystemExit(FAILED)


def choose_auth(location: ServerLocation) -> Auth:
    """Require keys unless the address is a loopback one. Raises UsageError if they are required and none exist."""
    import asyncio

    from statewright.cli.console.failure import UsageError
    from statewright.cli.serve.server import has_keys, open_storage

    if location.is_loopback:
        return "none"
    with open_storage(location) as (_, ledger, _store):
        if asyncio.run(has_keys(ledger)):
            return "keys"
    raise UsageError(
        f"Everybody who reaches {location.host} could run this, and there is no key yet. "
        f"Create one with: statewright keys create NAME --database {location.database}. Or listen on 127.0.0.1."
    )
