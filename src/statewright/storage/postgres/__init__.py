"""Threads, a store, a cache and the records of runs in one Postgres database."""

from __future__ import annotations

from statewright.extras import optional

with optional("Postgres needs", extra="postgres"):
    import psycopg  # noqa: F401  # pyright: ignore[reportUnusedImport]  # before the modules that use it

from statewright.storage.postgres.database import PostgresDatabase
from statewright.storage.postgres.views import PostgresCache, PostgresLedger, PostgresSaver, PostgresStore

__all__ = ["PostgresCache", "PostgresDatabase", "PostgresLedger", "PostgresSaver", "PostgresStore"]
