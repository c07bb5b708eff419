"""The base class of records, and the derivation of columns from their fields.

A record is a plain dataclass. Fields annotated `Json` hold values of runs and users: they are stored as one text, which
is encrypted if the database is, and cannot be searched. So is the text of fields annotated `Sealed`. All other fields
are columns."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, get_args, get_type_hints

Json = Any
"""A value that JSON can hold."""
Names = Any
"""A list of names, which statements of a database search: never encrypted."""
Sealed = str
"""Private text, such as descriptions and URLs: encrypted if the database is."""
ColumnKind = Literal["text", "integer", "real", "flag", "instant", "status", "json", "names", "sealed"]


@dataclass(slots=True, kw_only=True)
class Record:
    """A row of the ledger. Its id is unique among the records of its class."""

    TABLE: ClassVar[str]
    """The name of the table."""
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Groups of columns in which no two records have the same values, as in SQL: a None equals nothing."""

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
    # The annotations as text show the aliases `Json` and `Sealed`, which are lost in the resolved hints.
    texts = {name: text for kind in reversed(record.__mro__) for name, text in _annotations(kind).items()}
    hints = get_type_hints(record)
    return tuple(_column(field.name, str(texts[field.name]), hints[field.name]) for field in fields(record))


def _annotations(kind: type) -> dict[str, Any]:
    return vars(kind).get("__annotations__", {})


def _column(name: str, annotation: str, hint: Any) -> Column:
    alias = annotation.split(" | ")[0]
    if alias in ("Json", "Names"):
        return Column(name, "json" if alias == "Json" else "names", object, True)
    members = get_args(hint) or (hint,)
    types = [member for member in members if member is not type(None)]
    kind = "sealed" if alias == "Sealed" else _kind(types[0])
    return Column(name, kind, types[0], len(types) < len(members))


def _kind(kind: Any) -> ColumnKind:
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return "status"
    kinds: dict[Any, ColumnKind] = {bool: "flag", int: "integer", float: "real", datetime: "instant"}
    return kinds.get(kind, "text")


def checked_text(text: str) -> str:
    """Return text for a column. Raises ValueError for a null character, which not every database can store."""
    if "\0" in text:
        raise ValueError("a null character cannot be stored")
    return text
