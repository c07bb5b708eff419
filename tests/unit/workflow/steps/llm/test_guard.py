"""The handling of answers that fail their checks."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from statewright.errors import InvalidConfig
from statewright.messages import Message
from statewright.models import ModelResponse
from statewright.workflow.steps import CheckedAnswer, StepFailed
from statewright.workflow.steps.llm.checks import MAX_FEEDBACK_ROUNDS, FailedCheck, OutputGuard
from statewright.workflow.steps.model import Guardrails, LlmStep, PromptMessage


def guard(on_failure: Any, check: Any = lambda answer: "bad") -> OutputGuard:
    guardrails = Guardrails(post_checks=("c",), on_failure=on_failure)
    messages = (PromptMessage(role="user", content="x"),)
    return OutputGuard(LlmStep(type="llm", name="a", model="m", messages=messages, guardrails=guardrails), {"c": check})


FAILED = [FailedCheck("c", "bad"), FailedCheck("d", "worse")]


def test_feedback_depends_on_the_mode_and_the_number_of_rounds() -> None:
    assert guard("warn").make_feedback(FAILED, 0) is None
    assert guard("block").make_feedback([], 0) is None
    assert guard("retry_with_feedback").make_feedback(FAILED, 0) == "Your answer was not accepted.\nbad\nworse"
    for output_guard, rounds in ((guard("block"), 0), (guard("retry_with_feedback"), MAX_FEEDBACK_ROUNDS)):
        with pytest.raises(StepFailed, match="c: bad d: worse") as failed:
            output_guard.make_feedback(FAILED, rounds)
        assert failed.value.details == {"checks": [{"check": "c", "reason": "bad"}, {"check": "d", "reason": "worse"}]}


def test_each_failed_check_is_reported() -> None:
    events: list[Any] = []
    execution = cast(Any, SimpleNamespace(record_event=lambda kind, **payload: events.append((kind, payload))))
    answer = CheckedAnswer(ModelResponse(Message("x", role="assistant")), cast(Any, None))
    assert asyncio.run(guard("warn").run_checks(answer, execution)) == [FailedCheck("c", "bad")]
    assert events == [("GUARDRAIL_FAILED", {"check": "c", "reason": "bad", "onFailure": "warn"})]
    with pytest.raises(InvalidConfig, match="The check 'c' returned True"):
        asyncio.run(guard("warn", lambda answer: True).run_checks(answer, execution))
