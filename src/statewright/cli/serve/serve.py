"""`statewright serve`: a project served for others, until SIGTERM."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from statewright.cli.console.options import BaseUrlOption, DatabaseOption, KeyOption

if TYPE_CHECKING:
    from statewright.cli.serve.server import Place

ADMIN_TOKEN = "STATEWRIGHT_ADMIN_TOKEN"
"""The variable that holds the token of the operator, unless another one is named."""
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
    from statewright.cli.serve.catalog import catalog_of, project_of
    from statewright.cli.serve.server import logger, place_for, run_server, server_settings, service_settings
    from statewright.cli.serve.sockets import address_of, listening_on
    from statewright.cli.workflow.models import read_models
    from statewright.observe import configure_logging
    from statewright.server.libraries import require_libraries

    require_libraries()
    models = read_models([model] if model is not None else None, base_url)
    project = project_of(target)
    place = place_for(project, host, port, database, key_file)
    check_auth(place, auth)
    settings = server_settings(project, place, auth, admin_token(admin_token_env), project.serving.drain or DRAIN)
    with listening_on(place.host, place.port) as listening, configure_logging(log_format, loggers=_LOGGERS):
        catalog = catalog_of(project, models)
        told = {"url": address_of(listening), "graphs": [one.name for one in catalog.served], "auth": auth}
        logger.info("The server listens.", extra=told)
        warn_of_no_keys(place, auth)
        done = run_server(project, catalog, place, settings, service_settings(project), listening)
        logger.info("The server has ended.")
    if not done:
        raise SystemExit(FAILED)


_LOGGERS = ("statewright", "uvicorn")


def check_auth(place: Place, auth: Literal["keys", "none"]) -> None:
    """Raise WrongUse where everybody would be let in."""
    from statewright.cli.console.failure import WrongUse

    if auth == "none" and not place.is_loopback:
        raise WrongUse(
            f"With --auth none everybody who reaches {place.host} could run this. Give --auth keys, and create a key: "
            f"statewright keys create NAME --database {place.database}. Or listen on 127.0.0.1."
        )


def admin_token(variable: str | None) -> str | None:
    """The token of the operator. Raises WrongUse if it is to be in a variable that is not set."""
    from statewright.cli.console.failure import WrongUse

    token = os.environ.get(variable or ADMIN_TOKEN)
    if variable is not None and not token:
        raise WrongUse(f"The variable {variable} is not set. Put the admin token into it.")
    return token or None


def warn_of_no_keys(place: Place, auth: Literal["keys", "none"]) -> None:
    """Say how the first key is made, where one is needed and there is none."""
    import asyncio

    from statewright.cli.serve.server import has_keys, logger, opened_views

    if auth == "none":
        return
    with opened_views(place) as (_, ledger, _store):
        if not asyncio.run(has_keys(ledger)):
            advice = f"statewright keys create NAME --database {place.database}"
            logger.warning("Nobody has a key yet, and nothing is answered without one.", extra={"make_one": advice})
