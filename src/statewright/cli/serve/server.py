"""Assembly of the service and the HTTP server from the project file and the command line."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

from statewright.async_futures import aresolve
from statewright.cli.console.failure import UsageError
from statewright.cli.console.options import DATABASE_VARIABLE, MEMORY, DatabaseOptions
from statewright.cli.db.database import locate_database, open_or_create_saver
from statewright.clock import clock_of
from statewright.data.mappings import without_none
from statewright.futures import drive, resolve
from statewright.observe import LogCapture, Metrics, Redactor, tracing_from_environment
from statewright.project import Project, Serving
from statewright.runs import DEFAULT_WORKSPACE, ApiKey, Ledger, Run
from statewright.server import ServerSettings
from statewright.server.context.reload_status import ReloadStatus
from statewright.server.settings import Auth, is_loopback
from statewright.service import Catalog, Service, ServiceSettings, SpendingLimits
from statewright.service.access import is_valid_key
from statewright.service.access.workspaces import change_workspace, ensure_default_workspace
from statewright.service.operations.queues import change_queue, report_queues
from statewright.service.operations.workers import WorkerStatus, report_workers
from statewright.service.webhooks import WebhookSettings
from statewright.storage.checkpoints.saver import DatabaseSaver
from statewright.storage.locations import Location
from statewright.storage.open import ledger_of, store_of

if TYPE_CHECKING:
    from statewright.storage.ledger.ledger import DatabaseLedger
    from statewright.storage.store.store import DatabaseStore

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8123
logger = logging.getLogger("statewright.server")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLocation:
    """The address to listen on and the database of a server."""

    host: str
    port: int
    database: Location
    key_file: Path | None = None

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)


def resolve_location(
    project: Project, options: DatabaseOptions, host: str | None = None, port: int | None = None
) -> ServerLocation:
    """Resolve the address and database from the command line, else the environment, else the project."""
    serving = project.serving
    return ServerLocation(
        host=host or serving.host or DEFAULT_HOST,
        port=next((number for number in (port, serving.port) if number is not None), DEFAULT_PORT),
        database=resolve_database(project, options.database),
        key_file=options.key_file,
    )


def resolve_database(project: Project, database: str | None) -> Location:
    """Return the location of the database of a service. Raises UsageError for a database in memory."""
    if not database and not os.environ.get(DATABASE_VARIABLE) and project.serving.database is not None:
        return project.serving.database
    location = locate_database(database)
    if location is None:
        raise UsageError(
            f"A server must save its runs, which {MEMORY!r} does not. Specify a database with --database PATH or URL."
        )
    return location


@contextmanager
def open_storage(
    location: ServerLocation,
) -> Generator[tuple[DatabaseSaver[Any], DatabaseLedger[Any], DatabaseStore[Any]]]:
    """Open the saver, ledger and store of a service, creating the file or the tables if needed."""
    with open_or_create_saver(location.database, location.key_file) as saver:
        yield saver, ledger_of(saver.database), store_of(saver.database)


def build_service_settings(project: Project) -> ServiceSettings:
    """Build the settings of the service from the project."""
    return ServiceSettings(**_settings_of(project.serving, ServiceSettings), queues_by_tag=project.queues_by_tag)


def build_spending_limits(project: Project) -> dict[str, SpendingLimits]:
    """Build the daily spending limits by workspace from the project."""
    limits: Mapping[str, Mapping[str, Any]] = project.spending_limits
    return {name: SpendingLimits(**values) for name, values in limits.items()}


def build_server_settings(
    project: Project, location: ServerLocation, auth: Auth, admin_token: str | None = None, drain_timeout: float = 20.0
) -> ServerSettings:
    """Build the settings of the HTTP server. Raises InvalidConfig."""
    settings = _settings_of(project.serving, ServerSettings)
    settings |= {"host": location.host, "port": location.port, "drain_timeout": drain_timeout}
    return ServerSettings(**settings, auth=auth, admin_token=admin_token)


def _settings_of(serving: Serving, kind: type[ServerSettings | ServiceSettings]) -> dict[str, Any]:
    """Return the values in the project's `[serve]` table that are fields of `kind`, without those that are not set."""
    values = {field.name: getattr(serving, field.name, None) for field in fields(kind)}
    return without_none(values)


