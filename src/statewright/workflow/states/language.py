"""The language as JSON Schema, for editors that check and complete workflow files.

Made from the tables by which files are read, so that both say the same. What a schema cannot say (ids that refer to
each other, expressions) is left to the reading.
"""

from __future__ import annotations

from typing import Any, Final

from statewright.workflow.states.parse.form import Form, Key
from statewright.workflow.states.parse.forms import FORMS, WORKFLOW, WRAPPER

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def language_schema() -> dict[str, Any]:
    """A JSON Schema (2020-12) of workflow files, with or without their wrapper."""
    return {
        "$schema": _DIALECT,
        "title": "A workflow of states",
        "type": "object",
        "if": _given("execution_config"),
        "then": WRAPPER.schema(),
        "else": WORKFLOW.schema(),
        "$defs": {form.name: _form_schema(form) for form in FORMS},
    }


def _form_schema(form: Form) -> dict[str, Any]:
    """A map: unknown keys are allowed, as the reading allows them with a warning."""
    schema: dict[str, Any] = {
        "type": "object",
        "description": form.doc,
        "properties": {key.name: _key_schema(form, key) for key in form.keys},
        "additionalProperties": True,
    }
    if required := [key.name for key in form.keys if key.required]:
        schema["required"] = required
    if rules := _rules(form):
        schema["allOf"] = rules
    return schema


def _key_schema(form: Form, key: Key) -> dict[str, Any]:
    schema = _described(form, key)
    if key.ignored or key.required:
        return schema
    return {**schema, **_or_null(key.kind.schema())}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The same, or null, which is as good as not given."""
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]} if schema else {}


def _described(form: Form, key: Key) -> dict[str, Any]:
    """What is said about a key; for a required one, its kind too."""
    if key.ignored:
        return {"description": f"Does nothing: {key.ignored}", "deprecated": True}
    if key.stands_for:
        return {"description": f"Deprecated: write {key.stands_for}. {key.doc}", "deprecated": True}
    schema: dict[str, Any] = {"description": key.doc}
    if key.default is not None:
        schema["default"] = key.default
    return {**schema, **key.kind.schema()} if key.required else schema


def _rules(form: Form) -> list[dict[str, Any]]:
    """What holds between the keys of a map."""
    rules: list[dict[str, Any]] = []
    if form.one_of:
        rules.append({"anyOf": [_given(name) for name in form.one_of]})
    rules.extend({"not": _given(clash.first, clash.second)} for clash in form.clashes)
    rules.extend({"if": _given(name), "then": _given(company)} for name, company in form.needs)
    rules.extend(
        {"not": _given(key.name, key.stands_for)} for key in form.keys if key.stands_for and not key.both_allowed
    )
    return rules


def _given(*names: str) -> dict[str, Any]:
    """A map in which all these keys are given: null counts as not given."""
    return {"required": list(names), "properties": {name: {"not": {"type": "null"}} for name in names}}
