"""`statewright dev`: everything in one process, for the desk: a server with its worker, and code that reloads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from statewright.cli.options import BaseUrlOption, DatabaseOption, KeyOption

if TYPE_CHECKING:
    import socket

    from statewright.cli.models import Models
    from statewright.cli.serving import Auth, Place
    from statewright.project import Project

DRAIN = 5.0
"""Seconds that steps under way have to end when the code is loaded anew. At a desk nobody likes to wait."""


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
    from statewright.cli.catalog import project_of
    from statewright.cli.models import read_models
    from statewright.cli.serving import place_for
    from statewright.server.libraries import require_libraries

    require_libraries()
    models = read_models([model] if model is not None else None, base_url)
    if child is None and reload:
        _reload(target, host, port, database)
    if child is not None:
        # What is compiled is known by its second and size, and a file may be saved twice in one second.
        sys.dont_write_bytecode = True
    project = project_of(target)
    place = place_for(project, host, port, database, key_file)
    _serve(project, place, models, child)


def _reload(target: str | None, host: str | None, port: int | None, database: str | None) -> None:
    """Keep a server running in a process of its own, and leave when it is over."""
    from statewright.cli.listening import listening_on
    from statewright.cli.reloading import Reloader
    from statewright.cli.serving import place_for

    place = place_for(_settled(target), host, port, database, None)
    with listening_on(place.host, place.port) as listening:
        raise SystemExit(Reloader(listening, sys.argv[1:], target, DRAIN).run())


def _settled(target: str | None) -> Project:
    """The project of a target, of which nothing is imported here."""
    from statewright.cli.catalog import project_of
    from statewright.project import load_project

    return project_of(None) if target is None else load_project(Path(target.partition(":")[0]))


def _serve(project: Project, place: Place, models: Models, child: str | None) -> None:
    from dataclasses import replace

    from statewright.cli.announce import announce, announce_again
    from statewright.cli.catalog import catalog_of
    from statewright.cli.failure import FAILED
    from statewright.cli.handover import Child
    from statewright.cli.listening import address_of, listening_on
    from statewright.cli.serving import run_server, server_settings, service_settings
    from statewright.observe import configure_logging

    catalog = catalog_of(project, models)
    auth = auth_of(place)
    settings = server_settings(project, place, auth, drain=DRAIN)
    limits = replace(service_settings(project), drain=DRAIN)
    taking_over = Child(child) if child is not None else None
    is_first = taking_over is None or taking_over.wait_for_turn()
    if taking_over is not None:
        taking_over.end_with_parent()
    listening: socket.socket = taking_over.listening if taking_over else listening_on(place.host, place.port)
    if is_first:
        announce(address_of(listening), catalog, place.database, auth)
    else:
        announce_again(catalog)
    with configure_logging("console"), configure_logging("console", level="WARNING", loggers=["uvicorn"]):
        done = run_server(project, catalog, place, settings, limits, listening)
    if not done:
        raise SystemExit(FAILED)


def auth_of(place: Place) -> Auth:
    """Nobody is asked for a key on this machine; elsewhere everybody is. Raises WrongUse where there is no key."""
    import asyncio

    from statewright.cli.failure import WrongUse
    from statewright.cli.serving import has_keys, opened_views

    if place.is_loopback:
        return "none"
    with opened_views(place) as (_, ledger, _store):
        if asyncio.run(has_keys(ledger)):
            return "keys"
    raise WrongUse(
        f"Everybody who reaches {place.host} could run this, and there is no key yet. "
        f"Create one with: statewright keys create NAME --database {place.database}. Or listen on 127.0.0.1."
    )
