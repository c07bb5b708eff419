"""The saver, store, cache and ledger for Postgres databases. They need the extra `postgres`.

psycopg is imported when one of the names is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from statewright.extras import optional

if TYPE_CHECKING:
    from statewright.storage.postgres.backends import PostgresCache, PostgresSaver, PostgresStore
    from statewright.storage.postgres.database import PostgresDatabase
    from statewright.storage.postgres.ledger import PostgresLedger

__all__ = ["PostgresCache", "PostgresDatabase", "PostgresLedger", "PostgresSaver", "PostgresStore"]


if not TYPE_CHECKING:  # a type checker that saw this function would accept any name

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        with optional("Postgres needs", extra="postgres"):
            from statewright.storage.postgres import backends, database, ledger
        return next(getattr(module, name) for module in (backends, database, ledger) if hasattr(module, name))
