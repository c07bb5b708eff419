"""The options `--model` and `--base-url`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from statewright.cli.console.failure import UsageError
from statewright.cli.workflow.models import NO_MODELS, Models, PinnedModel, read_models
from statewright.messages import Message
from statewright.models import ModelRequest, ResponseFinished, ScriptedModel
from statewright.project import Project
from statewright.workflow.states.resources.chat_models import ModelSource


@pytest.mark.parametrize(
    ("values", "default", "by_name"),
    [
        (None, None, {}),
        (["openai:gpt-5"], "openai:gpt-5", {}),
        (["openai:gpt-5", "openai:gpt-5"], "openai:gpt-5", {}),
        (["a=openai:x", "b=llama"], None, {"a": "openai:x", "b": "llama"}),
        (["google:y", "a=openai:x"], "google:y", {"a": "openai:x"}),
        (["openai:ft=9"], "openai:ft=9", {}),
    ],
)
def test_default_models_and_models_by_name(
    values: list[str] | None, default: str | None, by_name: dict[str, str]
) -> None:
    models = read_models(values, None)
    assert (models.default, models.by_name) == (default, by_name)
    assert (models == NO_MODELS) == (values is None)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["openai:x", "openai:y"], "two default models"),
        (["a=openai:x", "a=openai:y"], "two models for 'a'"),
        ([""], "does not name a model"),
        (["a="], "does not name a model"),
        (["=openai"], "does not name a model"),
    ],
)
def test_contradictory_models_are_refused(values: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_models(values, None)


def test_models_as_options() -> None:
    models = read_models(["google:y", "a=openai:x"], "http://127.0.0.1:1/v1")
    assert models.args == ("--model", "google:y", "--model", "a=openai:x", "--base-url", "http://127.0.0.1:1/v1")


def test_a_model_for_an_unknown_agent_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match=r"plannr=x: 'plannr' does not exist\. Did you mean 'planner'"):
        Models(by_name={"plannr": "x"}).check_names(["planner", "editor"], "Agents")


def test_a_base_url_without_a_model_is_refused() -> None:
    with pytest.raises(UsageError, match="Pass --model MODEL too"):
        read_models(None, "http://127.0.0.1:9/v1")


def test_a_model_of_the_project_has_its_base_url() -> None:
    source = ModelSource("openai-chat:llama", base_url="http://127.0.0.1:9/v1")
    project = Project(Path(), models={"local": source})
    assert getattr(NO_MODELS.connect("local", project), "name", None) == "openai-chat:llama"


@pytest.mark.parametrize(
    ("name", "message"),
    [("openai:gpt-5", "Set OPENAI_API_KEY"), ("opnai:gpt-5", "Did you mean 'openai'"), ("x", "provider")],
)
def test_models_that_cannot_be_connected_are_usage_errors(
    monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(UsageError, match=message):
        NO_MODELS.connect(name)


def test_a_pinned_model_ignores_the_model_of_the_request() -> None:
    model = ScriptedModel(["one", "two"])
    pinned = PinnedModel(model)

    async def ask() -> list[str]:
        request = ModelRequest([Message("hi")], model="gpt-4.1")
        complete = (await pinned.complete(request)).text
        streamed = [event async for event in pinned.stream(request)]
        assert isinstance(streamed[-1], ResponseFinished)
        return [complete, streamed[-1].response.text]

    assert asyncio.run(ask()) == ["one", "two"]
    assert [request.model for request in model.requests] == [None, None]
    assert pinned.name == "ScriptedModel"
