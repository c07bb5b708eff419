"""Models of assistants from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from statewright.cli.console.failure import UsageError
from statewright.cli.workflow.models import NO_MODELS, Models, PinnedModel, connect_assistant_models
from statewright.project import Project
from statewright.workflow.states import load_workflow

FLOW = """
assistants: [{id: a, system_prompt: A}, {id: b, system_prompt: B, model: gpt-4.1}]
states:
- {id: one, assistant_id: a, task: x, next: {state_id: two}}
- {id: two, assistant_id: b, task: x, next: {state_id: end}}
"""
URL = "http://127.0.0.1:9/v1"


def names(models: Models) -> dict[str, str]:
    connected = connect_assistant_models(load_workflow(FLOW).definition, Project(Path()), models) or {}
    assert all(isinstance(model, PinnedModel) for model in connected.values())
    return {key: str(getattr(model, "name", "")) for key, model in connected.items()}


def test_one_model_for_all_assistants() -> None:
    assert names(Models("openai-chat:x", base_url=URL)) == {"default": "openai-chat:x"}


def test_another_model_for_one_assistant() -> None:
    models = Models("openai-chat:x", {"b": "openai-chat:y"}, URL)
    assert names(models) == {"default": "openai-chat:x", "b": "openai-chat:y"}


def test_without_models_the_workflow_uses_its_own() -> None:
    assert connect_assistant_models(load_workflow(FLOW).definition, Project(Path()), NO_MODELS) is None


def test_a_model_for_an_assistant_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="Assistants: a, b"):
        names(Models(by_name={"c": "openai-chat:y"}, base_url=URL))


def test_a_missing_key_is_a_usage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        names(Models("openai:gpt-5"))
