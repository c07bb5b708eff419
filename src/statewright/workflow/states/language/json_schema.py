"""The JSON Schema of the language, for editors that validate and complete workflow files.

It is generated from the tables of the grammar, so that both agree, and from those rules about values that a schema can
express. `check` covers the rest: references between ids, the grammar of expressions and templates, reachability, and
suggestions for misspelt keys.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from statewright.workflow.states.expressions.expression import LENGTH_LIMIT
from statewright.workflow.states.language.grammar import (
    CASE,
    CONDITION,
    CUSTOM_NODE,
    MCP_CONFIG,
    MCP_SERVER,
    NEXT,
    SCHEMAS,
    STATE,
    SWITCH,
    WORKFLOW,
    WRAPPER,
)
from statewright.workflow.states.language.map_schema import PRIVATE_PREFIX, Key, MapSchema
from statewright.workflow.states.language.model import END_STATE
from statewright.workflow.states.language.references import NODE_KINDS, RESERVED

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_TEXT: Final = r"'(?:[^'\\]|\\[\s\S])*'" + "|" + r'"(?:[^"\\]|\\[\s\S])*"'
_OPERATORS: Final = r"&(?!&)|\|(?!\|)|={1,2}(?!=)|!=(?!=)"
_EXPRESSION: Final = {
    "maxLength": LENGTH_LIMIT,
    # Closed quotes, and outside of them none of the operators of other languages: && || ! ===
    "pattern": rf"""^(?:{_TEXT}|{_OPERATORS}|[^'"&|=!#])*(?:#[\s\S]*)?$""",
    # A comparison with a single equals sign: score = 5
    "not": {"pattern": r"^\s*[A-Za-z_][\w.]*\s*=(?!=)"},
}
_TARGET: Final = {"not": {"enum": list(RESERVED)}}
_LIMITS: Final[dict[tuple[str, str], dict[str, Any]]] = {
    (STATE.name, "id"): {"not": {"enum": [END_STATE, *RESERVED]}},
    (NEXT.name, "state_id"): _TARGET,
    (NEXT.name, "state_ids"): {"items": {"type": "string", "minLength": 1, **_TARGET}},
    (NEXT.name, "iter_key"): {"minLength": 1},
    (CONDITION.name, "expression"): _EXPRESSION,
    (CONDITION.name, "then"): _TARGET,
    (CONDITION.name, "otherwise"): _TARGET,
    (CASE.name, "condition"): _EXPRESSION,
    (CASE.name, "state_id"): _TARGET,
    (SWITCH.name, "default"): _TARGET,
}
"""Rules about values that are checked after the structure of a file."""


def language_schema(node_kinds: Collection[str] = NODE_KINDS) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of workflow files, with or without their wrapper.

    `node_kinds` are the supported kinds of custom nodes. Unknown keys are not allowed, though `check` only warns about
    them: most of them are misspelt.
    """
    extra = {CUSTOM_NODE.name: [_kind_rule(node_kinds)], MCP_SERVER.name: [_server_rule()]}
    return {
        "$schema": _DIALECT,
        "title": "A workflow of states",
        "type": "object",
        "if": _given("execution_config"),
        "then": WRAPPER.schema(),
        "else": WORKFLOW.schema(),
        "$defs": {form.name: _form_schema(form, extra.get(form.name, [])) for form in SCHEMAS},
    }


def _form_schema(form: MapSchema, extra: list[dict[str, Any]]) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "description": form.doc,
        "properties": {key.name: _key_schema(form, key) for key in form.keys},
        "patternProperties": {f"^{PRIVATE_PREFIX}": {}},
        "additionalProperties": False,
    }
    if required := [key.name for key in form.keys if key.required]:
        schema["required"] = required
    if rules := [*_rules(form), *extra]:
        schema["allOf"] = rules
    return schema


def _kind_rule(node_kinds: Collection[str]) -> dict[str, Any]:
    """Return the rule that the kind of a custom node is supported: its custom_node_id, or else its id."""
    kinds = {"enum": list(node_kinds)}
    return {
        "if": _given("custom_node_id"),
        "then": {"properties": {"custom_node_id": kinds}},
        "else": {"properties": {"id": kinds}},
    }


def _server_rule() -> dict[str, Any]:
    """Return the rule that an enabled MCP server has a command, a URL or a config id."""
    config = {"anyOf": [_given(name) for name in MCP_CONFIG.current]}
    word = {"type": "string", "minLength": 1}
    options: dict[str, Any] = {"enabled": {"const": False}, "config": config, "command": word, "mcp_config_id": word}
    return {"anyOf": [{"required": [name], "properties": {name: value}} for name, value in options.items()]}


def _key_schema(form: MapSchema, key: Key) -> dict[str, Any]:
    limits = _LIMITS.get((form.name, key.name), {})
    schema = _described(form, key)
    if key.ignored:
        return schema
    if key.required:
        return {**schema, **limits}
    return {**schema, **_or_null({**key.kind.schema(), **limits})}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that also allows null, which counts as absent."""
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]} if schema else {}


def _described(form: MapSchema, key: Key) -> dict[str, Any]:
    """Return the description of a key; for a required one, its type too."""
    if key.ignored:
        return {"description": f"Does nothing: {key.ignored}", "deprecated": True}
    if key.stands_for:
        return {"description": f"Deprecated: write {key.stands_for}. {key.doc}", "deprecated": True}
    schema: dict[str, Any] = {"description": key.doc}
    if key.default is not None:
        schema["default"] = key.default
    return {**schema, **key.kind.schema()} if key.required else schema


def _rules(form: MapSchema) -> list[dict[str, Any]]:
    """Return the rules between the keys of a map."""
    rules: list[dict[str, Any]] = []
    if form.one_of:
        rules.append({"anyOf": [_given(name) for name in form.one_of]})
    rules.extend({"not": _given(clash.first, clash.second)} for clash in form.exclusive)
    rules.extend({"if": _given(name), "then": _given(company)} for name, company in form.needs)
    rules.extend(
        {"not": _given(key.name, key.stands_for)} for key in form.keys if key.stands_for and not key.both_allowed
    )
    return rules


def _given(*names: str) -> dict[str, Any]:
    """Return the schema of maps with all these keys. Null counts as absent."""
    return {"required": list(names), "properties": {name: {"not": {"type": "null"}} for name in names}}
