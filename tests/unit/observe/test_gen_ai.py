"""Attributes of model and tool calls by the conventions for generative AI."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as known

from statewright.observe.gen_ai import model_attributes, tool_attributes

MODEL_CALL: dict[str, Any] = {
    "model": "openai:gpt-5",
    "agent": "Guide",
    "input_tokens": 3,
    "output_tokens": 2,
    "cost": 0.25,
    "tools": ["weather"],
    "finish_reason": "stop",
}


def test_a_model_call_has_the_conventional_attributes() -> None:
    assert model_attributes(MODEL_CALL) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.system": "openai",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.response.model": "gpt-5",
        "gen_ai.usage.input_tokens": 3,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.agent.name": "Guide",
        "statewright.cost_usd": 0.25,
    }


@pytest.mark.parametrize(
    ("call", "provider"),
    [
        ({"model": "google-gla:gemini"}, "gcp.gemini"),
        ({"model": "bedrock:a.b:c"}, "bedrock:a.b"),
        ({"model": "gpt-5-2025", "request_model": "openai:gpt-5"}, "openai"),
        ({"model": "x", "provider": "mistral"}, "mistral_ai"),
        ({"model": "x"}, None),
        ({}, None),
    ],
)
def test_the_provider_is_derived_from_the_name_of_the_model(call: dict[str, Any], provider: str | None) -> None:
    assert model_attributes(call).get("gen_ai.provider.name") == provider


def test_the_requested_and_the_answering_model_are_separate_attributes() -> None:
    result = model_attributes({"model": "gpt-5-2025", "request_model": "openai:gpt-5"})
    assert (result["gen_ai.request.model"], result["gen_ai.response.model"]) == ("gpt-5", "gpt-5-2025")


def test_a_tool_call_has_the_conventional_attributes() -> None:
    assert tool_attributes({"tool": "weather", "call": "c1", "agent": "Guide"}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "weather",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
        "gen_ai.agent.name": "Guide",
    }


def test_all_attribute_names_are_defined_by_the_conventions() -> None:
    names = {value for value in vars(known).values() if isinstance(value, str) and value.startswith("gen_ai.")}
    used = {*model_attributes(MODEL_CALL), *tool_attributes({"tool": "t", "call": "c"})} - {"statewright.cost_usd"}
    assert used <= names
