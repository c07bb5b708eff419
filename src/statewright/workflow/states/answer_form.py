"""The form in which a state wants its answer: what `output_schema` says.

Text that is a JSON Schema is one: answers are checked against it. Any other text is an example, which the model is
shown and nothing is checked against; many that people write are not even JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from statewright.models import OutputForm
from statewright.workflow.states.context import result_of
from statewright.workflow.states.templates import parse_template


class AnswerForm:
    """What one `output_schema` asks for."""

    def __init__(self, text: str) -> None:
        self._template = parse_template(text)
        schema = schema_in(text)
        self.output = OutputForm(schema) if schema is not None else None
        self._validator = _validator(schema) if schema is not None else None

    def told(self, scope: Mapping[str, Any]) -> str:
        """How a model is asked for it."""
        kind = "that this JSON Schema describes" if self.output is not None else "of this form"
        return f"Answer with JSON {kind}, and with nothing else:\n{self._template.render(scope)}"

    def fault(self, answer: str) -> str | None:
        """What is wrong with an answer; None if nothing is."""
        if self._validator is None:
            return None
        error = next(iter(self._validator.iter_errors(result_of(answer))), None)
        return str(error.message) if error is not None else None


def schema_in(text: str) -> dict[str, Any] | None:
    """The JSON Schema that a text is; None if it is something else."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    schema = cast("dict[str, Any]", value)
    describes = "$schema" in schema or ("type" in schema and ("properties" in schema or "items" in schema))
    return schema if describes and _is_valid(schema) else None


def _is_valid(schema: dict[str, Any]) -> bool:
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for(schema)
    except (ValueError, jsonschema_rs.ValidationError):
        return False
    return True


def _validator(schema: dict[str, Any]) -> Any:
    import jsonschema_rs

    return jsonschema_rs.validator_for(schema)
