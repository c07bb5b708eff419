"""Records as rows, and back: a table for each class, a column for each field.

JSON and private text are stored as bytes, which are encrypted if the database is; times are microseconds, flags are 0
and 1, None is NULL. Earlier versions stored private text as text, which can still be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final, Generic

from pydantic_core import from_json, to_json

from statewright.clock import instant_of, microseconds
from statewright.errors import DuplicateRecord, InvalidConfig, SerdeError, suggestion
from statewright.runs import Column, Record, Run, columns_of
from statewright.runs.records.record import R, checked_text
from statewright.storage.damage import UNREADABLE, damage_error
from statewright.storage.database import Database, Statement
from statewright.storage.encryption import Encryptor

Convert = Callable[[Any], Any]
_UNSEARCHABLE: Final = {"json": "JSON", "names": "a list", "sealed": "text that may be encrypted"}
_RUN_INPUT: Final = 'coalesce("input", (SELECT body FROM run_inputs WHERE run = "workflow_runs"."id"))'
"""The input of a run: a large one has a row of its own, so that reading many runs does not read their inputs."""


class Table(Generic[R]):
    """The table of a class of records."""

    def __init__(self, kind: type[R], database: Database) -> None:
        self.kind = kind
        self.name = kind.TABLE
        self._database = database
        self.columns: Mapping[str, Column] = {column.name: column for column in columns_of(kind)}
        self.names = tuple(self.columns)
        columns = ", ".join(f'"{name}"' for name in self.names)
        self.expressions = ", ".join(
            _RUN_INPUT if (kind, name) == (Run, "input") else f'"{name}"' for name in self.names
        )
        """The select list of a query for records."""
        self.select = f'SELECT {self.expressions} FROM "{self.name}"'
        self.insert = f'INSERT INTO "{self.name}" ({columns}) VALUES ({", ".join("?" * len(self.names))})'
        self.returning = f"RETURNING {self.expressions}"
        self._values = attrgetter(*self.names)
        conversions = {name: _conversions(column, database.encryptor) for name, column in self.columns.items()}
        self._encoders = {name: self._checked(name, pair[0]) for name, pair in conversions.items() if pair is not None}
        self._decoders = {
            name: pair[1] for name, pair in conversions.items() if pair is not None and pair[1] is not None
        }
        self._encoder_by_index = [(self.names.index(name), encode) for name, encode in self._encoders.items()]
        self._decoder_by_index = [(self.names.index(name), decode) for name, decode in self._decoders.items()]

    def row(self, record: R) -> list[Any]:
        """Return a record as the values of a row. Raises SerdeError for values that cannot be stored."""
        row = list(self._values(record))
        for index, encode in self._encoder_by_index:
            if row[index] is not None:
                row[index] = encode(row[index])
        return row

    def record(self, row: Sequence[Any]) -> R:
        """Return the record of a row. Raises DamagedDatabase if it cannot be decoded."""
        values = list(row)
        try:
            for index, decode in self._decoder_by_index:
                if values[index] is not None:
                    values[index] = decode(values[index])
            return self.kind(**dict(zip(self.names, values, strict=True)))
        except UNREADABLE as error:
            raise damage_error(f"a record of {self.name}", error) from error

    def encoded(self, name: str, value: Any) -> Any:
        """Return a value of a column in stored form."""
        self.check_column(name)
        encode = self._encoders.get(name)
        return value if encode is None or value is None else encode(value)

    def decoded(self, names: Sequence[str], row: Sequence[Any]) -> tuple[Any, ...]:
        """Return values of columns from their stored form."""
        try:
            return tuple(
                self._decoders[name](value) if name in self._decoders and value is not None else value
                for name, value in zip(names, row, strict=True)
            )
        except UNREADABLE as error:
            raise damage_error(f"a record of {self.name}", error) from error

    def check_column(self, name: str, *, searched: bool = False) -> None:
        """Raise InvalidConfig if there is no such column, or if it is to be searched and cannot be."""
        column = self.columns.get(name)
        if column is None:
            raise InvalidConfig(
                f"{self.name} has no column {name!r}. {suggestion(name, self.names, noun='Its columns')}"
            )
        if searched and column.kind in _UNSEARCHABLE:
            raise InvalidConfig(
                f"{self.name}.{name} holds {_UNSEARCHABLE[column.kind]}, which cannot be searched. "
                f"Read the records, and filter them."
            )

    def statement(
        self,
        sql: str,
        parameters: Sequence[Any],
        values: Record | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Statement:
        """Return a statement, which may write a record, or values by column.

        It raises DuplicateRecord or SerdeError if a constraint is violated.
        """

        def translate(error: Exception) -> Exception | None:
            if isinstance(error, UnicodeEncodeError | OverflowError):
                return SerdeError(f"a record of {self.name}", str(error))
            if not isinstance(error, self._database.INTEGRITY_ERROR):
                return None
            is_unique, columns = self._database.violated_constraint(error)
            if not is_unique:
                return SerdeError(f"{self.name}.{columns[0]}", "it must not be None")
            if isinstance(values, Record):
                duplicates = [getattr(values, name) for name in columns]
            else:
                duplicates = [(values or {}).get(name, "as before") for name in columns]
            return DuplicateRecord(self.name, columns, duplicates)

        return Statement(sql, parameters, translate=translate, **options)

    def _checked(self, name: str, convert: Convert) -> Convert:
        """Return a conversion to stored form that raises SerdeError for a value that cannot be stored."""

        def encode(value: Any) -> Any:
            try:
                return convert(value)
            except (TypeError, ValueError, RecursionError) as error:
                raise SerdeError(f"{self.name}.{name}", str(error)) from error

        return encode


def _conversions(column: Column, encryptor: Encryptor) -> tuple[Convert, Convert | None] | None:
    """Return the conversions of values to stored form and back; None for one that changes nothing."""
    match column.kind:
        case "flag":
            return int, bool
        case "status":
            return str, column.type
        case "instant":
            return microseconds, instant_of
        case "json":
            return partial(encrypted_json, encryptor), partial(decrypted_json, encryptor)
        case "names":
            return json.dumps, json.loads
        case "sealed":
            return partial(_encrypted_text, encryptor), partial(_decrypted_text, encryptor)
        case "text":
            return checked_text, None
        case "integer" | "real":
            return None


class Tables(dict[type[Record], Table[Any]]):
    """The tables of a database, by the class of their records; each is prepared on first use."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.encryptor = database.encryptor
        self.sql = database.statements("ledger")
        self.executes_late = database.executes_late
        self.has_arrays = database.has_arrays
        self._database = database

    def __missing__(self, kind: type[R]) -> Table[R]:
        table = self[kind] = Table(kind, self._database)
        return table


def encrypted_json(encryptor: Encryptor, value: Any) -> bytes:
    """Return a value in stored form. Raises ValueError if it is not valid JSON."""
    return encryptor.encrypt(to_json(value))


def decrypted_json(encryptor: Encryptor, stored: bytes) -> Any:
    """Reverse `encrypted_json`."""
    body = encryptor.decrypt(stored)
    try:
        return from_json(body)
    except ValueError:  # pydantic writes deeper nesting than it reads
        return json.loads(body)


def _encrypted_text(encryptor: Encryptor, text: str) -> bytes:
    return encryptor.encrypt(text.encode())


def _decrypted_text(encryptor: Encryptor, stored: str | bytes) -> str:
    return stored if isinstance(stored, str) else encryptor.decrypt(stored).decode()
