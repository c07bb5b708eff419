"""Models of workflows by their names, over HTTP: connected as files and projects say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.integration.workflow.conftest import Compile
from tests.provider_server import Answer, Call, Failure, ProviderServer

from statewright import Budget
from statewright.errors import BudgetExceeded, MissingApiKey, ModelError
from statewright.models import MessageChunk, ScriptedModel
from statewright.project import Project
from statewright.workflow.states import load_workflow
from statewright.workflow.states.resources.missing import find_missing_resources

ONE = """
assistants: [{{id: a, system_prompt: be brief{more}}}]
states: [{{id: s, assistant_id: a, task: work, retry_policy: {{initial_interval: 0, max_attempts: 3}},
  next: {{state_id: end}}}}]
"""


def one(**more: Any) -> str:
    return ONE.format(more="".join(f", {name}: {value}" for name, value in more.items()))


def kept(provider: ProviderServer, more: str = "") -> str:
    own = f'name = "openai-chat:llama"\nbase_url = "{provider.openai_url}"\napi_key = "env:LOCAL_KEY"'
    return f"[models.local]\n{own}\n{more}"


def add(a: int, b: int) -> int:
    return a + b


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOCAL_KEY", "local-key")


# -- models that the project knows


def test_a_model_of_the_project_is_asked_with_its_address_key_and_settings(
    provider: ProviderServer, flow: Compile
) -> None:
    provider.script(["fine"])
    toml = kept(provider, 'temperature = 0.5\nmax_tokens = 77\nheaders = {"x-own" = "env:LOCAL_KEY"}\n')
    assert flow(one(model="local"), toml).invoke({"input": "hi"})["result"] == "fine"
    (asked,) = provider.requests
    assert asked.path == "/v1/chat/completions"
    assert (asked.headers["authorization"], asked.headers["x-own"]) == ("Bearer local-key", "local-key")
    assert (asked.body["model"], asked.body["temperature"]) == ("llama", 0.5)
    assert 77 in (asked.body.get("max_tokens"), asked.body.get("max_completion_tokens"))


def test_the_usual_model_of_the_project_answers_where_none_is_named(
    provider: ProviderServer, project: Callable[[str], Project]
) -> None:
    provider.script(["fine", "summed up"])
    text = one().replace("assistants", "enable_summarization_node: true\nassistants")
    app = load_workflow(text).compile(project=project(kept(provider, '[defaults]\nmodel = "local"\n')))
    assert app.invoke({"input": "hi"})["result"] == "summed up"


def test_what_is_given_counts_before_what_files_say(provider: ProviderServer, flow: Compile) -> None:
    given = ScriptedModel(["given"])
    assert flow(one(model="local"), kept(provider), models=given).invoke({"input": "hi"})["result"] == "given"
    assert given.requests[0].model is None
    assert not provider.requests


def test_names_may_be_given_too(provider: ProviderServer, flow: Compile) -> None:
    provider.script(["fine", "fine"])
    for models in ("local", {"a": "local"}):
        app = flow(one(model="gpt-4.1"), kept(provider), models=models)
        assert app.invoke({"input": "hi"})["result"] == "fine"
    assert provider.requests[1].body["model"] == "llama"


def test_a_bare_name_is_asked_of_the_provider_of_the_project(
    provider: ProviderServer, flow: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", provider.openai_url)
    provider.script(["fine", "fine"])
    app = flow(one(model="gpt-4.1"), '[defaults]\nprovider = "openai-chat"\n')
    assert app.invoke({"input": "hi"})["result"] == "fine"
    assert flow(one(model="openai:gpt-5")).invoke({"input": "hi"})["result"] == "fine"
    assert [(asked.path, asked.body["model"]) for asked in provider.requests] == [
        ("/v1/chat/completions", "gpt-4.1"),
        ("/v1/responses", "gpt-5"),
    ]


# -- with tools


TOOLS = one(model="local", tools="[{name: add}]")
TWO = Answer(calls=[Call("add", {"a": 1, "b": 2}, "x1"), Call("add", '{"a": ', "x2")])


def test_tools_are_called_for_a_model_over_http(provider: ProviderServer, flow: Compile) -> None:
    provider.script([TWO, "three"])
    app = flow(TOOLS, kept(provider), tools={"add": add})
    assert app.invoke({"input": "hi"})["result"] == "three"
    results = [message for message in provider.requests[1].body["messages"] if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in results] == ["x1", "x2"]
    assert "3" in results[0]["content"]
    assert "are not a JSON object" in results[1]["content"]


def test_what_is_said_is_streamed(provider: ProviderServer, flow: Compile) -> None:
    provider.script([TWO, "It is three"])
    app = flow(TOOLS, kept(provider), tools={"add": add})
    heard = [message for message, _ in app.stream({"input": "hi"}, stream_mode="messages")]
    pieces = [message.text for message in heard if isinstance(message, MessageChunk) and message.text]
    assert "".join(pieces) == "It is three"
    assert len(pieces) > 1
    assert {message.tool_call_id for message in heard if message.role == "tool"} == {"x1", "x2"}


def test_a_model_without_tools_is_streamed_too(provider: ProviderServer, flow: Compile) -> None:
    provider.script(["It is three"])
    heard = [
        message
        for message, _ in flow(one(model="local"), kept(provider)).stream({"input": "hi"}, stream_mode="messages")
    ]
    assert "".join(message.text for message in heard) == "It is three"
    assert {message.name for message in heard} == {"s"}


@pytest.mark.parametrize("text", [TOOLS, one(model="local")])
def test_1_7_a_provider_that_fails_is_asked_again_as_the_state_says(
    text: str, provider: ProviderServer, flow: Compile
) -> None:
    provider.script([Failure(500, "oops"), Failure(429, "slow"), "fine"])
    assert flow(text, kept(provider), tools={"add": add}).invoke({"input": "hi"})["result"] == "fine"
    provider.script([Failure(500, "oops")] * 9)
    provider.requests.clear()
    with pytest.raises(ModelError):
        flow(text, kept(provider), tools={"add": add}).invoke({"input": "hi"})
    assert len(provider.requests) == 3


def test_use_counts_once(provider: ProviderServer, flow: Compile) -> None:
    provider.script([Answer("fine", input_tokens=60, output_tokens=20)] * 4)
    text = """
