"""The models of steps."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.errors import InvalidConfig
from statewright.models import ScriptedModel
from statewright.workflow.steps.llm.resources import StepModels, qualify_model_name

ONE, TWO = ScriptedModel([]), ScriptedModel([])


@pytest.mark.parametrize(
    ("models", "name", "expected"),
    [
        (ONE, "anything", ONE),
        ({"a": ONE, "default": TWO}, "a", ONE),
        ({"a": ONE, "default": TWO}, "b", TWO),
        ({"a": ONE}, "b", None),
        ({}, "a", None),
        (None, "a", None),
        (lambda name: ONE if name == "a" else None, "a", ONE),
        (lambda name: ONE if name == "a" else None, "gpt-5", None),
    ],
)
def test_models_are_found_by_name(models: Any, name: str, expected: Any) -> None:
    assert StepModels(models).find(name) is expected


@pytest.mark.parametrize("models", [{"a": 3}, lambda name: 3, 3])
def test_invalid_models_are_rejected(models: Any) -> None:
    with pytest.raises(InvalidConfig, match="The model is 3"):
        StepModels(models).find("a")


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
def test_providers_are_recognized_by_the_prefix_of_a_name(name: str, expected: str | None) -> None:
    assert qualify_model_name(name) == expected


@pytest.mark.parametrize(
    ("models", "expected"),
    [(None, False), ({"m": ScriptedModel([])}, True), ({"other": ScriptedModel([])}, False), (ScriptedModel([]), True)],
)
def test_has_returns_whether_a_model_is_available(models: Any, expected: bool) -> None:
    assert StepModels(models).has("m") is expected
    assert StepModels(models).has("gpt-5")
