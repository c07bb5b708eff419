"""What all models have in common: camel case outside, records of the ledger behind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Final, Generic, Literal, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, Strict
from pydantic.alias_generators import to_camel


def _in_utc(instant: datetime) -> datetime:
    """Return the instant in UTC, if it is in times that clocks and databases agree on."""
    if not 1970 <= instant.year < 9000:
        raise ValueError("should be between the years 1970 and 9000")
    return instant.astimezone(UTC)


_WRITTEN: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d.*")


def _written_as_instant(value: Any) -> Any:
    """Return the text of an instant: numbers could be seconds or milliseconds, from one year or another."""
    if isinstance(value, datetime) or (isinstance(value, str) and _WRITTEN.fullmatch(value)):
        return value
    raise ValueError("should be an instant, written as 2026-01-31T09:00:00Z")


Instant = Annotated[AwareDatetime, Strict(False), BeforeValidator(_written_as_instant), AfterValidator(_in_utc)]
"""An instant in a request: with its offset from UTC."""
JsonMap = dict[str, Any]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Tag = Annotated[str, Field(min_length=1, max_length=100)]


class Body(BaseModel):
    """What a caller sends: unknown fields are refused, and so is a text or true where a number should be."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=False,
        validate_by_alias=True,
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
    )


Sources = Mapping[str, str | Callable[[Any], Any]]
"""Where fields are found in a record: under another name, or worked out."""


class Shown(BaseModel):
    """What a caller is shown."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        use_attribute_docstrings=True,
    )
    SOURCES: ClassVar[Sources] = {}
    """Fields that a record has under another name, or not as they are shown."""


def shown(kind: type[Shown], record: Any) -> dict[str, Any]:
    """Return a record as a model shows it. The names are the model's, so that the document tells the truth."""
    return {name: read(record) for name, read in _readers(kind)}


def all_shown(kind: type[Shown], records: Iterable[Any]) -> list[dict[str, Any]]:
    """Return several records, as `shown` shows one."""
    readers = _readers(kind)
    return [{name: read(record) for name, read in readers} for record in records]


@cache
def _readers(kind: type[Shown]) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    return tuple((field.alias or name, _reader(kind, name)) for name, field in kind.model_fields.items())


def _reader(kind: type[Shown], name: str) -> Callable[[Any], Any]:
    source = kind.SOURCES.get(name, name)
    return attrgetter(source) if isinstance(source, str) else source


T = TypeVar("T")


class Answer(BaseModel, Generic[T]):
    """The envelope of what was asked for."""

    success: Literal[True]
    data: T


class Meta(Shown):
    """Which part of a list it is."""

    page: int
    page_size: int
    total: int
    total_pages: int


class Answers(BaseModel, Generic[T]):
    """The envelope of a page of a list."""

    success: Literal[True]
    data: list[T]
    meta: Meta


class RefusalError(BaseModel):
    """Why there is no answer."""

    code: str = Field(examples=["VALIDATION_ERROR"])
    """What programs tell errors by."""
    message: str
    """What happened, where, what was found, and what to do."""
    details: Any


class Refusal(BaseModel):
    """The envelope of an error."""

    success: Literal[False]
    error: RefusalError
