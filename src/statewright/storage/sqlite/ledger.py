"""The ledger for SQLite, and the migration of its tables."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from statewright.errors import NewerFormat
from statewright.storage.database import Connection
from statewright.storage.encryption import Encryptor
from statewright.storage.ledger.ledger import DatabaseLedger
from statewright.storage.ledger.tables import decrypted_json
from statewright.storage.sqlite.database import SqliteDatabase
from statewright.storage.sqlite.statements import run_script, statements

_SQL: Final = statements("ledger_formats")
FORMAT: Final = 5
"""The format of the tables that this version writes."""
Step = Callable[[Connection, Encryptor], None]
"""The step from a format to the next one."""


class SqliteLedger(DatabaseLedger[SqliteDatabase]):
    """Stores the records of runs in a SQLite file; safe to use from several threads and processes.

    In an encrypted database names, ids, times, tags, metadata and keys stay readable, because runs are looked up by
    them. It takes a path with the options of `SqliteDatabase`, or a shared database: jobs of this ledger can be part of
    the commits of a `SqliteSaver` of the same database.
    """

    database_type = SqliteDatabase

    def __init__(self, database: SqliteDatabase | str | os.PathLike[str], **options: Any) -> None:
        super().__init__(database, **options)
        with self.database.read() as connection:
            version = _format(connection)
        if version > FORMAT:
            self.close()
            raise NewerFormat(str(self.database.path), version, FORMAT)
        if version < FORMAT:
            self.database.write(partial(_migrate, encryptor=self.database.encryptor))


def _format(connection: Connection) -> int:
    return connection.execute(_SQL["format"]).fetchone()[0]


def _migrate(connection: Connection, encryptor: Encryptor) -> None:
    """Migrate the tables of an older format; another process may have been faster."""
    for step in _STEPS[_format(connection) - 1 :]:
        step(connection, encryptor)


def _executing(*names: str) -> Step:
    """Return a step that executes statements."""

    def step(connection: Connection, encryptor: Encryptor) -> None:
        for name in names:
            connection.execute(_SQL[name])

    return step


def _decrypt_webhook_events(connection: Connection, encryptor: Encryptor) -> None:
    """Store the types of events that webhooks receive as plain text, so that statements can search them."""
    for webhook_id, stored in connection.execute(_SQL["webhook_events"]).fetchall():
        names = json.dumps(decrypted_json(encryptor, stored))
        connection.execute(_SQL["plain_webhook_events"], (names, webhook_id))
    connection.execute(_SQL["format_four"])


def _add_queues(connection: Connection, encryptor: Encryptor) -> None:
    """Add queues and priorities; what was called a queue is a sequence now."""
    for name in (
        "rename_queue",
        "add_queue",
        "add_priority",
        "add_losses",
        "add_held_by",
        "add_graph_version",
        "add_host",
        "add_draining",
        "add_queues",
        "add_versions",
        "drop_runs_by_queue",
        "drop_runs_due",
        "drop_runs_at_work",
        "drop_runs_at_work_by_key",
    ):
        connection.execute(_SQL[name])
    run_script(connection, "ledger_tables")  # creates what is missing: the other tables, indexes and triggers
    connection.execute(_SQL["format_five"])


_STEPS: Final[tuple[Step, ...]] = (
    _executing("decided_by_key", "format_two"),
    _executing("daily_spending", "spending_of_calls", "format_three"),
    _decrypt_webhook_events,
    _add_queues,
)
"""The step from each format to the next, beginning with format 1."""
