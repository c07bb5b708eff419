"""The JSON Schema of the language, for editors that validate and complete workflow files.

It is generated from the declarations of the model. `check` also covers what a JSON Schema cannot: references between
ids, the syntax of expressions and templates, reachability, and suggestions for misspelt keys.
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

    `node_kinds` are the supported kinds of custom nodes. Unknown keys are not allowed, because most of them are
    misspelt, although `check` only warns about them.
    """
    extra = {CustomNode.schema.name: [_kind_rule(node_kinds)], McpServer.schema.name: [_server_rule()]}
    return {
        "$schema": _DIALECT,
        "title": "A workflow of states",
        "type": "object",
        "if": _present("execution_config"),
        "then": WrappedDefinition.schema.json_schema(),
        "else": Definition.schema.json_schema(),
        "$defs": {schema.name: _map_schema(schema, extra.get(schema.name, [])) for schema in SCHEMAS},
    }


def _map_schema(schema: MapSchema, extra: list[dict[str, Any]]) -> dict[str, Any]:
    document: dict[str, Any] = {
        "type": "object",
        "description": schema.doc,
        "properties": {key.name: _key_schema(key) for key in schema.keys},
        "patternProperties": {f"^{PRIVATE_PREFIX}": {}},
        "additionalProperties": False,
    }
    if required := [key.name for key in schema.keys if key.required]:
        document["required"] = required
    if rules := [*_rules(schema), *extra]:
        document["allOf"] = rules
    return document


def _kind_rule(node_kinds: Collection[str]) -> dict[str, Any]:
    """Return the rule that the kind of a custom node is supported: its custom_node_id, or else its id."""
    kinds = {"enum": list(node_kinds)}
    return {
        "if": _present("custom_node_id"),
        "then": {"properties": {"custom_node_id": kinds}},
        "else": {"properties": {"id": kinds}},
    }


def _server_rule() -> dict[str, Any]:
    """Return the rule that an enabled MCP server has a command, a URL or a config id."""
    config = {"anyOf": [_present(name) for name in McpConfig.schema.current]}
    text = {"type": "string", "minLength": 1}
    options: dict[str, Any] = {"enabled": {"const": False}, "config": config, "command": text, "mcp_config_id": text}
    return {"anyOf": [{"required": [name], "properties": {name: value}} for name, value in options.items()]}


def _key_schema(key: KeySchema) -> dict[str, Any]:
    if key.ignored:
        return {"description": f"Does nothing: {key.ignored}", "deprecated": True}
    if key.required:
        return {"description": key.doc, **key.type.json_schema()}
    if key.current_name:
        annotations = {"description": f"Deprecated: write {key.current_name}. {key.doc}", "deprecated": True}
    else:
        annotations = {"description": key.doc, **({} if key.default is None else {"default": key.default})}
    return {**annotations, **_or_null(key.type.json_schema())}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Extend a schema to also allow null, which counts as absent."""
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]} if schema else {}


def _rules(schema: MapSchema) -> list[dict[str, Any]]:
    """Return the rules between the keys of a map."""
    rules: list[dict[str, Any]] = []
    if schema.one_of:
        rules.append({"anyOf": [_present(name) for name in schema.one_of]})
    rules.extend({"not": _present(pair.first, pair.second)} for pair in schema.exclusive)
    rules.extend({"if": _present(name), "then": _present(required)} for name, required in schema.requires)
    rules.extend(
        {"not": _present(key.name, key.current_name)}
        for key in schema.keys
        if key.current_name and not key.both_allowed
    )
    return rules


def _present(*names: str) -> dict[str, Any]:
    """Return the schema of maps that have all of these keys. Null counts as absent."""
    return {"required": list(names), "properties": {name: {"not": {"type": "null"}} for name in names}}
