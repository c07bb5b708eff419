"""A port of its own for `/metrics`, for scrapers that send no key: it is for the network of the operator alone."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from statewright.errors import InvalidConfig
from statewright.server.settings import ServerSettings

if TYPE_CHECKING:
    from statewright.observe import Metrics

logger = logging.getLogger("statewright.server")


@contextmanager
def metrics_served(metrics: Metrics | None, settings: ServerSettings) -> Generator[int | None]:
    """Serve metrics on their own port while the block lasts, if the settings name one; the port, which may be drawn.

    Raises InvalidConfig if the port cannot be had.
    """
    if metrics is None or settings.metrics_port is None:
        yield None
        return
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(settings.metrics_port, addr=settings.metrics_host, registry=metrics.registry)
    except OSError as error:
        raise InvalidConfig(
            f"Metrics cannot be served on {settings.metrics_host}:{settings.metrics_port}: {error}. Choose another "
            f"metrics_port."
        ) from error
    logger.info("Metrics have a port of their own.", extra={"host": settings.metrics_host, "port": server.server_port})
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
