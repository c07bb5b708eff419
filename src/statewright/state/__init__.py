"""State schemas, which are read from classes or dicts, conversion of updates to writes, validation and JSON Schema."""

from statewright.channels import add_messages
from statewright.state.fields import Derived, Field, Managed, may_hold_container
from statewright.state.json_schema import context_json_schema, hint_json_schema, json_schema
from statewright.state.managed import IsLastStep, RemainingSteps
from statewright.state.schema import ROOT, SchemaKind, StateSchema, is_pydantic, known_keys, merge_fields, read_schema
from statewright.state.stored_types import stored_types
from statewright.state.update import IdSource, UnknownKeys, UpdateReader, Writes, instance_values
from statewright.state.validate import (
    FieldCheck,
    SchemaChecks,
    check_schema,
    check_value,
    constrained_annotations,
    modern_typeddict,
    type_adapter,
)

__all__ = [
    "ROOT",
    "Derived",
    "Field",
    "FieldCheck",
    "IdSource",
    "IsLastStep",
    "Managed",
    "RemainingSteps",
    "SchemaChecks",
    "SchemaKind",
    "StateSchema",
    "UnknownKeys",
    "UpdateReader",
    "Writes",
    "add_messages",
    "check_schema",
    "check_value",
    "constrained_annotations",
    "context_json_schema",
    "hint_json_schema",
    "instance_values",
    "is_pydantic",
    "json_schema",
    "known_keys",
    "may_hold_container",
    "merge_fields",
    "modern_typeddict",
    "read_schema",
    "stored_types",
    "type_adapter",
]
