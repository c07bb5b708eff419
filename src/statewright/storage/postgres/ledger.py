"""The ledger for Postgres, whose server claims runs by itself.

A claim is one function of the server (`sql/claims.sql`), with the same rules as `storage/ledger/claim.py`. It is sent
with the lock of claims and the commit in one round trip, in a transaction of its own, so that the lock is held for the
milliseconds that the function takes, and not while a client is slow, or frozen.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from statewright.clock import instant_of, microseconds
from statewright.errors import StorageError
from statewright.ids import new_run_id
from statewright.runs import NextDue, Run
from statewright.storage.database import Connection, Job, Statement
from statewright.storage.group_commit import SeparateJob
from statewright.storage.ledger.claim import Claimant
from statewright.storage.ledger.ledger import DatabaseLedger
from statewright.storage.postgres.database import PostgresDatabase

logger = logging.getLogger("statewright.storage")


class PostgresLedger(DatabaseLedger[PostgresDatabase]):
    """Stores the records of runs in a Postgres database. Safe to use from several OS threads and processes.

    The first argument is a URL, with the options of `PostgresDatabase`, or an open database. If it is shared with a
    `PostgresSaver`, writes of the ledger can be committed in the same transaction as those of the saver. Even if the
    database is encrypted, names, ids, times, tags, metadata and keys are stored unencrypted, because runs are looked up
    by them.
    """

    database_type = PostgresDatabase

    def _claim_job(self, claimant: Claimant, now: datetime, limit: int) -> Job[list[Run]]:
        return SeparateJob(lambda connection: self._claim(connection, claimant, now, limit))

    def _claim(self, connection: Connection, claimant: Claimant, now: datetime, limit: int) -> list[Run]:
        if limit <= 0:
            return []
        table = self._tables[Run]
        connection.lock("claims")
        sql = f"SELECT {table.expressions} {self._tables.sql['claim_runs']}"
        claims = [new_run_id() for _ in range(limit)]
        at = microseconds(now) if self.database.trusts_clocks else None
        claimed: list[Run] = []

        def receive(rows: list[Any], _: int) -> None:
            for row in rows:
                try:
                    claimed.append(table.record(row))
                except StorageError:  # the other runs are claimed already, so they must be returned
                    logger.exception("A claimed run cannot be read. Delete it, or restore a copy of the database.")

        parameters = (claimant.worker_id, claims, at, *_served(claimant))
        connection.send(Statement(sql, parameters, receive=receive, needs_response=True))
        return claimed

    def _next_due(self, connection: Connection, claimant: Claimant) -> NextDue:
        due, has_held = connection.execute(self._tables.sql["next_due"], _served(claimant)).fetchone()
        return NextDue(instant_of(due) if due is not None else None, has_blocked=has_held)

    def _due_sizes(self, connection: Connection, at: int) -> Iterable[tuple[str, int, int | None]]:
        return connection.execute(self._tables.sql["due_sizes"], (at,)).fetchall()


def _served(claimant: Claimant) -> tuple[list[str] | None, list[str]]:
    """Return the queues that a worker serves, and the versions that it does not, as parameters.

    A version that is excluded in only one queue is written after the name of the queue, separated by a line break.
    """
    queues = list(claimant.queues) if claimant.queues is not None else None
    return queues, ["\n".join(filter(None, (queue, version))) for version, queue in claimant.excluded_versions]
