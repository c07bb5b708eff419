"""`statewright serve`: a production server, until SIGTERM."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from statewright.cli.console.options import BaseUrlOption, DatabaseOption, KeyOption

if TYPE_CHECKING:
    from statewright.cli.serve.server import ServerLocation

ADMIN_TOKEN = "STATEWRIGHT_ADMIN_TOKEN"
"""Default variable with the admin token."""
DRAIN = 20.0


def serve(
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
    auth: Annotated[
        Literal["keys", "none"], typer.Option("--auth", help="Whether callers need a key; `none` only on loopback.")
    ] = "keys",
    admin_token_env: Annotated[
        str | None,
        typer.Option(
            "--admin-token-env", metavar="NAME", help=f"The variable with the admin token. Default: {ADMIN_TOKEN}."
        ),
    ] = None,
    log_format: Annotated[
        Literal["json", "console"], typer.Option("--log-format", help="JSON lines, or text for people.")
    ] = "json",
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="MODEL", help="The model to use, whatever the files say.")
    ] = None,
    base_url: BaseUrlOption = None,
) -> None:
    """Serve the graphs of a project or of one file for others, until SIGTERM. Needs the extra `server`."""
    from statewright.cli.console.failure import FAILED
    from statewright.cli.serve.catalog import build_catalog, select_project
    from statewright.cli.serve.server import (
        build_server_settings,
        build_service_settings,
        logger,
        resolve_location,
        run_server,
    )
    from statewright.cli.serve.sockets import open_listening_socket, socket_url
    from statewright.cli.workflow.models import read_models
    from statewright.observe import configure_logging
    from statewright.server.libraries import require_libraries

    require_libraries()
    models = read_models([model] if model is not None else None, base_url)
    project = select_project(target)
    location = resolve_location(project, host, port, database, key_file)
    check_auth(location, auth)
    settings = build_server_settings(
        project, location, auth, read_admin_token(admin_token_env), project.serving.drain or DRAIN
    )
    with (
        open_listening_socket(location.host, location.port) as listening,
        configure_logging(log_format, loggers=_LOGGERS),
    ):
        catalog = build_catalog(project, models)
        fields = {"url": socket_url(listening), "graphs": [served.name for served in catalog.served], "auth": auth}
        logger.info("The server listens.", extra=fields)
        warn_if_no_keys(location, auth)
        done = run_server(project, catalog, location, settings, build_service_settings(project), listening)
        logger.info("The server has ended.")
    if not done:
        raise SystemExit(FAILED)


_LOGGERS = ("statewright", "uvicorn")


def check_auth(location: ServerLocation, auth: Literal["keys", "none"]) -> None:
    """Raise UsageError if the server would be open to everybody on the network."""
    from statewright.cli.console.failure import UsageError

    if auth == "none" and not location.is_loopback:
        raise UsageError(
            f"With --auth none everybody who reaches {location.host} could run this. "
            f"Give --auth keys, and create a key: "
            f"statewright keys create NAME --database {location.database}. Or listen on 127.0.0.1."
        )


def read_admin_token(variable: str | None) -> str | None:
    """Return the admin token from the environment. Raises UsageError if a variable was named and is not set."""
    from statewright.cli.console.failure import UsageError

    token = os.environ.get(variable or ADMIN_TOKEN)
    if variable is not None and not token:
        raise UsageError(f"The variable {variable} is not set. Put the admin token into it.")
    return token or None


def warn_if_no_keys(location: ServerLocation, auth: Literal["keys", "none"]) -> None:
    """Log how to create the first key, if keys are required and none exist."""
    import asyncio

    from statewright.cli.serve.server import has_keys, logger, open_storage

    if auth == "none":
        return
    with open_storage(location) as (_, ledger, _store):
        if not asyncio.run(has_keys(ledger)):
            advice = f"statewright keys create NAME --database {location.database}"
            logger.warning("No API key exists yet, and every request needs one.", extra={"make_one": advice})
