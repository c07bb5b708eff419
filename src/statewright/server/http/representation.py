"""Representations: how the server encodes its records as resources of the API, and describes them in its document.

A resource is declared once, in `statewright.api`. A record is encoded directly, without an instance of the resource and
without validation: records are valid already, and any value of a user can be encoded as JSON.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import cache, cached_property, reduce
from operator import attrgetter
from types import UnionType
from typing import Any, ClassVar, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, create_model

from statewright.api.resource import Resource, camel, field_types
from statewright.server.http.encode import Json, success_response

Source = str | Callable[[Any], Any]
"""The value of a field: an attribute of the record, possibly nested, or a function of the record."""


class Representation:
    """A resource as the server writes it: its values, taken from a record, and its schema in the OpenAPI document."""

    def __init__(
        self,
        resource: type[Resource],
        schema_name: str,
        types: Mapping[str, Any] | None = None,
        /,
        **sources: Source,
    ) -> None:
        """A field without a source is read from the attribute of the record with the same name.

        `types` refines the types of fields in the document, with enumerations that only the server knows.
        """
        self._resource = resource
        self._schema_name = schema_name
        self._types = {**field_types(resource), **(types or {})}
        self.sources: Final = {name: sources.get(name, name) for name in self._types}
        self._readers: Final[list[tuple[str, Callable[[Any], Any]]]] = [
            (camel(name), attrgetter(source) if isinstance(source, str) else source)
            for name, source in self.sources.items()
        ]
        _BY_RESOURCE[resource] = self

    def encode(self, record: Any) -> dict[str, Any]:
        """Return a record as a mapping with the names of the API."""
        return {name: read(record) for name, read in self._readers}

    def encode_all(self, records: Iterable[Any]) -> list[dict[str, Any]]:
        """Return records as mappings with the names of the API."""
        readers = self._readers
        return [{name: read(record) for name, read in readers} for record in records]

    def answer(self, record: Any, status: int = 200) -> Json:
        """Return the response with a record."""
        return success_response(self.encode(record), status=status)

    def answer_all(self, records: Iterable[Any]) -> Json:
        """Return the response with a complete list of records."""
        return success_response(self.encode_all(records))

    @cached_property
    def model(self) -> type[BaseModel]:
        """The pydantic model from which the framework derives the schema of the resource."""
        descriptions = _descriptions(self._resource)
        metadata = {item.name: item.metadata for item in fields(self._resource)}
        members: dict[str, Any] = {
            name: (_described_type(hint), Field(description=descriptions.get(name), **metadata[name]))
            for name, hint in self._types.items()
        }
        model: Any = create_model(self._schema_name, __base__=_Described, __doc__=self._resource.__doc__, **members)
        return model


_BY_RESOURCE: Final[dict[type[Resource], Representation]] = {}


class _Described(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(alias_generator=camel)


def _described_type(hint: Any) -> Any:
    """Replace the resources in a type by their models."""
    if hint in _BY_RESOURCE:
        return _BY_RESOURCE[hint].model
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is None or origin is Literal:
        return hint
    described = tuple(_described_type(argument) for argument in arguments)
    if origin in (Union, UnionType):
        return reduce(lambda left, right: left | right, described)
    return origin[described]


@cache
def _descriptions(resource: type[Resource]) -> Mapping[str, str]:
    """Return the docstrings of fields by name, including inherited ones; empty if there is no source code."""
    descriptions: dict[str, str] = {}
    for kind in reversed(resource.__mro__):
        if issubclass(kind, Resource):
            descriptions.update(_own_descriptions(kind))
    return descriptions


def _own_descriptions(kind: type[Resource]) -> Mapping[str, str]:
    try:
        source = inspect.getsource(kind)
    except OSError:
        return {}
    definition = ast.parse(textwrap.dedent(source)).body[0]
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(text)
        for field, next_statement in zip(definition.body, definition.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and (text := _text(next_statement))
    }


def _text(statement: ast.stmt) -> str | None:
    match statement:
        case ast.Expr(ast.Constant(str(text))):
            return text
        case _:
            return None