async def prepare_default_workspace(ledger: Ledger, project: Project) -> None:
    """Create the default workspace if needed, and apply the project's retention to it."""
    await ensure_default_workspace(ledger, clock_of(ledger).now())
    days = project.serving.retention_days
    if days is not None:
        await change_workspace(ledger, DEFAULT_WORKSPACE, {"retention_days": days})


async def apply_queue_limits(ledger: Ledger, project: Project) -> None:
    """Write the limits of the queues in the project to the ledger.

    A queue gets exactly the limits of its table. Queues without a table keep theirs, which may have been set by
    `statewright queues set`, or by the project file of another process.
    """
    for name, queue in project.queues.items():
        limits = {"max_running": queue.max_running, "starts_per_minute": queue.starts_per_minute}
        await change_queue(ledger, name, limits)


async def has_keys(ledger: Ledger) -> bool:
    """Return True if an API key exists that is neither revoked nor expired."""
    now = clock_of(ledger).now()
    return any(is_valid_key(key, now) for key in await aresolve(ledger.find(ApiKey)))


@contextmanager
def open_service(
    project: Project,
    catalog: Catalog,
    location: ServerLocation,
    settings: ServiceSettings,
    metrics: Metrics | None = None,
) -> Generator[Service]:
    """Open the database of a project, and yield the service of a process, which is not running yet."""
    with (
        open_storage(location) as (saver, ledger, store),
        LogCapture(level=logging.INFO, clock=clock_of(ledger)) as logs,
        tracing_from_environment() as tracing,
    ):
        asyncio.run(_prepare(ledger, project))
        if metrics is not None:
            _report_ledger(metrics, ledger)
        yield Service(
            catalog,
            ledger=ledger,
            saver=saver,
            store=store,
            settings=settings,
            spending_limits=build_spending_limits(project),
            webhooks=WebhookSettings(allow_hosts=project.serving.webhook_hosts),
            instruments=[instrument for instrument in (metrics, tracing) if instrument is not None],
            logs=logs,
            redact=Redactor().value,
            meter=metrics,
            bell=getattr(saver.database, "bell", None),
        )


async def _prepare(ledger: Ledger, project: Project) -> None:
    await prepare_default_workspace(ledger, project)
    await apply_queue_limits(ledger, project)


def _report_ledger(metrics: Metrics, ledger: Ledger) -> None:
    """Let metrics report the runs, workers and queues of a ledger."""
    clock = clock_of(ledger)
    metrics.count_runs_by(lambda: _runs_by_status(ledger))
    metrics.count_workers_by(lambda: _workers_by_status(ledger, clock.now()))
    metrics.report_queues(lambda: drive(report_queues(ledger, clock.now())))


def _runs_by_status(ledger: Ledger) -> dict[str, int]:
    return {str(group.key[0]): group.size for group in resolve(ledger.groups(Run, ["status"]))}


def _workers_by_status(ledger: Ledger, now: datetime) -> dict[str, int]:
    counts = Counter(report.status for report in drive(report_workers(ledger, now)))
    return {status: counts[status] for status in get_args(WorkerStatus)}


def run_server(
    project: Project,
    catalog: Catalog,
    location: ServerLocation,
    settings: ServerSettings,
    service_settings: ServiceSettings,
    listening: socket.socket,
    reload_status: ReloadStatus | None = None,
) -> bool:
    """Serve on a socket until SIGTERM or SIGINT, then shut down cleanly. Return False if the server could not start."""
    from statewright.server.app import create_app
    from statewright.server.serve import create_server, exit_on_signals

    metrics = Metrics()
    with open_service(project, catalog, location, service_settings, metrics) as service:
        app = create_app(service, settings=settings, metrics=metrics, reload_status=reload_status)
        server = create_server(app, settings)
        # Some versions of uvicorn raise SystemExit if the application cannot start, others return.
        with exit_on_signals(server), suppress(SystemExit):
            server.run(sockets=[listening])
        return server.started
