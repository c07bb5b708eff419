"""A service on its database, and the server before it, put together as a project and a command line say."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from statewright.async_futures import aresolve
from statewright.cli.database import made, place_of
from statewright.cli.failure import WrongUse
from statewright.cli.options import MEMORY, VARIABLE
from statewright.clock import SystemClock
from statewright.futures import resolve
from statewright.runs import DEFAULT_WORKSPACE, ApiKey, Ledger, Run
from statewright.server import ServerSettings
from statewright.server.settings import is_loopback
from statewright.service import Catalog, Service, ServiceSettings, SpendingLimits
from statewright.service.access.workspaces import change_workspace, ensure_default_workspace
from statewright.service.webhooks import WebhookSettings
from statewright.storage.sqlite import SqliteLedger, SqliteSaver, SqliteStore

if TYPE_CHECKING:
    from statewright.project import Project

HOST: Final = "127.0.0.1"
PORT: Final = 8123
Auth = Literal["keys", "none"]
logger = logging.getLogger("statewright.server")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where something is served, and on what."""

    host: str
    port: int
    database: Path
    key_file: Path | None = None

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)


def place_for(
    project: Project, host: str | None, port: int | None, database: str | None, key_file: Path | None
) -> Place:
    """Where a project is served: as the command line says, else the environment, else the project."""
    wanted = project.serving
    return Place(
        host=host or wanted.host or HOST,
        port=next((one for one in (port, wanted.port) if one is not None), PORT),
        database=database_for(project, database),
        key_file=key_file,
    )


def database_for(project: Project, database: str | None) -> Path:
    """The database of a service. Raises WrongUse for one that keeps nothing."""
    if not database and not os.environ.get(VARIABLE) and project.serving.database is not None:
        return project.serving.database
    path = place_of(database).path
    if path is None:
        raise WrongUse(f"{MEMORY} keeps nothing, and durable runs must be kept. Name a database with --database PATH.")
    return path


@contextmanager
def opened_views(place: Place) -> Generator[tuple[SqliteSaver, SqliteLedger, SqliteStore]]:
    """Threads, records and memory in the database of a service, which is made where there is none."""
    with made(place.database, place.key_file) as saver:
        yield saver, SqliteLedger(saver.database), SqliteStore(saver.database)


def service_settings(project: Project) -> ServiceSettings:
    """The limits and times of a service, as its project says them."""
    return ServiceSettings(**_given({name: getattr(project.serving, name) for name in _SERVICE}))


def spending_limits(project: Project) -> dict[str, SpendingLimits]:
    """What workspaces may spend on a day, as the project says it."""
    limits: Mapping[str, Mapping[str, Any]] = project.spending_limits
    return {name: SpendingLimits(**values) for name, values in limits.items()}


def server_settings(
    project: Project, place: Place, auth: Auth, admin_token: str | None = None, drain: float = 20.0
) -> ServerSettings:
    """How the service is offered. Raises InvalidConfig for what cannot be."""
    wanted = project.serving
    return ServerSettings(
        host=place.host,
        port=place.port,
        auth=auth,
        admin_token=admin_token,
        cors_origins=wanted.cors_origins,
        allowed_hosts=wanted.allowed_hosts,
        drain_timeout=drain,
        **_given({name: getattr(wanted, name) for name in _SERVER}),
    )


_SERVER: Final = (
    "max_body",
    "metrics",
    "metrics_host",
    "metrics_port",
    "keep_alive",
    "read_timeout",
    "write_timeout",
    "max_connections",
    "max_streams",
)
_SERVICE: Final = ("capacity", "durability", "drain")


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


async def prepare(ledger: Ledger, project: Project) -> None:
    """Let the default workspace be there, with what the project says of it."""
    await ensure_default_workspace(ledger, SystemClock().now())
    days = project.serving.retention_days
    if days is not None:
        await change_workspace(ledger, DEFAULT_WORKSPACE, {"retention_days": days})


async def has_keys(ledger: Ledger) -> bool:
    """Whether there is a key that opens anything now."""
    now = SystemClock().now()
    found = await aresolve(ledger.find(ApiKey))
    return any(one.revoked_at is None and (one.expires_at is None or one.expires_at > now) for one in found)


def run_server(
    project: Project,
    catalog: Catalog,
    place: Place,
    settings: ServerSettings,
    service_settings: ServiceSettings,
    listening: socket.socket,
) -> bool:
    """Serve on a socket until SIGTERM or SIGINT, and leave in good order. False if the server could not begin."""
    from statewright.observe import LogCapture, Metrics, Redactor, tracing_from_environment
    from statewright.server import create_app
    from statewright.server.serve import server_of

    metrics, webhooks = Metrics(), WebhookSettings(allow_hosts=project.serving.webhook_hosts)
    with (
        opened_views(place) as (saver, ledger, store),
        LogCapture(level=logging.INFO) as logs,
        tracing_from_environment() as tracing,
    ):
        asyncio.run(prepare(ledger, project))
        metrics.count_runs_by(lambda: _runs_by_status(ledger))
        service = Service(
            catalog,
            ledger=ledger,
            saver=saver,
            store=store,
            settings=service_settings,
            spending_limits=spending_limits(project),
            webhooks=webhooks,
            instruments=[metrics, *([tracing] if tracing is not None else [])],
            logs=logs,
            redact=Redactor().value,
            meter=metrics,
        )
        app = create_app(service, settings=settings, metrics=metrics, webhooks=webhooks)
        server = server_of(app, settings)
        with _signals_left_to_server():
            server.run(sockets=[listening])
        return server.started


def _runs_by_status(ledger: Ledger) -> dict[str, int]:
    return {str(group.key[0]): group.size for group in resolve(ledger.groups(Run, ["status"]))}


@contextmanager
def _signals_left_to_server() -> Generator[None]:
    """The server raises signals again that it has obeyed, once everything is in order: nothing is left to be done."""
    before = {one: signal.signal(one, _let_be) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _let_be(*_: object) -> None: ...
