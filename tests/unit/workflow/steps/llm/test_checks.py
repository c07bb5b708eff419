"""The checks of answers."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.messages import Message
from statewright.models import ModelResponse
from statewright.workflow.steps import CheckedAnswer, post_check
from statewright.workflow.steps.llm.checks import (
    CHECKS,
    confidence_threshold,
    content_safety,
    list_required_keys,
    schema_validation,
)
from statewright.workflow.steps.model import Guardrails, LlmStep, PromptMessage


def answer(text: str, *, finish_reason: Any = "stop", **step: Any) -> CheckedAnswer:
    messages = (PromptMessage(role="user", content="x"),)
    llm_step = LlmStep(type="llm", name="a", model="m", messages=messages, **step)
    return CheckedAnswer(ModelResponse(Message(text, role="assistant"), finish_reason=finish_reason), llm_step)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("-----BEGIN RSA PRIVATE KEY-----", "a private key"),
        ("use sk-abcdefghijklmnopqrstuvwx now", "a secret key of a service"),
        ("AKIAABCDEFGHIJKLMNOP", "a secret key of a service"),
        ("ghp_" + "a" * 36, "a secret key of a service"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijkl", "a signed token"),
        ("his number is 123-45-6789.", "a social security number"),
        ("pay with 4111 1111 1111 1111 please", "the number of a payment card"),
        ("5500-0000-0000-0004", "the number of a payment card"),
    ],
)
def test_secrets_and_personal_numbers_are_found(text: str, secret: str) -> None:
    assert content_safety(answer(text)) == f"The answer contains {secret}. Leave it out."


@pytest.mark.parametrize(
    "text",
    [
        "Hi Jane, call me at +49 170 1234567.",
        "Order 4111111111111112 was sent at 2026-01-02T03:04:05.",
        "000-12-3456 and 2026-01-02",
        "0000 0000 0000 0000",
        "3.141592653589793238462643",
        "the skill sk-short",
        "",
    ],
)
def test_harmless_text_passes(text: str) -> None:
    assert content_safety(answer(text)) is None


def test_a_refusal_of_the_model_fails_the_check() -> None:
    assert content_safety(answer("", finish_reason="refused")) == "The model refused to answer."


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "object", "required": ["a"], "properties": {"a": {}, "b": {}}}, ["a"]),
        ({"type": "object", "properties": {"a": {}, "b": {}}}, ["a", "b"]),
        ({"a": "string", "b": "number"}, ["a", "b"]),
        ({"type": "object"}, []),
        ({"$ref": "#/$defs/x", "$defs": {}}, []),
        ({"$schema": "x", "a": "text"}, ["a"]),
        ({}, []),
    ],
)
def test_required_keys_are_read_from_schemas_and_examples(schema: dict[str, Any], expected: list[str]) -> None:
    assert list_required_keys(schema) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": null, "b": 1}', None),
        ('```json\n{"a": 1, "b": 2}\n```', None),
        ('It is {"a": 1, "b": 2}.', None),
        ('{"a": 1}', "lacks 'b'"),
        ("{}", "lacks 'a', 'b'"),
        ("[1]", "lacks 'a', 'b'"),
        ("text", "is not valid JSON"),
    ],
)
def test_missing_keys_are_reported(text: str, expected: str | None) -> None:
    reason = schema_validation(answer(text, output_schema={"a": "x", "b": "y"}))
    assert reason is None if expected is None else expected in (reason or "")


def test_without_a_schema_every_answer_passes() -> None:
    assert schema_validation(answer("text")) is None


@pytest.mark.parametrize(
    ("text", "threshold", "expected"),
    [
        ('{"confidence": 0.7}', 0.7, True),
        ('{"confidence": 1}', 0.7, True),
        ('{"confidence": 0.69}', 0.7, False),
        ('{"confidence": 0.2}', 0.1, True),
        ('{"confidence": "0.9"}', 0.7, False),
        ('{"confidence": true}', 0.7, False),
        ('{"a": 1}', 0.7, False),
        ("[0.9]", 0.7, False),
        ("sure", 0.7, False),
    ],
)
def test_the_confidence_must_reach_the_threshold(text: str, threshold: float, expected: bool) -> None:
    reason = confidence_threshold(answer(text, guardrails=Guardrails(confidence_threshold=threshold)))
    assert (reason is None) is expected


def test_more_checks_can_be_registered() -> None:
    @post_check("tests.only")
    def check(answer: CheckedAnswer) -> str | None:
        return answer.text or None

    try:
        assert CHECKS["tests.only"] is check
    finally:
        del CHECKS["tests.only"]
