"""The `output_schema` of a state.

Text that is a JSON Schema validates the answers. Any other text is an example, which is sent to the model and not used
for validation; many of them are not even valid JSON.
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
        """Raises UnusableSchema for a JSON Schema with an external reference, which `check` reports."""
        self._template = parse_template(text)
        self._validator: Any = None
        self.output: OutputForm | None = None
        schema = read_json_schema(text)
        if schema is not None and (validator := _validator_of(schema)) is not None:
            self.output, self._validator = OutputForm(schema), validator

    async def instruction(self, scope: Mapping[str, Any]) -> str:
        """Return the instruction for the model. Raises ExpressionError."""
        kind = "that this JSON Schema describes" if self.output is not None else "of this form"
        text = await render_off_loop(lambda work: self._template.render(scope, work=work))
        return f"Answer with JSON {kind}, and with nothing else:\n{text}"

    def find_fault(self, answer: ParsedOutput) -> str | None:
        """Return what is wrong with an answer; None for a valid one."""
        if self._validator is None:
            return None
        error = next(iter(self._validator.iter_errors(answer.result)), None)
        return str(error.message) if error is not None else None


def read_json_schema(text: str) -> dict[str, Any] | None:
    """Return the text as a JSON Schema; None if it is an example, or is not valid JSON."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    schema = cast("dict[str, Any]", value)
    describes = "$schema" in schema or "$ref" in schema
    return schema if describes or ("type" in schema and ("properties" in schema or "items" in schema)) else None


def _validator_of(schema: dict[str, Any]) -> Any:
    """Return a validator; None for an invalid schema, which is treated as an example."""
    try:
        return json_schema_validator(schema, extra="states")
    except UnusableSchema as error:
        if error.has_bad_reference:
            raise
        return None
