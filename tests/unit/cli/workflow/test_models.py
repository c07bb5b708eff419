"""What `--model` and `--base-url` mean."""

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
    ("given", "everybody", "by_name"),
    [
        (None, None, {}),
        (["openai:gpt-5"], "openai:gpt-5", {}),
        (["openai:gpt-5", "openai:gpt-5"], "openai:gpt-5", {}),
        (["a=openai:x", "b=llama"], None, {"a": "openai:x", "b": "llama"}),
        (["google:y", "a=openai:x"], "google:y", {"a": "openai:x"}),
        (["openai:ft=9"], "openai:ft=9", {}),
    ],
)
def test_what_is_for_everybody_and_what_for_one(
    given: list[str] | None, everybody: str | None, by_name: dict[str, str]
) -> None:
    models = read_models(given, None)
    assert (models.default, models.by_name) == (everybody, by_name)
    assert (models == NO_MODELS) == (given is None)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["openai:x", "openai:y"], "two default models"),
        (["a=openai:x", "a=openai:y"], "gives 'a' two models"),
        ([""], "names no model"),
        (["a="], "names no model"),
        (["=openai"], "names no model"),
    ],
)
def test_what_contradicts_itself_is_refused(given: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_models(given, None)


def test_the_words_lead_to_the_same_models() -> None:
    models = read_models(["google:y", "a=openai:x"], "http://127.0.0.1:1/v1")
    assert models.options == ("--model", "google:y", "--model", "a=openai:x", "--base-url", "http://127.0.0.1:1/v1")


def test_a_model_for_nobody_is_refused_with_who_there_is() -> None:
    with pytest.raises(UsageError, match=r"plannr=x is not used\. Did you mean 'planner'"):
        Models(by_name={"plannr": "x"}).check_names(["planner", "editor"], "Agents")


def test_an_address_without_a_model_is_refused() -> None:
    with pytest.raises(UsageError, match="Give --model MODEL too"):
        read_models(None, "http://127.0.0.1:9/v1")


def test_a_model_of_the_project_has_the_address_that_stands_there() -> None:
    source = ModelSource("openai-chat:llama", base_url="http://127.0.0.1:9/v1")
    project = Project(Path(), models={"local": source})
    assert getattr(NO_MODELS.connect("local", project), "name", None) == "openai-chat:llama"


@pytest.mark.parametrize(
    ("name", "said"),
    [("openai:gpt-5", "Set OPENAI_API_KEY"), ("opnai:gpt-5", "Did you mean 'openai'"), ("x", "provider")],
)
def test_what_cannot_be_connected_is_wrong_use(monkeypatch: pytest.MonkeyPatch, name: str, said: str) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(UsageError, match=said):
        NO_MODELS.connect(name)


def test_a_pinned_model_is_asked_whatever_model_the_request_names() -> None:
    model = ScriptedModel(["one", "two"])
    pinned = PinnedModel(model)

    async def ask() -> list[str]:
        request = ModelRequest([Message("hi")], model="gpt-4.1")
        whole = (await pinned.complete(request)).text
        streamed = [event async for event in pinned.stream(request)]
        assert isinstance(streamed[-1], ResponseFinished)
        return [whole, streamed[-1].response.text]

    assert asyncio.run(ask()) == ["one", "two"]
    assert [request.model for request in model.requests] == [None, None]
    assert pinned.name == "ScriptedModel"
