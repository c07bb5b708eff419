"""Copies of databases: from a file to a server, back, or between two of a kind.

*The problem.* A history that was built over years in one file has to move to a server, or a part of production to a
laptop, without losing anything: forks, answers to open questions, results of unfinished supersteps, logs, expiry times.
A copy that stops halfway must not be mistaken for a complete one.

*The approach.* Rows are copied, not checkpoints: all adapters have the same tables (`tables.py`), and the bytes in them
do not depend on the database. Row ids, flags and encrypted values, which differ, are converted by their meaning
(`rows.py`). The source is read in one transaction, so the copy shows a single state of it. The target is written in one
transaction too, and read back before the commit: an interrupted or wrong copy is rolled back, and leaves the target
empty. So there is no incomplete copy that readers would have to recognise, and a copy is simply started again.

*Verification.* The rows of each table are counted and hashed, in the order of their keys and in the form that does not
depend on the database, once as they are read from the source and once as they are read back from the target.

*Consequences.* Only one page of rows is in memory at a time. Both transactions last as long as the copy: the
write-ahead log of a file grows to the size of the data, and a server does not vacuum other tables of the database
meanwhile. A million rows take about a minute.

*Rejected.* Replaying the history through the ports of savers and ledgers: they would assign new numbers and times and
compact again, and a commit for each checkpoint would take hours. The statement COPY of Postgres: it cannot be used in a
libpq pipeline, and arrays of a thousand rows are nearly as fast. A mark for incomplete copies, with a table of the
pages already copied: every reader of every version would have to know the mark, for an operation that is rarely
interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final

import ormsgpack

from statewright.checkpoint import is_holder_gone
from statewright.errors import DamagedDatabase, InvalidConfig, SerdeError, StorageError, StorageLocked
from statewright.process_identity import is_process_gone
from statewright.storage.copy.logs import advance_next_event_numbers
from statewright.storage.copy.rows import NumberMap, Row, RowCodec, describe_unstorable, insert_rows, iter_pages
from statewright.storage.copy.tables import TABLES, CopiedTable, Numbering
from statewright.storage.database import Connection, Database
from statewright.storage.open import ledger_of, store_of

_MAX_NAMED: Final = 3
"""The maximum number of threads that are named in the error if runs hold them."""
OnProgress = Callable[[int, int], None]
"""Called with the number of rows that were copied or read back so far, and with the total."""


@dataclass(frozen=True, slots=True)
class CopyReport:
    """The rows that were copied, by table."""

    rows: Mapping[str, int]

    @property
    def total(self) -> int:
        """The number of all rows."""
        return sum(self.rows.values())


def copy_database(
    source: Database, target: Database, *, allow_active: bool = False, on_progress: OnProgress | None = None
) -> CopyReport:
    """Copy all threads, records of runs and items of a database to an empty one, and verify the copy.

    The copy is one transaction: after an error the target is empty as before. Caches and the holders of threads are not
    copied. Raises StorageLocked if the source is in use, unless `allow_active`; then the copy shows the source as it
    was when the copy began. Raises StorageError if the target is not empty or has no room, SerdeError if it cannot
    store a row, such as one with a name that is too long for its indexes, and DamagedDatabase if the rows that
    are read back differ from those written.
    """
    if source.scope == target.scope:
        raise InvalidConfig(f"{source.location} cannot be copied to itself. Choose another target.")
    if source.has_tables("ledger"):
        ledger_of(source)  # migrates the tables of an earlier version
    ledger_of(target)
    store_of(target)
    tables = [table for table in TABLES if source.has_tables(table.group)]

    def job(target_connection: Connection) -> CopyReport:
        _lock_empty(target_connection, target)
        with source.read() as source_connection:
            if not allow_active:
                _check_is_idle(source_connection, source)
            copy = _Copy(source, source_connection, target, target_connection, tables, on_progress)
            return copy.run()

    return target.write(job)


# -- conditions


def check_is_idle(source: Database) -> None:
    """Raise StorageLocked if runs or workers use a database, as `copy_database` does.

    So callers can check it before they create the target.
    """
    if source.has_tables("ledger"):
        ledger_of(source)  # migrates the tables of an earlier version
    with source.read() as connection:
        _check_is_idle(connection, source)


def _lock_empty(connection: Connection, target: Database) -> None:
    """Keep others from writing until the end of the transaction. Raises StorageError unless the target is empty."""
    sql = target.statements("copy")
    if (be_patient := sql.get("be_patient")) is not None:
        connection.execute(be_patient)
    if (lock := sql.get("lock")) is not None:
        connection.execute(lock.replace(":tables", ", ".join(table.name for table in TABLES)))
    for table in TABLES:
        if connection.execute(f'SELECT 1 FROM "{table.name}" LIMIT 1').fetchone() is not None:
            raise StorageError(
                f"The database {target.location} is not empty: its table {table.name} has rows. Nothing was copied. "
                f"Copy to a new file, or to a new schema or database of a server."
            )


def _check_is_idle(connection: Connection, source: Database) -> None:
    """Raise StorageLocked if runs or workers use the source."""
    sql = source.statements("copy")
    held = [name for name, owner in connection.execute(sql["held"]) if not is_holder_gone(owner)]
    workers: list[str] = []
    if source.has_tables("ledger"):
        workers = [
            name
            for name, host, pid, started in connection.execute(sql["workers"])
            if not is_process_gone(host, pid, started)
        ]
    if held or workers:
        names = ", ".join(map(repr, held[:_MAX_NAMED])) + (" and others" if len(held) > _MAX_NAMED else "")
        reasons = [f"runs advance threads ({names})"] if held else []
        reasons += [f"a server is using it (worker {workers[0]})"] if workers else []
        raise StorageLocked(
            f"The database {source.location} is in use: {' and '.join(reasons)}. Nothing was copied. Stop the "
            f"processes that use it, and wait a minute if they were killed."
        )


# -- the copy


@dataclass(slots=True)
class _Digest:
    """The number of rows of a table, and a hash of them."""

    count: int = 0
    hash: Any = field(default_factory=lambda: blake2b(digest_size=32))

    def add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.hash.update(ormsgpack.packb(row))
            self.count += 1

    def difference(self, other: _Digest) -> str | None:
        """Return a description of the difference from another digest; None if both are equal."""
        if self.count != other.count:
            return f"{self.count} rows were written, and {other.count} were read back"
        return None if self.hash.digest() == other.hash.digest() else f"the content of {self.count} rows differs"


class _Copy:
    """A copy within a transaction of each database."""

    def __init__(
        self,
        source: Database,
        source_connection: Connection,
        target: Database,
        target_connection: Connection,
        tables: Sequence[CopiedTable],
        on_progress: OnProgress | None,
    ) -> None:
        self._source, self._source_connection = source, source_connection
        self._target, self._target_connection = target, target_connection
        self._tables = tables
        self._is_raw = target.encryptor.has_key_of(source.encryptor)
        self._on_progress = on_progress
        self._done = self._total = 0

    def run(self) -> CopyReport:
        self._total = 2 * sum(map(self._count, self._tables))
        numbers = {numbering: self._number_map(numbering) for numbering in Numbering}
        written = {table.name: self._copy(table, numbers) for table in self._tables}
        sql = self._target.statements("copy")
        for name in sorted(sql):
            if name.startswith("finish"):
                self._target_connection.execute(sql[name])
        problems = [
            f"table {table.name}: {difference}"
            for table in self._tables
            if (difference := written[table.name].difference(self._read_back(table))) is not None
        ]
        if problems:
            raise DamagedDatabase(
                f"the copy differs from {self._source.location}, and was rolled back: {'; '.join(problems)}",
                where=self._target.location,
            )
        return CopyReport({name: digest.count for name, digest in written.items()})

    def _count(self, table: CopiedTable) -> int:
        return self._source_connection.execute(f'SELECT count(*) FROM "{table.name}"').fetchone()[0]

    def _number_map(self, numbering: Numbering) -> NumberMap:
        last = self._target.row_ids.last_line
        table = next((table for table in self._tables if table.name == numbering.value), None)
        if table is None:
            return NumberMap(numbering, (), 0, last)
        connection, (number,) = self._source_connection, table.key
        largest = connection.execute(f'SELECT max("{number}") FROM "{table.name}"').fetchone()[0] or 0
        key_only = replace(table, columns=[column for column in table.columns if column.name == number])
        numbers = (row[0] for page in iter_pages(connection, self._source, key_only) for row in page)
        return NumberMap(numbering, numbers, largest, last)

    def _copy(self, table: CopiedTable, numbers: Mapping[Numbering, NumberMap]) -> _Digest:
        digest = _Digest()
        reader = RowCodec(table, self._source, numbers, is_raw=self._is_raw)
        writer = RowCodec(table, self._target, is_raw=self._is_raw)
        for page in iter_pages(self._source_connection, self._source, table):
            rows = [reader.read(row) for row in page]
            digest.add(rows)
            self._insert(table, [writer.write(row) for row in rows])
            advance_next_event_numbers(self._target_connection, self._target, table, rows, self._source.encryptor)
            self._report(len(rows))
        return digest

    def _insert(self, table: CopiedTable, rows: Sequence[Sequence[Any]]) -> None:
        try:
            insert_rows(self._target_connection, self._target, table, rows)
        except Exception as error:
            if not self._target.is_unstorable(error):
                raise
            reason = f"{error}. Nothing was copied. Change or delete it in {self._source.location}"
            raise SerdeError(describe_unstorable(table, rows), reason) from error

    def _read_back(self, table: CopiedTable) -> _Digest:
        digest = _Digest()
        reader = RowCodec(table, self._target, is_raw=self._is_raw)
        for page in iter_pages(self._target_connection, self._target, table):
            digest.add(map(reader.read, page))
            self._report(len(page))
        return digest

    def _report(self, count: int) -> None:
        self._done += count
        if self._on_progress is not None:
            self._on_progress(self._done, self._total)
