"""The JSON Schema of the language, for editors that validate and complete workflow files.

It is generated from the declarations of the model. `statewright check` also covers what a JSON Schema cannot express:
references between ids, the syntax of expressions and templates, reachability, and suggestions for misspelt keys.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from statewright.workflow.states.language.checks.references import NODE_KINDS
from statewright.workflow.states.language.model import (
    SCHEMAS,
    CustomNode,
    Definition,
    McpConfig,
    McpServer,
    WrappedDefinition,
)
from statewright.workflow.states.language.schema.keys import KeySchema
from statewright.workflow.states.language.schema.maps import PRIVATE_PREFIX, MapSchema

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def language_schema(node_kinds: Collection[str] = NODE_KINDS) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of workflow files, with or without their wrapper.

    `node_kinds` are the supported kinds of custom nodes. The schema does not allow unknown keys, because most of them
    are misspelt keys, although `statewright check` only warns about them.
    """
    extra_rules = {CustomNode.schema.name: [_make_kind_rule(node_kinds)], McpServer.schema.name: [_make_server_rule()]}
    return {
        "$schema": _DIALECT,
        "title": "A workflow of states",
        "type": "object",
        "if": _require_keys("execution_config"),
        "then": WrappedDefinition.schema.json_schema(),
        "else": Definition.schema.json_schema(),
        "$defs": {schema.name: _make_map_schema(schema, extra_rules.get(schema.name, [])) for schema in SCHEMAS},
    }


def _make_map_schema(schema: MapSchema, extra_rules: list[dict[str, Any]]) -> dict[str, Any]:
    document: dict[str, Any] = {
        "type": "object",
        "description": schema.doc,
        "properties": {key.name: _make_key_schema(key) for key in schema.keys},
        "patternProperties": {f"^{PRIVATE_PREFIX}": {}},
        "additionalProperties": False,
    }
    if required := [key.name for key in schema.keys if key.required]:
        document["required"] = required
    if rules := [*_make_rules(schema), *extra_rules]:
        document["allOf"] = rules
    return document


def _make_kind_rule(node_kinds: Collection[str]) -> dict[str, Any]:
    """Return the rule that a custom node has a supported kind, which is its custom_node_id, or else its id."""
    kinds = {"enum": list(node_kinds)}
    return {
        "if": _require_keys("custom_node_id"),
        "then": {"properties": {"custom_node_id": kinds}},
        "else": {"properties": {"id": kinds}},
    }


def _make_server_rule() -> dict[str, Any]:
    """Return the rule that an enabled MCP server has a command, a URL or a config id."""
    config = {"anyOf": [_require_keys(name) for name in McpConfig.schema.current_names]}
    text = {"type": "string", "minLength": 1}
    options: dict[str, Any] = {"enabled": {"const": False}, "config": config, "command": text, "mcp_config_id": text}
    return {"anyOf": [{"required": [name], "properties": {name: value}} for name, value in options.items()]}


def _make_key_schema(key: KeySchema) -> dict[str, Any]:
    if key.ignored:
        return {"description": f"Does nothing: {key.ignored}", "deprecated": True}
    if key.required:
        return {"description": key.doc, **key.type.json_schema()}
    if key.current_name:
        annotations = {"description": f"Deprecated: write {key.current_name}. {key.doc}", "deprecated": True}
    else:
        annotations = {"description": key.doc, **({} if key.default is None else {"default": key.default})}
    return {**annotations, **_allow_null(key.type.json_schema())}


def _allow_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Extend a schema so that it also allows null, which has the same meaning as an absent key."""
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]} if schema else {}


def _make_rules(schema: MapSchema) -> list[dict[str, Any]]:
    """Return the rules between the keys of a map."""
    rules: list[dict[str, Any]] = []
    if schema.one_of:
        rules.append({"anyOf": [_require_keys(name) for name in schema.one_of]})
    rules.extend({"not": _require_keys(pair.first, pair.second)} for pair in schema.exclusive)
    rules.extend({"if": _require_keys(name), "then": _require_keys(required)} for name, required in schema.requires)
    rules.extend(
        {"not": _require_keys(key.name, key.current_name)}
        for key in schema.keys
        if key.current_name and not key.both_allowed
    )
    return rules


def _require_keys(*names: str) -> dict[str, Any]:
    """Return the schema of maps that have all of these keys, with values other than null."""
    return {"required": list(names), "properties": {name: {"not": {"type": "null"}} for name in names}}
