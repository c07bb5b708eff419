"""JSON Schema of what a graph takes and gives, whatever kind of class describes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from statewright.channels import Messages
from statewright.state.fields import Field
from statewright.state.schema import ROOT, SchemaKind, StateSchema
from statewright.state.validate import modern_typeddict, type_adapter


def json_schema(schema: StateSchema, fields: Mapping[str, Field], *, title: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a state schema; `fields` are the graph's, which know how each one merges."""
    if schema.kind is SchemaKind.PYDANTIC:
        return {**schema.source.model_json_schema(), "title": title}
    if schema.kind is SchemaKind.ROOT:
        return {**_of_hint(schema.fields[ROOT].hint), "title": title}
    return _object(schema, fields, title)


def _object(schema: StateSchema, fields: Mapping[str, Field], title: str) -> dict[str, Any]:
    """An object with a property a field. One adapter for all of them, so that definitions are shared."""
    from pydantic import ConfigDict, create_model

    definitions: dict[str, Any] = {
        name: (_hint(fields.get(name, field)), ... if _required(schema, field) else None)
        for name, field in schema.fields.items()
    }
    model = create_model(title, __config__=ConfigDict(arbitrary_types_allowed=True), **definitions)
    described = model.model_json_schema()
    for name in definitions:
        described["properties"][name].pop("default", None)
    return described


def _required(schema: StateSchema, field: Field) -> bool:
    optional: frozenset[str] = getattr(schema.source, "__optional_keys__", frozenset[str]())
    return schema.closed and field.start is None and field.name not in optional


def _hint(field: Field) -> Any:
    if type(field.channel) is Messages:
        return list[dict[str, Any]]  # the form in which messages travel as JSON
    return modern_typeddict(field.hint)


def _of_hint(hint: Any) -> dict[str, Any]:
    return type_adapter(hint).json_schema()


def context_json_schema(source: Any) -> dict[str, Any] | None:
    """The JSON Schema of a context class; None where the graph has none."""
    return None if source is None else _of_hint(source)
