"""The HTTP server: the ASGI application of a service, run by uvicorn.

Its modules need the extra `server`, so the functions below import them only when called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from statewright.extras import optional
from statewright.server.settings import ServerSettings

if TYPE_CHECKING:
    from fastapi import FastAPI

    from statewright.observe import Metrics
    from statewright.service import Service
    from statewright.service.webhooks import WebhookSettings

__all__ = ["ServerSettings", "create_app", "serve"]


def require_libraries() -> None:
    """Raise MissingLibrary if the extra `server` is not installed. Call this before importing modules that need it."""
    with optional("The HTTP server needs", extra="server"):
        import fastapi  # pyright: ignore[reportUnusedImport]  # noqa: F401
        import uvicorn  # pyright: ignore[reportUnusedImport]  # noqa: F401


def create_app(
    service: Service,
    *,
    settings: ServerSettings | None = None,
    metrics: Metrics | None = None,
    webhooks: WebhookSettings | None = None,
) -> FastAPI:
    """Create the ASGI application of a service. It starts the service on startup and stops it on shutdown.

    `metrics` records requests and is exposed at `/metrics`. `webhooks` restricts the addresses that webhooks may call;
    by default the service's own settings apply. Raises MissingLibrary if the extra `server` is not installed.
    """
    require_libraries()
    from statewright.server.app import create_app as create

    return create(service, settings=settings, metrics=metrics, webhooks=webhooks)


def serve(app: FastAPI, *, settings: ServerSettings | None = None) -> None:
    """Serve an application until SIGTERM or SIGINT, then shut down gracefully (see `statewright.server.serve`)."""
    require_libraries()
    from statewright.server.serve import serve as run

    run(app, settings=settings)
