"""Representations, which encode records as API resources and describe the resources in the OpenAPI document.

A resource is declared once, in `statewright.api`. A record is encoded directly: no resource is created, and nothing is
validated, because records are already valid and every user value has a JSON form.
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
from statewright.server.http.encode import JsonResponse, success_response

Source = str | Callable[[Any], Any]
"""The source of a field's value: an attribute path in the record, such as `spent.cost`, or a function of the record."""


class Representation:
    """Encodes records as a resource, and has the schema of the resource in the OpenAPI document."""

    def __init__(
        self,
        resource: type[Resource],
        schema_name: str,
        types: Mapping[str, Any] | None = None,
        /,
        **sources: Source,
    ) -> None:
        """Create the representation of a resource.

        `sources` has the sources of fields by field name. A field without a source is read from the record's attribute
        of the same name. `types` overrides the types of fields in the document, e.g. with enums that only the server
        has.
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

    @property
    def names(self) -> list[str]:
        """The names of the fields in the API."""
        return [name for name, _ in self._readers]

    def encode(self, record: Any) -> dict[str, Any]:
        """Encode a record as a mapping of API field names to values."""
        return {name: read(record) for name, read in self._readers}

    def encode_all(self, records: Iterable[Any]) -> list[dict[str, Any]]:
        """Encode records as mappings of API field names to values."""
        return [self.encode(record) for record in records]

    def to_response(self, record: Any, status: int = 200) -> JsonResponse:
        """Return a response with a record."""
        return success_response(self.encode(record), status=status)

    def to_list_response(self, records: Iterable[Any]) -> JsonResponse:
        """Return a response with an unpaged list of records."""
        return success_response(self.encode_all(records))

    @cached_property
    def model(self) -> type[BaseModel]:
        """The pydantic model from which the framework derives the schema of the resource."""
        descriptions = _field_docstrings(self._resource)
        metadata = {field.name: field.metadata for field in fields(self._resource)}
        model_fields: dict[str, Any] = {
            name: (_with_models(hint), Field(description=descriptions.get(name), **metadata[name]))
            for name, hint in self._types.items()
        }
        model: Any = create_model(
            self._schema_name, __base__=_ResourceModel, __doc__=self._resource.__doc__, **model_fields
        )
        return model


_BY_RESOURCE: Final[dict[type[Resource], Representation]] = {}
"""All representations by resource, because the types of a resource's fields may refer to other resources."""


class _ResourceModel(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(alias_generator=camel)


def _with_models(hint: Any) -> Any:
    """Return a type with resources replaced by their pydantic models, even inside unions and generics."""
    if hint in _BY_RESOURCE:
        return _BY_RESOURCE[hint].model
    origin = get_origin(hint)
    if origin is None or origin is Literal:
        return hint
    arguments = tuple(_with_models(argument) for argument in get_args(hint))
    if origin in (Union, UnionType):
        return reduce(lambda left, right: left | right, arguments)
    return origin[arguments]


@cache
def _field_docstrings(resource: type[Resource]) -> Mapping[str, str]:
    """Return the docstrings of fields by name, including inherited fields; none if source code is not available."""
    docstrings: dict[str, str] = {}
    for cls in reversed(resource.__mro__):
        if issubclass(cls, Resource):
            docstrings.update(_own_field_docstrings(cls))
    return docstrings


def _own_field_docstrings(cls: type[Resource]) -> Mapping[str, str]:
    """Return the docstrings of the fields that a class itself declares, by name."""
    try:
        source = inspect.getsource(cls)
    except OSError:
        return {}
    definition = ast.parse(textwrap.dedent(source)).body[0]
    assert isinstance(definition, ast.ClassDef)
    docstrings: dict[str, str] = {}
    for pair in zip(definition.body, definition.body[1:], strict=False):
        match pair:
            case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                docstrings[name] = inspect.cleandoc(text)
            case _:
                pass
    return docstrings
