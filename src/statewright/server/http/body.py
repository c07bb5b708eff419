"""The base class of request bodies, and field types that several bodies share."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    model_validator,
)

from statewright.api.resource import camel


def _to_utc(instant: datetime) -> datetime:
    """Convert an instant to UTC. Raises ValueError for years that not every platform and database supports."""
    if not 1970 <= instant.year < 9000:
        raise ValueError("should be between the years 1970 and 9000")
    return instant.astimezone(UTC)


_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d.*")


def _check_notation(value: Any) -> Any:
    """Raise ValueError unless the value is a date and time.

    In particular, a number is rejected, because its unit and epoch are unknown.
    """
    if isinstance(value, datetime) or (isinstance(value, str) and _INSTANT.fullmatch(value)):
        return value
    raise ValueError("should be a timestamp such as 2026-01-31T09:00:00Z")


Instant = Annotated[AwareDatetime, Strict(False), BeforeValidator(_check_notation), AfterValidator(_to_utc)]
"""An instant in a request, with a UTC offset."""
JsonMap = dict[str, Any]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Tag = Annotated[str, Field(min_length=1, max_length=100)]
MAX_IDEMPOTENCY_KEY_LENGTH: Final = 255
"""The maximum length of an idempotency key, in characters."""
IdempotencyKey: TypeAlias = Annotated[str, Field(min_length=1, max_length=MAX_IDEMPOTENCY_KEY_LENGTH)]
"""An idempotency key: an id that the client chooses, so that a request that is sent twice takes effect only once."""


class Body(BaseModel):
    """The body of a request.

    Unknown fields are rejected, and so are strings and booleans where a number is expected.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=camel,
        validate_by_name=False,
        validate_by_alias=True,
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
    )


class WorkflowBody(Body):
    """The body of a request that names what to run: either a stored definition or a served graph."""

    definition_id: Name | None = None
    graph: Name | None = None
    """The name under which a graph is served. Its newest version is used."""

    @model_validator(mode="after")
    def _check_workflow(self) -> Self:
        if (self.definition_id is None) == (self.graph is None):
            raise ValueError("give either definitionId or graph")
        return self
