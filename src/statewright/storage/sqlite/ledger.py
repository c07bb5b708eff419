"""The ledger for SQLite files, and the migration of its tables."""

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
FORMAT: Final = 8
"""The format of the tables that this version of Statewright writes."""
Step = Callable[[Connection, Encryptor], None]
"""A function that migrates the tables from one format to the next."""


class SqliteLedger(DatabaseLedger[SqliteDatabase]):
    """Stores the records of runs in a SQLite file. Safe to use from several OS threads and processes.

    The first argument is a path, with the options of `SqliteDatabase`, or an open database. If it is shared with a
    `SqliteSaver`, writes of the ledger can be committed in the same transaction as those of the saver. Even if the
    database is encrypted, names, ids, times, tags, metadata and keys are stored unencrypted, because runs are looked up
    by them.
    """

    database_type = SqliteDatabase

    def __init__(self, database: SqliteDatabase | str | os.PathLike[str], **options: Any) -> None:
        super().__init__(database, **options)
        with self.database.read() as connection:
            version = _read_format(connection)
        if version > FORMAT:
            self.close()
            raise NewerFormat(str(self.database.path), version, FORMAT)
        if version < FORMAT:
            self.database.write(partial(_migrate, encryptor=self.database.encryptor))


def _read_format(connection: Connection) -> int:
    return connection.execute(_SQL["format"]).fetchone()[0]


def _migrate(connection: Connection, encryptor: Encryptor) -> None:
    """Migrate the tables from an older format, unless another process has already done so."""
    for step in _STEPS[_read_format(connection) - 1 :]:
        step(connection, encryptor)


def _statements_step(*names: str) -> Step:
    """Return a step that executes the statements with these names."""

    def step(connection: Connection, encryptor: Encryptor) -> None:
        for name in names:
            connection.execute(_SQL[name])

    return step


def _decrypt_webhook_events(connection: Connection, encryptor: Encryptor) -> None:
    """Store the event types to which webhooks subscribe unencrypted, so that statements can search them."""
    for webhook_id, stored in connection.execute(_SQL["webhook_events"]).fetchall():
        names = json.dumps(decrypted_json(encryptor, stored))
        connection.execute(_SQL["plain_webhook_events"], (names, webhook_id))
    connection.execute(_SQL["format_four"])


def _add_queues(connection: Connection, encryptor: Encryptor) -> None:
    """Add queues and priorities; the former queues are called sequences now."""
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


def _replace_claims(connection: Connection, encryptor: Encryptor) -> None:
    """Add indexes of held runs, and replace the trigger that holds new runs back."""
    connection.execute(_SQL["drop_held_by_insert"])
    run_script(connection, "ledger_tables")
    connection.execute(_SQL["release_unlimited"])
    connection.execute(_SQL["format_six"])


def _add_sessions(connection: Connection, encryptor: Encryptor) -> None:
    """Add what the web page needs: sessions, the progress of runs, who has sent a signal, and the ends of runs."""
    connection.execute(_SQL["add_progress"])
    connection.execute(_SQL["add_sent_by_key"])
    run_script(connection, "ledger_tables")
    connection.execute(_SQL["format_seven"])


def _add_waiting(connection: Connection, encryptor: Encryptor) -> None:
    """Add the index of the queues of runs that wait."""
    run_script(connection, "ledger_tables")
    connection.execute(_SQL["format_eight"])


_STEPS: Final[tuple[Step, ...]] = (
    _statements_step("decided_by_key", "format_two"),
    _statements_step("daily_spending", "spending_of_calls", "format_three"),
    _decrypt_webhook_events,
    _add_queues,
    _replace_claims,
    _add_sessions,
    _add_waiting,
)
"""The steps from each format to the next, beginning with format 1."""
