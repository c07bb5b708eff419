"""The base class of records, and the derivation of columns from their fields.

A record is a plain dataclass. Fields annotated `Json` hold values of runs and users: they are stored as one text, which
is encrypted if the database is, and cannot be searched. So is the text of fields annotated `Sealed`. All other fields
are columns."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, get_args, get_type_hints

Json = Any
"""A value that JSON can hold."""
Sealed = str
"""Text for people to read, or that gives access: encrypted where the database is."""
ColumnKind = Literal["text", "integer", "real", "flag", "instant", "status", "json", "sealed"]


@dataclass(slots=True, kw_only=True)
class Record:
    """A row of the ledger. Its id is unique among the records of its class."""

    TABLE: ClassVar[str]
    """The name of the table."""
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Groups of columns of which no two records have the same values; a None in one of them makes it differ."""

    id: str


R = TypeVar("R", bound=Record)


class Column(NamedTuple):
    """A field as a database sees it."""

    name: str
    kind: ColumnKind
    type: type
    optional: bool


@cache
def columns_of(record: type[Record]) -> tuple[Column, ...]:
    """Return the fields of a class of records, in their order."""
    named = {name: annotation for kind in reversed(record.__mro__) for name, annotation in _annotations(kind).items()}
    hints = get_type_hints(record)
    return tuple(_column(one.name, str(named[one.name]), hints[one.name]) for one in fields(record))


def _annotations(kind: type) -> dict[str, Any]:
    return vars(kind).get("__annotations__", {})


def _column(name: str, written: str, hint: Any) -> Column:
    annotated = written.split(" | ")[0]
    if annotated == "Json":
        return Column(name, "json", object, True)
    parts = get_args(hint) or (hint,)
    kinds = [part for part in parts if part is not type(None)]
    kind = "sealed" if annotated == "Sealed" else _kind(kinds[0])
    return Column(name, kind, kinds[0], len(kinds) < len(parts))


def _kind(kind: Any) -> ColumnKind:
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return "status"
    kinds: dict[Any, ColumnKind] = {bool: "flag", int: "integer", float: "real", datetime: "instant"}
    return kinds.get(kind, "text")


def has_default(record: type[Record], name: str) -> bool:
    """Return whether a field may be left out."""
    found = next(one for one in fields(record) if one.name == name)
    return found.default is not MISSING or found.default_factory is not MISSING
