"""The worker in a Ray actor: the same as `statewright worker`, without its own signals and endpoint.

`begin` is a step of its own, so that a worker that has not begun can be killed without loss: until then it has claimed
nothing. The worker is not asked to drain by Ray, but by its record in the ledger, like any worker.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statewright.cli.console.failure import UsageError, format_failure
from statewright.cli.serve.catalog import build_catalog, select_project
from statewright.cli.serve.server import ServerLocation, open_service
from statewright.cli.serve.start_fields import start_fields
from statewright.cli.workflow.models import Models
from statewright.observe import LogFormat, configure_logging
from statewright.service import Catalog, Service, ServiceSettings

logger = logging.getLogger("statewright.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """Everything that an actor needs to become a worker."""

    target: str | None
    """FILE or FILE.py:GRAPH, relative to the folder of the project; None for all graphs of the project."""
    folder: str | None
    """The folder of the project on the node; None if it is the working directory, to which Ray has sent it."""
    location: ServerLocation
    settings: ServiceSettings
    models: Models
    log_format: LogFormat


class HostedWorker:
    """A worker in a process that belongs to something else, with an event loop that runs during each call."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._stack = ExitStack()
        self._runner = asyncio.Runner()
        self._service: Service | None = None
        self._catalog: Catalog | None = None

    def load(self) -> str | None:
        """Load the project and open the database. Return why that is impossible; None if it has succeeded."""
        spec = self._spec
        try:
            if spec.folder is not None:
                os.chdir(spec.folder)
            self._stack.enter_context(configure_logging(spec.log_format))
            _check_database(spec.location)
            project = select_project(spec.target)
            self._catalog = build_catalog(project, spec.models)
            self._service = self._stack.enter_context(
                open_service(project, self._catalog, spec.location, spec.settings)
            )
        except Exception as error:
            logger.exception("The worker cannot start.")
            self._stack.close()
            message = str(error) if isinstance(error, UsageError) else format_failure(error)
            return f"{message} (on host {socket.gethostname()})"
        return None

    def begin(self, location: Mapping[str, Any]) -> str:
        """Begin to advance runs, and return the id of the worker in the ledger. `location` is logged."""
        assert self._service is not None
        assert self._catalog is not None
        self._runner.run(self._service.start_working())
        worker = self._service.worker
        assert worker is not None
        fields = {
            "worker": worker.id,
            **start_fields(self._spec.location, self._catalog, self._spec.settings),
            "capacity": self._spec.settings.capacity,
            **location,
        }
        logger.info("The worker has started.", extra=fields)
        return worker.id

    def join(self) -> None:
        """Advance runs until the worker is asked to drain, and return when it has drained."""
        assert self._service is not None
        try:
            self._runner.run(_drain_on_request(self._service))
        finally:
            self._runner.close()
            self._stack.close()


async def _drain_on_request(service: Service) -> None:
    worker = service.worker
    assert worker is not None
    await asyncio.wrap_future(worker.drain_request)
    logger.info("The worker is draining.", extra={"worker": worker.id, "reason": "drain request"})
    await service.stop()
    logger.info("The worker has stopped.", extra={"worker": worker.id, "reason": "drain request"})


def _check_database(location: ServerLocation) -> None:
    """Raise UsageError for a file that this node does not have. Opening it would create an empty database."""
    database = location.database
    if isinstance(database, Path) and not database.exists():
        raise UsageError(
            f"The database {str(database)!r} does not exist on this node. Workers on several machines need a Postgres "
            f"database: --database postgresql://user@host/name."
        )
