"""The selection of chat models by name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from statewright.errors import InvalidConfig, MissingApiKey
from statewright.messages import Message
from statewright.models import ModelRequest, ScriptedModel
from statewright.workflow.states.resources.chat_models import ModelResolver, ModelSource, NamedModel, WorkflowModels

LOCAL = {"local": ModelSource("openai-chat:llama", base_url="http://localhost:1/v1", api_key="env:LOCAL_KEY")}


def workflow_models(models: Any = None, *, provider: str | None = None, default: str | None = None) -> WorkflowModels:
    return WorkflowModels(models, ModelResolver(LOCAL, provider), default)


def name_of(model: Any) -> str:
    assert isinstance(model, NamedModel)
    return model.name


def test_names_select_models_of_the_project_of_providers_and_the_default() -> None:
    assert name_of(workflow_models().find("local")) == "local"
    assert name_of(workflow_models().find("openai:gpt-5")) == "openai:gpt-5"
    assert name_of(workflow_models(default="local").find(None)) == "local"
    assert workflow_models().find("gpt-4.1") is None
    assert workflow_models().find(None) is None


def test_a_bare_name_belongs_to_the_default_provider_or_selects_the_default_model() -> None:
    assert name_of(workflow_models(provider="openai").find("gpt-4.1")) == "openai:gpt-4.1"
    assert name_of(workflow_models(default="local").find("gpt-4.1")) == "local"


def test_given_models_take_precedence() -> None:
    one, two, three = (ScriptedModel([]) for _ in range(3))
    models = workflow_models({"a": one, "fast": two, "default": three}, default="local")
    assert models.find("fast", owner="a").model is one  # pyright: ignore
    assert models.find("fast", owner="b").model is two  # pyright: ignore
    assert models.find("gpt-4.1", owner="b") is three
    assert workflow_models(one, default="local").find(None) is one


def test_the_id_of_an_assistant_is_not_a_model_name() -> None:
    assert workflow_models(provider="openai").find(None, owner="a") is None


def sent_name(model: Any, name: str | None) -> str | None:
    asyncio.run(model.complete(ModelRequest([Message("hi")], model=name)))
    return model.model.requests[-1].model if isinstance(model, NamedModel) else model.requests[-1].model


@pytest.mark.parametrize(
    ("key", "name", "expected"),
    [
        ("one", "gpt-4.1", "gpt-4.1"),
        ("one", "openai:gpt-5", None),
        ("one", "local", None),
        ("default", "gpt-4.1", "gpt-4.1"),
        ("gpt-4.1", "gpt-4.1", None),
    ],
)
def test_a_model_name_is_sent_only_to_a_model_that_may_know_it(key: str, name: str, expected: str | None) -> None:
    model = ScriptedModel(["x"], repeat_last=True)
    selected = workflow_models(model if key == "one" else {key: model}).find(name)
    assert sent_name(selected, name) == expected


def test_a_named_model_streams_and_connects_once() -> None:
    connected: list[ScriptedModel] = []

    def connect() -> ScriptedModel:
        connected.append(ScriptedModel(["a b"], repeat_last=True))
        return connected[-1]

    async def count_events() -> int:
        return len([event async for event in model.stream(ModelRequest([Message("hi")], model="x"))])

    model = NamedModel("x", connect)
    assert connected == []
    assert asyncio.run(count_events()) > 2
    assert sent_name(model, "x") is None
    assert len(connected) == 1


def test_the_same_name_returns_the_same_model() -> None:
    resolver = ModelResolver(LOCAL, "openai")
    assert resolver.find("gpt-5") is resolver.find("openai:gpt-5")
    assert resolver.find("") is None


def test_keys_are_read_when_a_model_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_KEY", raising=False)
    model: Any = workflow_models().find("local")
    with pytest.raises(MissingApiKey, match=r"Model 'local' of statewright\.toml takes api_key .* LOCAL_KEY"):
        _ = model.model
    monkeypatch.setenv("LOCAL_KEY", "k")
    assert model.model.name == "openai-chat:llama"


def test_invalid_models_are_rejected() -> None:
    for value in (5, {"a": object()}, "", "gpt-5"):
        with pytest.raises(Exception, match="model") as caught:
            workflow_models(value)
        assert isinstance(caught.value, InvalidConfig) or "has no provider" in str(caught.value)
