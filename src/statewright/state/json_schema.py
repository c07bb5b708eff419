"""JSON Schemas of the input, output and context of graphs, from all kinds of schema classes."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any, cast

from statewright.channels import Messages
from statewright.state.fields import Field
from statewright.state.schema import ROOT, SchemaKind, StateSchema
from statewright.state.validate import allow_any_class, is_required, modern_typeddict, type_adapter, unqualified


def json_schema(schema: StateSchema, fields: Mapping[str, Field], *, title: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a state schema.

    `fields` are the merged fields of all schemas of the graph, by name. Their types replace those in `schema`.
    """
    if schema.kind is SchemaKind.PYDANTIC:
        return {**schema.source.model_json_schema(), "title": title}
    if schema.kind is SchemaKind.ROOT:
        return {**hint_json_schema(schema.fields[ROOT].hint), "title": title}
    return _object_schema(schema, fields, title)


def _object_schema(schema: StateSchema, fields: Mapping[str, Field], title: str) -> dict[str, Any]:
    """Return an object schema with a property for each field.

    One pydantic adapter creates the whole schema, so that its properties share definitions.
    """
    from typing_extensions import TypedDict

    hints = {name: _json_hint(fields.get(name, field)) for name, field in schema.fields.items()}
    hints.update((name, modern_typeddict(unqualified(derived.hint))) for name, derived in schema.derived.items())
    required = [name for name, field in schema.fields.items() if _is_field_required(schema, field)]
    entries = {name: hint if name in required else typing.NotRequired[hint] for name, hint in hints.items()}
    document = hint_json_schema(allow_any_class(TypedDict(title, entries)))  # pyright: ignore  # built at run time
    for name, property_schema in document.get("properties", {}).items():
        property_schema.setdefault("title", name.replace("_", " ").strip().title())
    return {**document, "title": title}


def _is_field_required(schema: StateSchema, field: Field) -> bool:
    if not schema.closed or field.start is not None:
        return False
    if schema.kind is not SchemaKind.MAPPING or schema.source is None:
        return True
    hints = typing.get_type_hints(schema.source, include_extras=True)
    return is_required(schema.source, field.name, hints.get(field.name))


def _json_hint(field: Field) -> Any:
    if isinstance(field.channel, Messages):
        return list[dict[str, Any]]  # messages as JSON objects
    return modern_typeddict(unqualified(field.hint))


def hint_json_schema(hint: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type. A mapping is assumed to be a JSON Schema, and is returned as a dict.

    A class that pydantic does not know becomes a schema that accepts any value.
    """
    if isinstance(hint, Mapping):
        return dict(cast("Mapping[str, Any]", hint))
    from pydantic.json_schema import GenerateJsonSchema  # slow to import

    class Tolerant(GenerateJsonSchema):
        def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> Any:
            return {}

    return type_adapter(hint).json_schema(schema_generator=Tolerant)


def context_json_schema(source: Any) -> dict[str, Any] | None:
    """Return the JSON Schema of a context schema; None if there is none."""
    return None if source is None else hint_json_schema(source)
