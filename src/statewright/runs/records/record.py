"""The base class of records, and the derivation of columns from their fields.

A record is a plain dataclass, and each field is a column. A field annotated `Json` holds values of runs and users. It
is stored as JSON text, which is encrypted if the database is encrypted, and cannot be searched. The same applies to the
text of a field annotated `Sealed`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, get_args, get_type_hints

Json = Any
"""A value that JSON can hold."""
Names = Any
"""A list of names. It is never encrypted, because database statements search it."""
Sealed = str
"""Private text, such as a description or a URL, which is encrypted if the database is encrypted."""
ColumnKind = Literal["text", "integer", "real", "flag", "instant", "status", "json", "names", "sealed"]


@dataclass(slots=True, kw_only=True)
class Record:
    """A row of the ledger. Its id is unique among the records of its class."""

    TABLE: ClassVar[str]
    """The name of the table."""
    UNIQUE: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Groups of columns in which no two records may have the same values. As in SQL, None differs from any value."""

    id: str


R = TypeVar("R", bound=Record)


class Column(NamedTuple):
    """The column of a field."""

    name: str
    kind: ColumnKind
    type: type
    """The Python type of its values."""
    optional: bool
    """True if the value may be None."""


@cache
def columns_of(record: type[Record]) -> tuple[Column, ...]:
    """Return the columns of a class of records, in the order of its fields."""
    # The aliases `Json` and `Sealed` are visible only in the unresolved annotations, which are strings.
    annotations = {name: text for cls in reversed(record.__mro__) for name, text in _own_annotations(cls).items()}
    hints = get_type_hints(record)
    return tuple(_make_column(field.name, str(annotations[field.name]), hints[field.name]) for field in fields(record))


def _own_annotations(cls: type) -> dict[str, Any]:
    return vars(cls).get("__annotations__", {})


def _make_column(name: str, annotation: str, hint: Any) -> Column:
    alias = annotation.split(" | ")[0]
    if alias in ("Json", "Names"):
        return Column(name, "json" if alias == "Json" else "names", object, True)
    members = get_args(hint) or (hint,)
    types = [member for member in members if member is not type(None)]
    kind = "sealed" if alias == "Sealed" else _column_kind(types[0])
    return Column(name, kind, types[0], len(types) < len(members))


def _column_kind(cls: Any) -> ColumnKind:
    if isinstance(cls, type) and issubclass(cls, StrEnum):
        return "status"
    kinds: dict[Any, ColumnKind] = {bool: "flag", int: "integer", float: "real", datetime: "instant"}
    return kinds.get(cls, "text")


def checked_text(text: str) -> str:
    """Return the text. Raises ValueError if it contains a null character, which not every database can store."""
    if "\0" in text:
        raise ValueError("a null character cannot be stored")
    return text