assistants: [{id: a, system_prompt: p, model: local}]
states:
- {id: s, assistant_id: a, next: {state_id: e}}
- {id: e, assistant_id: a, next: {state_id: end}}
"""
    app = flow(text, kept(provider))
    assert app.invoke({"input": "hi"}, budget=Budget(max_tokens=159))["result"] == "fine"
    with pytest.raises(BudgetExceeded):
        app.invoke({"input": "hi"}, budget=Budget(max_tokens=70))


# -- keys that are missing


LATER = """
tools: [{id: t, tool: note}]
assistants: [{id: a, system_prompt: p, model: "anthropic:claude-x"}]
states:
- {id: first, tool_id: t, next: {state_id: second}}
- {id: second, assistant_id: a, next: {state_id: end}}
"""


def test_a_missing_key_is_found_before_anything_is_done(flow: Compile) -> None:
    noted: list[int] = []

    def note() -> str:
        noted.append(1)
        return "noted"

    app = flow(LATER, tools={"note": note})
    with pytest.raises(MissingApiKey, match="ANTHROPIC_API_KEY"):
        app.invoke({"input": "hi"})
    assert noted == []
    scripted = flow(LATER, tools={"note": note}, script={"second": "no model is asked"})
    assert scripted.invoke({"input": "hi"})["result"] == "no model is asked"


def test_a_name_that_is_given_is_connected_at_once(flow: Compile) -> None:
    with pytest.raises(MissingApiKey, match="OPENAI_API_KEY"):
        flow(one(), models="openai:gpt-5")


def test_a_look_at_the_file_tells_of_keys(project: Callable[[str], Project], monkeypatch: pytest.MonkeyPatch) -> None:
    definition = load_workflow(LATER).definition
    (found,) = [one for one in find_missing_resources(definition, project("")) if "KEY" in one.message]
    assert "'anthropic:claude-x' needs an API key" in found.message
    assert found.line == 3
    monkeypatch.delenv("LOCAL_KEY")
    toml = '[defaults]\nmodel = "local"\n[models.local]\nname = "openai:x"\napi_key = "env:LOCAL_KEY"\n'
    (found,) = find_missing_resources(load_workflow(one()).definition, project(toml))
    assert "takes api_key from the environment variable LOCAL_KEY" in found.message
