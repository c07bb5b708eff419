"""Records as rows, and back: a table for each class, a column for each field.

JSON is stored as encrypted bytes; times are microseconds, flags are 0 and 1, None is NULL. Secret text is bytes if the
database is encrypted, and plain text otherwise: earlier versions wrote plain text always, and such rows can be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final, Generic

from pydantic_core import from_json, to_json

from statewright.checkpoint.forms import instant_of, microseconds
from statewright.errors import DamagedDatabase, InvalidConfig, SerdeError, suggestion
from statewright.runs import Column, Record, Run, columns_of
from statewright.runs.records.record import R
from statewright.storage.encryption import Encryptor
from statewright.storage.sqlite.faults import UNREADABLE

Convert = Callable[[Any], Any]
_NATIVE: Final = ("text", "integer", "real")
"""Kinds of columns whose values are stored without conversion."""
_UNSEARCHABLE: Final = {"json": "JSON", "sealed": "text that may be encrypted"}
_RUN_INPUT: Final = 'ifnull("input", (SELECT body FROM run_inputs WHERE run = "workflow_runs"."id"))'
"""The input of a run: a large one has a row of its own, so that reading many runs does not read their inputs."""


class Table(Generic[R]):
    """The table of a class of records."""

    def __init__(self, kind: type[R], seal: Encryptor) -> None:
        self.kind = kind
        self.name = kind.TABLE
        self._seal = seal
        self.columns: Mapping[str, Column] = {column.name: column for column in columns_of(kind)}
        self.names = tuple(self.columns)
        columns = ", ".join(f'"{name}"' for name in self.names)
        expressions = ", ".join(_RUN_INPUT if (kind, name) == (Run, "input") else f'"{name}"' for name in self.names)
        self.select = f'SELECT {expressions} FROM "{self.name}"'
        self.insert = f'INSERT INTO "{self.name}" ({columns}) VALUES ({", ".join("?" * len(self.names))})'
        self.returning = f"RETURNING {expressions}"
        self._values = attrgetter(*self.names)
        self._encoders = {name: self._encoder(column) for name, column in self.columns.items()}
        self._encoder_by_index = [
            (index, encode) for index, encode in enumerate(self._encoders.values()) if encode is not None
        ]
        decoders = map(self._decoder, self.columns.values())
        self._decoder_by_index = [(index, decode) for index, decode in enumerate(decoders) if decode is not None]

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
            raise damaged(self.name, error) from error

    def encoded(self, name: str, value: Any) -> Any:
        """Return a value of a column in stored form."""
        self.check_column(name)
        encode = self._encoders[name]
        return value if encode is None or value is None else encode(value)

    def decoded(self, names: Sequence[str], row: Sequence[Any]) -> tuple[Any, ...]:
        """Return values of columns from their stored form."""
        decoders = [self._decoder(self.columns[name]) for name in names]
        try:
            return tuple(
                value if decode is None or value is None else decode(value)
                for decode, value in zip(decoders, row, strict=True)
            )
        except UNREADABLE as error:
            raise damaged(self.name, error) from error

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

    def _encoder(self, column: Column) -> Convert | None:
        if column.kind in _NATIVE:
            return None
        encoders: dict[str, Convert] = {
            "flag": int,
            "status": str,
            "instant": microseconds,
            "json": partial(closed_json, self._seal),
            "sealed": partial(_closed_text, self._seal),
        }
        convert = encoders[column.kind]
        where = f"{self.name}.{column.name}"

        def encode(value: Any) -> Any:
            try:
                return convert(value)
            except (TypeError, ValueError, RecursionError) as error:
                raise SerdeError(where, str(error)) from error

        return encode

    def _decoder(self, column: Column) -> Convert | None:
        if column.kind in _NATIVE:
            return None
        decoders: dict[str, Convert] = {
            "flag": bool,
            "status": column.type,
            "instant": instant_of,
            "json": partial(opened_json, self._seal),
            "sealed": partial(_opened_text, self._seal),
        }
        return decoders[column.kind]


class Tables(dict[type[Record], Table[Any]]):
    """The tables of a database, by the class of their records; each is prepared on first use."""

    def __init__(self, seal: Encryptor) -> None:
        super().__init__()
        self.seal = seal

    def __missing__(self, kind: type[R]) -> Table[R]:
        table = self[kind] = Table(kind, self.seal)
        return table


def closed_json(seal: Encryptor, value: Any) -> bytes:
    """Return a value in stored form. Raises ValueError if it is not valid JSON."""
    return seal.encrypt(to_json(value))


def opened_json(seal: Encryptor, stored: bytes) -> Any:
    """Reverse `closed_json`."""
    body = seal.decrypt(stored)
    try:
        return from_json(body)
    except ValueError:  # pydantic writes deeper nesting than it reads
        return json.loads(body)


def _closed_text(seal: Encryptor, text: str) -> str | bytes:
    return seal.encrypt(text.encode()) if seal.encrypts else text


def _opened_text(seal: Encryptor, stored: str | bytes) -> str:
    return stored if isinstance(stored, str) else seal.decrypt(stored).decode()


def damaged(table: str, error: Exception) -> DamagedDatabase:
    """Return the error for stored data that cannot be decoded."""
    return DamagedDatabase(f"a record of {table} cannot be decoded: {error}")
