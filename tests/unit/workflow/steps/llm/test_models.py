"""The models that steps name."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.errors import InvalidConfig
from statewright.models import ScriptedModel
from statewright.workflow.steps.llm.resources import StepModels, qualify_model_name

ONE, OTHER = ScriptedModel([]), ScriptedModel([])


@pytest.mark.parametrize(
    ("given", "name", "expected"),
    [
        (ONE, "anything", ONE),
        ({"a": ONE, "default": OTHER}, "a", ONE),
        ({"a": ONE, "default": OTHER}, "b", OTHER),
        ({"a": ONE}, "b", None),
        ({}, "a", None),
        (None, "a", None),
        (lambda name: ONE if name == "a" else None, "a", ONE),
        (lambda name: ONE if name == "a" else None, "gpt-5", None),
    ],
)
def test_whose_model_it_is(given: Any, name: str, expected: Any) -> None:
    assert StepModels(given).find(name) is expected


@pytest.mark.parametrize("given", [{"a": 3}, lambda name: 3, 3])
def test_what_is_no_model(given: Any) -> None:
    with pytest.raises(InvalidConfig, match="The model is 3"):
        StepModels(given).find("a")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt-4o", "openai:gpt-4o"),
        ("o1-mini", "openai:o1-mini"),
        ("o3-mini", "openai:o3-mini"),
        ("claude-opus-4", "anthropic:claude-opus-4"),
        ("ollama:llama3.3", "ollama:llama3.3"),
        ("llama3.3", None),
        ("", None),
    ],
)
def test_providers_are_known_by_how_a_name_begins(name: str, expected: str | None) -> None:
    assert qualify_model_name(name) == expected


@pytest.mark.parametrize(
    ("given", "known"),
    [(None, False), ({"m": ScriptedModel([])}, True), ({"other": ScriptedModel([])}, False), (ScriptedModel([]), True)],
)
def test_whether_somebody_would_be_asked(given: Any, known: bool) -> None:
    assert StepModels(given).has("m") is known
    assert StepModels(given).has("gpt-5")
