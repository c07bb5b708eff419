"""The ASGI application: middleware, routes, error handlers, lifespan, and an optional port for metrics."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from statewright.errors import InvalidConfig
from statewright.server.context.reload_status import ReloadStatus
from statewright.server.context.server_context import ServerContext
from statewright.server.http.errors import add_error_handlers
from statewright.server.http.middleware import BodyLimit, HostCheck, PathAlias, RequestLifecycle
from statewright.server.http.openapi import add_openapi_document
from statewright.server.page import routes as page
from statewright.server.routes import (
    access,
    definitions,
    health,
    interrupts,
    run_details,
    runs,
    schedules,
    session,
    threads,
    webhooks,
    workers,
)
from statewright.server.settings import ServerSettings
from statewright.service.access.workspaces import ensure_default_workspace
from statewright.service.webhooks import WebhookSettings

if TYPE_CHECKING:
    from statewright.observe import Metrics
    from statewright.service import Service

logger = logging.getLogger("statewright.server")


@contextmanager
def serve_metrics(metrics: Metrics | None, settings: ServerSettings) -> Generator[int | None]:
    """Serve metrics on a separate port while the block runs. Yield the port, or None if none is configured.

    Raises InvalidConfig if the port is not available.
    """
    if metrics is None or settings.metrics_port is None:
        yield None
        return
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(settings.metrics_port, addr=settings.metrics_host, registry=metrics.registry)
    except OSError as error:
        raise InvalidConfig(
            f"Cannot serve metrics on {settings.metrics_host}:{settings.metrics_port}: {error}. "
            f"Choose another metrics_port."
        ) from error
    logger.info(
        "Metrics are served on a separate port.", extra={"host": settings.metrics_host, "port": server.server_port}
    )
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# -- the application

_ROUTERS = (
    *(runs.router, run_details.router),
    *(interrupts.waits_router, interrupts.answers_router, interrupts.approvals_router, interrupts.events_router),
    *(definitions.definitions_router, definitions.graphs_router, definitions.reload_router, access.costs_router),
    *(threads.list_router, threads.router),
    *(schedules.schedules_router, schedules.triggers_router, webhooks.router),
    *(session.router, access.workspaces_router, access.keys_router, workers.workers_router, workers.queues_router),
    *(health.router, page.router),
)
"""The routers in the order of their use, the most frequently called first, because routes are matched in this order."""
_EXPOSED_HEADERS = (
    "content-location",
    "location",
    "retry-after",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-request-id",
)


def create_app(
    service: Service,
    *,
    settings: ServerSettings | None = None,
    metrics: Metrics | None = None,
    webhooks: WebhookSettings | None = None,
    reload_status: ReloadStatus | None = None,
) -> FastAPI:
    """Create the ASGI application of a service. It starts the service on startup and stops it on shutdown.

    A development server passes the state of the files that it watches.
    """
    settings = settings or ServerSettings()
    context = ServerContext(service, settings, metrics, webhooks or service.webhooks, reload_status)
    app = FastAPI(
        title=settings.title,
        version=version("statewright"),
        lifespan=_lifespan,
        middleware=_middleware(settings, metrics),
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    app.state.context = context
    for router in _ROUTERS:
        app.router.routes += router.routes  # not include_router: it rebuilds every route for each app
    app.include_router(health.router, prefix="/api/v1", include_in_schema=False)
    add_error_handlers(app)
    add_openapi_document(app)
    return app


def create_health_app(
    service: Service, *, settings: ServerSettings | None = None, metrics: Metrics | None = None
) -> FastAPI:
    """Create an application with only the routes of health and metrics. It neither starts nor stops the service."""
    settings = settings or ServerSettings()
    app = FastAPI(
        title=settings.title,
        middleware=[Middleware(RequestLifecycle, metrics=None)],
        redirect_slashes=False,
        openapi_url=None,
    )
    app.state.context = ServerContext(service, settings, metrics)
    app.router.routes += health.router.routes
    add_error_handlers(app)
    return app


def _middleware(settings: ServerSettings, metrics: Metrics | None) -> list[Middleware]:
    """Return the middleware, outermost first."""
    middleware = [Middleware(RequestLifecycle, metrics=metrics)]
    if settings.auth == "none":
        middleware.append(Middleware(HostCheck, allowed_hosts=settings.allowed_hosts, origins=settings.cors_origins))
    if settings.cors_origins:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(settings.cors_origins),
                allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
                allow_headers=[
                    "authorization",
                    "content-type",
                    "idempotency-key",
                    "last-event-id",
                    "x-api-key",
                    "x-request-id",
                ],
                expose_headers=list(_EXPOSED_HEADERS),
            )
        )
    return [*middleware, Middleware(BodyLimit, max_bytes=settings.max_body), Middleware(PathAlias)]


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncGenerator[None]:
    context: ServerContext = app.state.context
    service = context.service
    await ensure_default_workspace(service.context.ledger, service.clock.now())
    # A service that is already running, such as one in a test, is neither started nor stopped here.
    async with nullcontext() if service.is_running else service:
        with serve_metrics(context.metrics, context.settings):
            try:
                yield
            finally:
                context.shutdown.begin()
