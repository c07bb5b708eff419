"""Who answers for whom, by names."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from statewright.errors import InvalidConfig, MissingApiKey
from statewright.messages import Message
from statewright.models import ModelRequest, ScriptedModel
from statewright.workflow.states.resources.chat_models import ModelNames, ModelSource, NamedModel, WorkflowModels

LOCAL = {"local": ModelSource("openai-chat:llama", base_url="http://localhost:1/v1", api_key="env:LOCAL_KEY")}


def models(given: Any = None, *, provider: str | None = None, usual: str | None = None) -> WorkflowModels:
    return WorkflowModels(given, ModelNames(LOCAL, provider), usual)


def name_of(model: Any) -> str:
    assert isinstance(model, NamedModel)
    return model.name


def test_files_name_models_of_the_project_of_providers_and_the_usual_one() -> None:
    assert name_of(models().find("local")) == "local"
    assert name_of(models().find("openai:gpt-5")) == "openai:gpt-5"
    assert name_of(models(usual="local").find(None)) == "local"
    assert models().find("gpt-4.1") is None
    assert models().find(None) is None


def test_a_bare_name_is_of_the_provider_of_the_project_else_the_usual_one_answers() -> None:
    assert name_of(models(provider="openai").find("gpt-4.1")) == "openai:gpt-4.1"
    assert name_of(models(usual="local").find("gpt-4.1")) == "local"


def test_what_is_given_counts_most() -> None:
    one, two, three = (ScriptedModel([]) for _ in range(3))
    found = models({"a": one, "fast": two, "default": three}, usual="local")
    assert found.find("fast", owner="a").model is one  # pyright: ignore
    assert found.find("fast", owner="b").model is two  # pyright: ignore
    assert found.find("gpt-4.1", owner="b") is three
    assert models(one, usual="local").find(None) is one


def test_an_id_of_an_assistant_is_no_name_of_a_model() -> None:
    assert models(provider="openai").find(None, owner="a") is None


def asked(model: Any, name: str | None) -> str | None:
    asyncio.run(model.complete(ModelRequest([Message("hi")], model=name)))
    return model.model.requests[-1].model if isinstance(model, NamedModel) else model.requests[-1].model


@pytest.mark.parametrize(
    ("given", "name", "sent"),
    [
        ("one", "gpt-4.1", "gpt-4.1"),
        ("one", "openai:gpt-5", None),
        ("one", "local", None),
        ("default", "gpt-4.1", "gpt-4.1"),
        ("gpt-4.1", "gpt-4.1", None),
    ],
)
def test_a_name_is_sent_to_a_model_that_may_know_it_and_to_no_other(given: str, name: str, sent: str | None) -> None:
    model = ScriptedModel(["x"], repeat_last=True)
    found = models(model if given == "one" else {given: model}).find(name)
    assert asked(found, name) == sent


def test_a_named_model_streams_and_is_connected_once() -> None:
    made: list[ScriptedModel] = []

    def connect() -> ScriptedModel:
        made.append(ScriptedModel(["a b"], repeat_last=True))
        return made[-1]

    async def heard() -> int:
        return len([one async for one in model.stream(ModelRequest([Message("hi")], model="x"))])

    model = NamedModel("x", connect)
    assert made == []
    assert asyncio.run(heard()) > 2
    assert asked(model, "x") is None
    assert len(made) == 1


def test_the_same_name_gives_the_same_model() -> None:
    names = ModelNames(LOCAL, "openai")
    assert names.find("gpt-5") is names.find("openai:gpt-5")
    assert names.find("") is None


def test_keys_are_looked_up_when_a_model_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_KEY", raising=False)
    found: Any = models().find("local")
    with pytest.raises(MissingApiKey, match=r"Model 'local' of statewright\.toml takes api_key .* LOCAL_KEY"):
        _ = found.model
    monkeypatch.setenv("LOCAL_KEY", "k")
    assert found.model.name == "openai-chat:llama"


def test_what_is_no_model_is_refused_when_it_is_given() -> None:
    for wrong in (5, {"a": object()}, "", "gpt-5"):
        with pytest.raises(Exception, match="model") as caught:
            models(wrong)
        assert isinstance(caught.value, InvalidConfig) or "has no provider" in str(caught.value)
