"""`statewright serve`, the production server, and `statewright dev`, the development server, which reloads code."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from statewright.cli.console.failure import FAILED, UsageError
from statewright.cli.console.options import BaseUrlOption, ServerDatabaseOptions
from statewright.cli.console.warnings import redirect_warnings
from statewright.cli.serve.announce import announce, announce_reload, page_url
from statewright.cli.serve.catalog import build_catalog, select_project
from statewright.cli.serve.load_problems import describe_failure
from statewright.cli.serve.reload import Reloader, find_project_folder
from statewright.cli.serve.server import (
    ServerLocation,
    build_server_settings,
    build_service_settings,
    has_keys,
    logger,
    open_storage,
    resolve_location,
    run_server,
)
from statewright.cli.serve.sockets import ParentLink, open_listening_socket, socket_url
from statewright.cli.serve.start_fields import start_fields
from statewright.cli.workers.queue_names import QueuesOption, read_queue_names
from statewright.cli.workflow.models import Models, read_models
from statewright.clock import SystemClock
from statewright.observe import configure_logging
from statewright.project import Project, load_project
from statewright.server import require_libraries
from statewright.server.context.reload_status import LoadFailure, ReloadStatus
from statewright.server.page.built_files import is_built
from statewright.server.settings import Auth
from statewright.service import Catalog

ADMIN_TOKEN_VARIABLE: Final = "STATEWRIGHT_ADMIN_TOKEN"
"""The default environment variable with the admin token."""
DRAIN_TIMEOUT: Final = 20.0
"""Seconds that running steps have to finish before the server exits."""
DEV_DRAIN_TIMEOUT: Final = 5.0
"""The same for the development server; short, because a developer waits for the reload."""

TargetArgument = Annotated[
    str | None,
    typer.Argument(metavar="FILE", help="FILE.py[:GRAPH], FILE.yaml or FILE.json. Default: all graphs of the project."),
]


@dataclass(frozen=True, kw_only=True)
class ServerOptions(ServerDatabaseOptions):
    """The options that `serve` and `dev` share."""

    host: Annotated[
        str | None,
        typer.Option(
            "--host", metavar="ADDRESS", help="The address to listen on. Default: the project's, or 127.0.0.1."
        ),
    ] = None
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            "-p",
            metavar="N",
            min=0,
            max=65535,
            help="The port; 0 picks a free one. Default: the project's, or 8123.",
        ),
    ] = None
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="MODEL", help="The model to use instead of those named in files."),
    ] = None
    base_url: BaseUrlOption = None

    def resolve_location(self, project: Project) -> ServerLocation:
        """Return the address to listen on and the database."""
        return resolve_location(project, self, self.host, self.port)

    def read_models(self) -> Models:
        """Return the model options as `Models`. Raises UsageError."""
        return read_models([self.model] if self.model is not None else None, self.base_url)


def serve(
    target: TargetArgument = None,
    *,
    options: ServerOptions,
    auth: Annotated[
        Literal["keys", "none"],
        typer.Option("--auth", help="Whether requests need an API key; `none` is only allowed on a loopback address."),
    ] = "keys",
    admin_token_env: Annotated[
        str | None,
        typer.Option(
            "--admin-token-env",
            metavar="NAME",
            help=f"The environment variable that holds the admin token. Default: {ADMIN_TOKEN_VARIABLE}.",
        ),
    ] = None,
    queues: QueuesOption = None,
    no_work: Annotated[
        bool,
        typer.Option(
            "--no-work", help="Only answer requests, and leave the runs to processes of `statewright worker`."
        ),
    ] = False,
    log_format: Annotated[
        Literal["json", "console"], typer.Option("--log-format", help="The format of the log: JSON lines, or text.")
    ] = "json",
) -> None:
    """Serve the graphs of a project or of one file in production, until SIGTERM. Needs the extra `server`."""
    require_libraries()
    queue_names = read_queue_names(queues)
    if no_work and queue_names is not None:
        raise UsageError("With --no-work, the server advances no runs, so it cannot have --queues. Remove one of them.")
    models = options.read_models()
    project = select_project(target)
    location = options.resolve_location(project)
    if auth == "none" and not location.is_loopback:
        raise UsageError(
            f"With --auth none, anyone who can reach {location.host} could use the server. Use --auth keys, and "
            f"create a key with: {_key_command(location)}. Or listen on 127.0.0.1."
        )
    settings = build_server_settings(
        project, location, auth, read_admin_token(admin_token_env), project.serving.drain or DRAIN_TIMEOUT
    )
    with (
        open_listening_socket(location.host, location.port) as listening,
        configure_logging(log_format, loggers=("statewright", "uvicorn")),
        redirect_warnings(logger.warning),
    ):
        catalog = build_catalog(project, models)
        service_settings = replace(build_service_settings(project), works=not no_work)
        service_settings = replace(service_settings, queues=queue_names or service_settings.queues)
        url = socket_url(listening)
        fields = {
            "url": url,
            **({"page": page_url(url)} if settings.page and is_built() else {}),
            "auth": auth,
            **start_fields(location, catalog, service_settings),
        }
        logger.info("The server is listening.", extra=fields)
        if auth == "keys" and not _database_has_keys(location):
            logger.warning(
                "No API key exists yet, and every request needs one.", extra={"create_with": _key_command(location)}
            )
        has_started = run_server(project, catalog, location, settings, service_settings, listening)
        logger.info("The server has stopped.")
    if not has_started:
        raise SystemExit(FAILED)


def dev(
    target: TargetArgument = None,
    *,
    options: ServerOptions,
    reload: Annotated[bool, typer.Option("--reload/--no-reload", help="Reload the code when it changes.")] = True,
    child: Annotated[str | None, typer.Option("--child", hidden=True)] = None,
) -> None:
    """Serve the graphs of a project or of one file during development. Needs the extra `server`."""
    require_libraries()
    models = options.read_models()
    if child is None and reload:
        # The child imports the modules of the project; this process only needs its settings.
        project = select_project(None) if target is None else load_project(Path(target.partition(":")[0]))
        location = options.resolve_location(project)
        with open_listening_socket(location.host, location.port) as listening:
            raise SystemExit(Reloader(listening, sys.argv[1:], target, DEV_DRAIN_TIMEOUT).run())
    if child is not None:
        # Python detects stale bytecode by the size and the modification time, in seconds, of the source, but a file may
        # be saved twice in one second.
        sys.dont_write_bytecode = True
    parent = ParentLink(child) if child is not None else None
    with _report_failure_to(parent, target):
        project = select_project(target)
        location = options.resolve_location(project)
        catalog = build_catalog(project, models)
    _serve_for_development(project, catalog, location, parent)


@contextmanager
def _report_failure_to(parent: ParentLink | None, target: str | None) -> Generator[None]:
    """Report an error while loading a project to the parent, which passes it on to the server that keeps running."""
    try:
        yield
    except Exception as error:
        if parent is not None:
            folder = find_project_folder(target)
            parent.report_failure(describe_failure(error, folder).to_line())
        raise


def _serve_for_development(
    project: Project, catalog: Catalog, location: ServerLocation, parent: ParentLink | None
) -> None:
    auth = choose_auth(location)
    settings = build_server_settings(project, location, auth, drain_timeout=DEV_DRAIN_TIMEOUT)
    service_settings = replace(build_service_settings(project), drain=DEV_DRAIN_TIMEOUT)
    status = ReloadStatus(SystemClock().now()) if parent is not None else None
    is_first = parent is None or parent.wait_for_turn()
    if parent is not None and status is not None:
        parent.exit_with_parent(partial(_note_failure, status))
    listening = parent.listening if parent is not None else open_listening_socket(location.host, location.port)
    if is_first:
        announce(socket_url(listening), catalog, location.database, auth, has_page=settings.page)
    else:
        announce_reload(catalog)
    with (
        configure_logging("console"),
        configure_logging("console", level="WARNING", loggers=["uvicorn"]),
        redirect_warnings(logger.warning),
    ):
        has_started = run_server(project, catalog, location, settings, service_settings, listening, status)
    if not has_started:
        raise SystemExit(FAILED)


def _note_failure(status: ReloadStatus, line: bytes) -> None:
    status.failed = (LoadFailure.from_line(line), SystemClock().now())


# -- access


def choose_auth(location: ServerLocation) -> Auth:
    """Require keys except on a loopback address. Raises UsageError if keys are required and none exists."""
    if location.is_loopback:
        return "none"
    if _database_has_keys(location):
        return "keys"
    raise UsageError(
        f"Anyone who can reach {location.host} could use the server, so it requires API keys, and none exists yet. "
        f"Create one with: {_key_command(location)}. Or listen on 127.0.0.1."
    )


def _database_has_keys(location: ServerLocation) -> bool:
    with open_storage(location) as (_, ledger, _store):
        return asyncio.run(has_keys(ledger))


def _key_command(location: ServerLocation) -> str:
    return f"statewright keys create NAME --database {shlex.quote(str(location.database))}"


def read_admin_token(variable: str | None) -> str | None:
    """Return the admin token from the environment. Raises UsageError if a variable is named but not set."""
    token = os.environ.get(variable or ADMIN_TOKEN_VARIABLE)
    if variable is not None and not token:
        raise UsageError(f"The environment variable {variable} is not set. Set it to the admin token.")
    return token or None
