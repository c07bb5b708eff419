"""The `output_schema` of a state.

If the text is a JSON Schema, answers are validated against it. Any other text is an example of an answer, which is only
sent to the model. Many examples are not even valid JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from statewright.data.json_schema import UnusableSchema, json_schema_validator
from statewright.models import OutputForm
from statewright.workflow.states.expressions.evaluation import WORK_LIMIT
from statewright.workflow.states.expressions.output import ParsedOutput
from statewright.workflow.states.templates import parse_template
from statewright.workflow.states.templates.template import UnresolvedCallback


class OutputSchema:
    """A parsed `output_schema`."""

    def __init__(self, text: str) -> None:
        """Parse the text. Raises UnusableSchema for a JSON Schema with an external reference.

        In a workflow file, `check_rules` has already rejected such a schema.
        """
        self._template = parse_template(text)
        self._validator: Any = None
        self.output: OutputForm | None = None
        """The format to request from the model; None for an example."""
        schema = read_json_schema(text)
        if schema is not None and (validator := _make_validator(schema)) is not None:
            self.output, self._validator = OutputForm(schema), validator

    def render_instruction(
        self, scope: Mapping[str, Any], *, on_unresolved: UnresolvedCallback | None = None, work: int = WORK_LIMIT
    ) -> str:
        """Return the instruction for the model. The parameters and the errors are those of `Template.render`."""
        relation = "that this JSON Schema describes" if self.output is not None else "of this form"
        text = self._template.render(scope, on_unresolved=on_unresolved, work=work)
        return f"Answer with JSON {relation}, and with nothing else:\n{text}"

    def find_fault(self, answer: ParsedOutput) -> str | None:
        """Return the first validation error of an answer; None for a valid answer."""
        if self._validator is None:
            return None
        error = next(iter(self._validator.iter_errors(answer.result)), None)
        return str(error.message) if error is not None else None


def read_json_schema(text: str) -> dict[str, Any] | None:
    """Return the JSON Schema in the text; None if the text is an example."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    schema = cast("dict[str, Any]", value)
    # An example may contain the key "type" too, so this key alone is not enough.
    is_schema = "$schema" in schema or "$ref" in schema
    is_schema = is_schema or ("type" in schema and ("properties" in schema or "items" in schema))
    return schema if is_schema else None


def _make_validator(schema: dict[str, Any]) -> Any:
    """Return a validator; None for an invalid schema, which is then treated as an example."""
    try:
        return json_schema_validator(schema, extra="states")
    except UnusableSchema as error:
        if error.has_bad_reference:
            raise
        return None
