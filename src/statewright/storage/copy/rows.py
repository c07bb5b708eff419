"""Rows in a form that does not depend on the database, and their conversion from and to their stored form.

In this form a row id is a pair of numbers, since databases divide row ids differently, and flags are 0 and 1. Values
are not encrypted, unless both databases have the same key: then they are copied as they are stored.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from statewright.checkpoint.forms import REPORTED
from statewright.errors import DamagedDatabase, StorageError
from statewright.storage.checkpoints.history import STORED_REPORTED
from statewright.storage.copy.tables import CopiedColumn, CopiedTable, Kind, Numbering
from statewright.storage.database import Connection, Database

Row = tuple[Any, ...]
Convert = Callable[[Any], Any]
PAGE_ROWS: Final = 1000
"""The number of rows that are read and written at a time."""
PAGE_BYTES: Final = 4 << 20
"""The size in bytes above which a page is complete."""
_MAX_SHOWN: Final = 80
"""The maximum number of characters of a text that an error shows."""


class NumberMap:
    """Maps the numbers of lines or runs in the source to their numbers in the copy.

    The numbers stay the same, unless the largest one has no room in the target. Then lines or runs are numbered
    consecutively, in the same order, because their numbers show which is older.
    """

    def __init__(self, numbering: Numbering, numbers: Iterable[int], largest: int, last: int) -> None:
        """Map sorted `numbers` up to `largest` to numbers up to `last`."""
        self._name = numbering.value
        self._numbers = array("q", numbers) if largest > last else None
        if self._numbers is not None and len(self._numbers) > last:
            raise StorageError(
                f"Nothing was copied: there are {len(self._numbers)} {self._name}, and the target has room for {last}."
            )

    def __call__(self, number: int) -> int:
        if self._numbers is None:
            return number
        index = bisect_left(self._numbers, number)
        if index == len(self._numbers) or self._numbers[index] != number:
            raise DamagedDatabase(f"a row belongs to number {number} of {self._name}, which does not exist")
        return index + 1


def unchanged(number: int) -> int:
    """Return the number unchanged."""
    return number


class RowCodec:
    """Converts the rows of a table from their stored form, and to it."""

    def __init__(
        self,
        table: CopiedTable,
        database: Database,
        numbers: Mapping[Numbering, Callable[[int], int]] | None = None,
        *,
        is_raw: bool,
    ) -> None:
        """`numbers` maps the numbers in rows that are read to those in the copy. `is_raw` keeps values as stored."""
        self._table = table
        self._database = database
        self._numbers = numbers or {}
        self._is_raw = is_raw
        self._readers = [self._reader(column) for column in table.columns]
        self._writers = [
            (index, write) for index, column in enumerate(table.columns) if (write := self._writer(column)) is not None
        ]

    def read(self, stored: Row) -> Row:
        """Return a row without the properties of its database."""
        return tuple(
            value if value is None or read is None else read(value)
            for read, value in zip(self._readers, stored, strict=True)
        )

    def write(self, row: Row) -> list[Any]:
        """Return a row in stored form. Raises StorageError for a row id that the database cannot hold."""
        stored = list(row)
        for index, write in self._writers:
            if stored[index] is not None:
                stored[index] = write(stored[index])
        return stored

    def _reader(self, column: CopiedColumn) -> Convert | None:
        database = self._database
        if column.numbering is not None:
            number = self._numbers.get(column.numbering, unchanged)
            if not column.is_row_id:
                return number
            ids = database.row_ids
            return lambda row_id: (number(ids.line(row_id)), ids.number(row_id))
        match column.kind:
            case Kind.FLAG:
                return int
            case Kind.REAL:
                return float
            case Kind.TEXT if (self._table.name, column.name) == ("grown", "field"):
                # Only files of earlier versions have rows with this name, which a server cannot store.
                return lambda name: STORED_REPORTED if name == REPORTED else name
            case Kind.VALUE:
                without_encryption = bytes if self._is_raw else database.encryptor.without_encryption
                # Earlier versions stored private text as text.
                return lambda value: without_encryption(value.encode() if isinstance(value, str) else value)
            case _:
                return None

    def _writer(self, column: CopiedColumn) -> Convert | None:
        if column.is_row_id:
            return self._row_id
        if column.kind is Kind.VALUE and not self._is_raw:
            return self._database.encryptor.encrypt
        return None

    def _row_id(self, pair: tuple[int, int]) -> int:
        line, number = pair
        if number > self._database.row_ids.last_number:
            raise StorageError(
                f"Nothing was copied: a row of {self._table.name} has the number {number}, and "
                f"{self._database.location} has room for {self._database.row_ids.last_number}."
            )
        return self._database.row_ids.row_id(line, number)


# -- statements


def iter_pages(connection: Connection, database: Database, table: CopiedTable) -> Iterator[Sequence[Row]]:
    """Yield the stored rows of a table, sorted by its key, in pages of limited size."""
    columns, key = _names([column.name for column in table.columns]), _names(table.key)
    if database.streams_rows:
        yield from _cut_into_pages(connection.execute(f'SELECT {columns} FROM "{table.name}" ORDER BY {key}'))
        return
    # A server sends all rows of a result. It counts their bytes here, since a few rows may be larger than all others.
    sizes = " + ".join(f'coalesce(length("{name}"), 0)' for name in _long_columns(table)) or "0"
    indices = [[column.name for column in table.columns].index(name) for name in table.key]
    begin, values = "", ()
    while True:
        page = connection.execute(
            f"SELECT {columns} FROM (SELECT *, sum({sizes}) OVER (ORDER BY {key} ROWS BETWEEN UNBOUNDED PRECEDING AND "
            f'1 PRECEDING) AS size_before FROM (SELECT {columns} FROM "{table.name}" {begin} ORDER BY {key} '
            f"LIMIT {PAGE_ROWS}) AS next_rows) AS sized WHERE coalesce(size_before, 0) < {PAGE_BYTES} ORDER BY {key}",
            values,
        ).fetchall()
        if not page:
            return
        yield page
        begin, values = f"WHERE ({key}) > ({_marks(table.key)})", tuple(page[-1][index] for index in indices)


def _cut_into_pages(rows: Iterable[Row]) -> Iterator[Sequence[Row]]:
    page: list[Row] = []
    size = 0
    for row in rows:
        page.append(row)
        size += sum(len(value) for value in row if isinstance(value, bytes | str))
        if len(page) == PAGE_ROWS or size >= PAGE_BYTES:
            yield page
            page, size = [], 0
    if page:
        yield page


def insert_rows(connection: Connection, database: Database, table: CopiedTable, rows: Sequence[Sequence[Any]]) -> None:
    """Insert rows in stored form, with their numbers."""
    names = _names([column.name for column in table.columns])
    insert = f'INSERT INTO "{table.name}" ({names})'
    if not database.has_arrays:
        connection.executemany(f"{insert} VALUES ({_marks(table.columns)})", rows)
        return
    arrays = ", ".join(f"?::{_array_type(column)}[]" for column in table.columns)
    values = ", ".join(
        f'"{column.name}" <> 0' if column.kind is Kind.FLAG else f'"{column.name}"' for column in table.columns
    )
    connection.execute(
        f"{insert} OVERRIDING SYSTEM VALUE SELECT {values} FROM unnest({arrays}) AS rows_of_page ({names})",
        [list(values) for values in zip(*rows, strict=True)],
    )


def describe_unstorable(table: CopiedTable, rows: Sequence[Sequence[Any]]) -> str:
    """Return a description of the row, among rows in stored form, that a database has refused because of a value.

    A server does not say which one it was. It is the first that has a text with a null character, or else the one with
    the longest text, since only their indexes limit the length of texts.
    """
    texts = [
        (value, column.name, row)
        for row in rows
        for column, value in zip(table.columns, row, strict=True)
        if column.kind is Kind.TEXT and isinstance(value, str)
    ]
    if not texts:
        return f"a row of the table {table.name}"
    with_null = (entry for entry in texts if "\0" in entry[0])
    text, name, row = next(with_null, None) or max(texts, key=lambda entry: len(entry[0]))
    names = [column.name for column in table.columns]
    key = [f"{column}={row[names.index(column)]!r}" for column in table.key if column != name]
    return f"the row of the table {table.name} with {', '.join([*key, f'{name}={_shortened(text)}'])}"


def _shortened(text: str) -> str:
    return repr(text) if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]!r}... ({len(text)} characters)"


def _array_type(column: CopiedColumn) -> str:
    match column.kind:
        case Kind.FLAG:
            return Kind.INTEGER.value
        case Kind.VALUE:
            return Kind.ID.value
        case kind:
            return kind.value


def _long_columns(table: CopiedTable) -> list[str]:
    return [column.name for column in table.columns if column.kind in (Kind.ID, Kind.VALUE)]


def _names(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _marks(columns: Sequence[Any]) -> str:
    return ", ".join("?" * len(columns))
