"""The tables that are copied, with the meaning of their columns.

All adapters have these tables. Columns that only one of them has, such as the heads of lines on Postgres, are derived
from the others and computed after the copy. The holders of threads are not copied, since no run of the source can
continue on the copy, and neither is the cache, whose results are computed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from statewright.runs import RECORDS, Run, columns_of
from statewright.runs.records.record import ColumnKind


class Kind(Enum):
    """The kind of the values of a column, named by its type in the SQL of Postgres."""

    INTEGER = "bigint"
    FLAG = "boolean"
    """True or false, stored as a number where there are no booleans."""
    REAL = "double precision"
    TEXT = "text"
    ID = "bytea"
    """Bytes that are never encrypted."""
    VALUE = "value"
    """Bytes that are encrypted if the database is."""


class Numbering(Enum):
    """The table whose key is the number that row ids begin with."""

    LINE = "lines"
    RUN = "runs"
    WORKFLOW_RUN = "workflow_runs"


@dataclass(frozen=True, slots=True)
class CopiedColumn:
    """A column of a table that is copied."""

    name: str
    kind: Kind
    numbering: Numbering | None = None
    """The numbering to which its numbers belong, if their range depends on the database."""
    is_row_id: bool = False
    """True if it has row ids, which begin with such a number."""


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table that is copied."""

    group: str
    """The group of tables that are created together: see `Database.create_tables`."""
    name: str
    key: Sequence[str]
    """The columns by which its rows are sorted: in all databases, the order is the same."""
    columns: Sequence[CopiedColumn]


def _integer(name: str, numbering: Numbering | None = None) -> CopiedColumn:
    return CopiedColumn(name, Kind.INTEGER, numbering)


def _row_id(name: str, numbering: Numbering = Numbering.LINE) -> CopiedColumn:
    return CopiedColumn(name, Kind.INTEGER, numbering, is_row_id=True)


def _text(name: str) -> CopiedColumn:
    return CopiedColumn(name, Kind.TEXT)


def _id(name: str) -> CopiedColumn:
    return CopiedColumn(name, Kind.ID)


def _value(name: str) -> CopiedColumn:
    return CopiedColumn(name, Kind.VALUE)


def _threads(name: str, key: Sequence[str], *columns: CopiedColumn) -> CopiedTable:
    return CopiedTable("threads", name, key, columns)


_PLACE: Final = _row_id("place")
_THREADS: Final = (
    _threads(
        "threads",
        ["id"],
        _integer("id"),
        _text("workspace"),
        _text("thread_id"),
        _integer("epoch"),
        _integer("changed"),
    ),
    _threads("lines", ["id"], _integer("id", Numbering.LINE), _integer("thread"), _text("namespace"), _text("branch")),
    _threads("runs", ["id"], _integer("id", Numbering.RUN), _integer("thread"), _text("name")),
    _threads(
        "records",
        ["place"],
        _PLACE,
        _id("id"),
        _integer("run", Numbering.RUN),
        _integer("number"),
        _value("control"),
        _value("changes"),
        _value("events"),
    ),
    _threads(
        "segments",
        ["place"],
        _PLACE,
        _integer("first"),
        _id("ids"),
        _value("apart"),
        _value("base"),
        _value("changes"),
        _value("controls"),
    ),
    _threads(
        "grown",
        ["line", "field", "last"],
        _integer("line", Numbering.LINE),
        _text("field"),
        _integer("last"),
        CopiedColumn("whole", Kind.FLAG),
        _integer("items"),
        _value("body"),
    ),
    _threads("jumps", ["place"], _PLACE, _row_id("parent")),
    _threads("pending", ["place", "kind", "key"], _PLACE, _integer("kind"), _text("key"), _value("body")),
    _threads("events", ["place"], _row_id("place", Numbering.RUN), _value("body")),
)
_ITEMS: Final = (
    CopiedTable(
        "items",
        "items",
        ["id"],
        (
            _integer("id"),
            _text("namespace"),
            _text("key"),
            *map(_integer, ("created_at", "updated_at", "ttl", "until")),
            _value("value"),
        ),
    ),
    CopiedTable("items", "vectors", ["item"], (_integer("item"), _integer("dims"), _value("parts"))),
)
_KINDS: Final[Mapping[ColumnKind, Kind]] = {
    "text": Kind.TEXT,
    "status": Kind.TEXT,
    "names": Kind.TEXT,
    "integer": Kind.INTEGER,
    "flag": Kind.INTEGER,
    "instant": Kind.INTEGER,
    "real": Kind.REAL,
    "json": Kind.VALUE,
    "sealed": Kind.VALUE,
}


def _ledger_tables() -> list[CopiedTable]:
    tables: list[CopiedTable] = []
    for record in RECORDS:
        columns = [CopiedColumn(column.name, _KINDS[column.kind]) for column in columns_of(record)]
        key = ["id"]
        if record is Run:
            columns.insert(0, _integer("number", Numbering.WORKFLOW_RUN))
            key = ["number"]
        tables.append(CopiedTable("ledger", record.TABLE, key, tuple(columns)))
    row_id = _row_id("place", Numbering.WORKFLOW_RUN)
    tables.append(CopiedTable("ledger", "run_events", ["place"], (row_id, _integer("at"), _value("body"))))
    tables.append(CopiedTable("ledger", "run_inputs", ["run"], (_text("run"), _value("body"))))
    return tables


TABLES: Final[Sequence[CopiedTable]] = (*_THREADS, *_ledger_tables(), *_ITEMS)
