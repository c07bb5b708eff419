"""The `output_schema` of a state.

If it is a JSON Schema, answers are validated against it. Any other text is an example, which is only sent to the model;
many examples are not even valid JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from statewright.data.json_schema import UnusableSchema, json_schema_validator
from statewright.models import OutputForm
from statewright.workflow.states.expressions.output import ParsedOutput
from statewright.workflow.states.templates import parse_template, render_off_loop


class OutputSchema:
    """A parsed `output_schema`."""

    def __init__(self, text: str) -> None:
        """Raises UnusableSchema for a JSON Schema with an external reference, which `check` reports earlier."""
        self._template = parse_template(text)
        self._validator: Any = None
        self.output: OutputForm | None = None
        """The format to request from the model; None for an example."""
        schema = read_json_schema(text)
        if schema is not None and (validator := _validator_of(schema)) is not None:
            self.output, self._validator = OutputForm(schema), validator

    async def render_instruction(self, scope: Mapping[str, Any]) -> str:
        """Return the instruction for the model. Raises ExpressionError for a template that cannot be rendered."""
        relation = "that this JSON Schema describes" if self.output is not None else "of this form"
        text = await render_off_loop(lambda work: self._template.render(scope, work=work))
        return f"Answer with JSON {relation}, and with nothing else:\n{text}"

    def find_fault(self, answer: ParsedOutput) -> str | None:
        """Return the first validation error of an answer; None for a valid one."""
        if self._validator is None:
            return None
        error = next(iter(self._validator.iter_errors(answer.result)), None)
        return str(error.message) if error is not None else None


def read_json_schema(text: str) -> dict[str, Any] | None:
    """Return the text as a JSON Schema; None if it is an example."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    schema = cast("dict[str, Any]", value)
    # An example may have the key "type" too, so that alone is not enough.
    is_schema = "$schema" in schema or "$ref" in schema
    is_schema = is_schema or ("type" in schema and ("properties" in schema or "items" in schema))
    return schema if is_schema else None


def _validator_of(schema: dict[str, Any]) -> Any:
    """Return a validator; None for an invalid schema, which is treated as an example."""
    try:
        return json_schema_validator(schema, extra="states")
    except UnusableSchema as error:
        if error.has_bad_reference:
            raise
        return None
