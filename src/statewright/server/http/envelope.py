"""The envelopes of responses, as the OpenAPI document describes them; `encode` writes them."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from statewright.api.resource import camel

T = TypeVar("T")


class Answer(BaseModel, Generic[T]):
    """The envelope of what was asked for."""

    success: Literal[True]
    data: T


class Meta(BaseModel):
    """Which part of a list it is."""

    model_config: ClassVar[ConfigDict] = ConfigDict(alias_generator=camel)

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
