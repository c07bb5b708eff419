"""Threads, a store, a cache and the records of runs in one Postgres database. Needs the extra `postgres`.

psycopg is not imported until one of the names is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from statewright.extras import optional

if TYPE_CHECKING:
    from statewright.storage.postgres.database import PostgresDatabase
    from statewright.storage.postgres.ledger import PostgresLedger
    from statewright.storage.postgres.views import PostgresCache, PostgresSaver, PostgresStore

__all__ = ["PostgresCache", "PostgresDatabase", "PostgresLedger", "PostgresSaver", "PostgresStore"]


if not TYPE_CHECKING:  # a type checker would take every name for one that exists

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        with optional("Postgres needs", extra="postgres"):
            from statewright.storage.postgres import database, ledger, views
        return next(getattr(module, name) for module in (database, ledger, views) if hasattr(module, name))
