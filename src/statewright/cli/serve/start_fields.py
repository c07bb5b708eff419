"""The fields of the log event with which a server or a worker starts: what one looks for first in its log."""

from __future__ import annotations

from typing import Any

from statewright import __version__
from statewright.cli.serve.server import ServerLocation
from statewright.service import Catalog, ServiceSettings


def start_fields(location: ServerLocation, catalog: Catalog, settings: ServiceSettings) -> dict[str, Any]:
    """Return the version of Statewright, the database without its password, the graphs and the queues of a process.

    `queues` is None for all queues, as in the API, and empty if the process advances no runs.
    """
    return {
        "version": __version__,
        "database": str(location.database),
        "graphs": [served.name for served in catalog.served],
        "queues": settings.queues if settings.works else [],
    }
