"""Check for the libraries of the extra `server`, to be called before importing anything that needs them."""

from __future__ import annotations

from statewright.extras import optional


def require_libraries() -> None:
    """Raise MissingLibrary without the libraries of the extra `server`."""
    with optional("The HTTP server needs", extra="server"):
        import fastapi  # pyright: ignore[reportUnusedImport]  # noqa: F401
        import uvicorn  # pyright: ignore[reportUnusedImport]  # noqa: F401
