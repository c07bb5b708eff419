"""Errors that cause a fallback to another model, and errors that do not."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.errors import InternalError, InvalidConfig, MissingApiKey
from statewright.models import ScriptedModel
from statewright.workflow.steps import StepFailed, compile_steps


def run(*models: ScriptedModel, **retry: Any) -> Any:
    names = [f"m{number}" for number in range(len(models))]
    messages = [{"role": "user", "content": "x"}]
    step = {"type": "llm", "name": "a", "model": names[0], "fallbackModels": names[1:], "messages": messages}
    document = {"name": "n", "version": "1", "steps": [{**step, "retry": {"maxAttempts": 1, **retry}}]}
    return compile_steps(document, models=dict(zip(names, models, strict=True))).invoke({})


def test_an_internal_error_causes_no_fallback() -> None:
    fallback = ScriptedModel(["x"])
    with pytest.raises(InternalError):
        run(ScriptedModel([InternalError("ours")]), fallback)
    assert fallback.requests == []


@pytest.mark.parametrize("error", [InvalidConfig("no library"), MissingApiKey("no key"), ValueError("odd")])
def test_other_errors_cause_a_fallback(error: Exception) -> None:
    assert run(ScriptedModel([error]), ScriptedModel(["x"])) == {"a": "x"}


def test_a_missing_api_key_is_not_retried() -> None:
    model = ScriptedModel([MissingApiKey("no key")], repeat_last=True)
    with pytest.raises(StepFailed) as failed:
        run(model, maxAttempts=3)
    assert failed.value.is_final
    assert len(model.requests) == 1
