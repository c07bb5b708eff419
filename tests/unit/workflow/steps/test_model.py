"""The model of definitions."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from statewright.workflow.steps.model import Definition, TaskStep, WaitStep


def test_fields_are_snake_case_in_python_and_camel_case_in_json() -> None:
    step = WaitStep(type="wait", name="w", duration_ms=5)
    assert step.model_dump(mode="json", by_alias=True)["durationMs"] == 5


def test_definitions_are_immutable() -> None:
    definition = Definition(name="n", version="1", steps=(TaskStep(type="task", name="a", handler="h"),))
    with pytest.raises(ValidationError, match="frozen"):
        definition.name = "other"  # type: ignore[misc]
