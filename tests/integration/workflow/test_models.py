"""Models that workflows name, connected over HTTP as the files and the project specify."""

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

ONE_STATE = """
assistants: [{{id: a, system_prompt: be brief{more}}}]
states: [{{id: s, assistant_id: a, task: work, retry_policy: {{initial_interval: 0, max_attempts: 3}},
  next: {{state_id: end}}}}]
"""


def one_state(**more: Any) -> str:
    return ONE_STATE.format(more="".join(f", {name}: {value}" for name, value in more.items()))


def project_with_model(provider: ProviderServer, more: str = "") -> str:
    local = f'name = "openai-chat:llama"\nbase_url = "{provider.openai_url}"\napi_key = "env:LOCAL_KEY"'
    return f"[models.local]\n{local}\n{more}"


def add(a: int, b: int) -> int:
    return a + b


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOCAL_KEY", "local-key")


# -- models of the project


def test_a_model_of_the_project_uses_its_url_key_and_settings(provider: ProviderServer, flow: Compile) -> None:
    provider.script(["fine"])
    toml = project_with_model(provider, 'temperature = 0.5\nmax_tokens = 77\nheaders = {"x-own" = "env:LOCAL_KEY"}\n')
    assert flow(one_state(model="local"), toml).invoke({"input": "hi"})["result"] == "fine"
    (request,) = provider.requests
    assert request.path == "/v1/chat/completions"
    assert (request.headers["authorization"], request.headers["x-own"]) == ("Bearer local-key", "local-key")
    assert (request.body["model"], request.body["temperature"]) == ("llama", 0.5)
    assert 77 in (request.body.get("max_tokens"), request.body.get("max_completion_tokens"))


def test_the_default_model_of_the_project_is_used(provider: ProviderServer, project: Callable[[str], Project]) -> None:
    provider.script(["fine", "a summary"])
    text = one_state().replace("assistants", "enable_summarization_node: true\nassistants")
    app = load_workflow(text).compile(project=project(project_with_model(provider, '[defaults]\nmodel = "local"\n')))
    assert app.invoke({"input": "hi"})["result"] == "a summary"


def test_a_passed_model_takes_precedence_over_files(provider: ProviderServer, flow: Compile) -> None:
    passed = ScriptedModel(["fine"])
    assert (
        flow(one_state(model="local"), project_with_model(provider), models=passed).invoke({"input": "hi"})["result"]
        == "fine"
    )
    assert passed.requests[0].model is None
    assert not provider.requests


def test_models_can_be_passed_by_name(provider: ProviderServer, flow: Compile) -> None:
    provider.script(["fine", "fine"])
    for models in ("local", {"a": "local"}):
        app = flow(one_state(model="gpt-4.1"), project_with_model(provider), models=models)
        assert app.invoke({"input": "hi"})["result"] == "fine"
    assert provider.requests[1].body["model"] == "llama"


def test_a_bare_name_uses_the_default_provider_of_the_project(
    provider: ProviderServer, flow: Compile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", provider.openai_url)
    provider.script(["fine", "fine"])
    app = flow(one_state(model="gpt-4.1"), '[defaults]\nprovider = "openai-chat"\n')
    assert app.invoke({"input": "hi"})["result"] == "fine"
    assert flow(one_state(model="openai:gpt-5")).invoke({"input": "hi"})["result"] == "fine"
    assert [(request.path, request.body["model"]) for request in provider.requests] == [
        ("/v1/chat/completions", "gpt-4.1"),
        ("/v1/responses", "gpt-5"),
    ]


# -- with tools


TOOLS = one_state(model="local", tools="[{name: add}]")
TWO_CALLS = Answer(calls=[Call("add", {"a": 1, "b": 2}, "x1"), Call("add", '{"a": ', "x2")])


def test_a_model_over_http_calls_tools(provider: ProviderServer, flow: Compile) -> None:
    provider.script([TWO_CALLS, "three"])
    app = flow(TOOLS, project_with_model(provider), tools={"add": add})
    assert app.invoke({"input": "hi"})["result"] == "three"
    results = [message for message in provider.requests[1].body["messages"] if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in results] == ["x1", "x2"]
    assert "3" in results[0]["content"]
    assert "are not a JSON object" in results[1]["content"]


def test_text_and_tool_results_are_streamed(provider: ProviderServer, flow: Compile) -> None:
    provider.script([TWO_CALLS, "It is three"])
    app = flow(TOOLS, project_with_model(provider), tools={"add": add})
    messages = [message for message, _ in app.stream({"input": "hi"}, stream_mode="messages")]
    pieces = [message.text for message in messages if isinstance(message, MessageChunk) and message.text]
    assert "".join(pieces) == "It is three"
    assert len(pieces) > 1
    assert {message.tool_call_id for message in messages if message.role == "tool"} == {"x1", "x2"}


def test_a_model_without_tools_is_streamed(provider: ProviderServer, flow: Compile) -> None:
    provider.script(["It is three"])
    messages = [
        message
        for message, _ in flow(one_state(model="local"), project_with_model(provider)).stream(
            {"input": "hi"}, stream_mode="messages"
        )
    ]
    assert "".join(message.text for message in messages) == "It is three"
    assert {message.name for message in messages} == {"s"}


@pytest.mark.parametrize("text", [TOOLS, one_state(model="local")])
def test_1_7_requests_are_retried_by_the_policy_of_the_state(
    text: str, provider: ProviderServer, flow: Compile
) -> None:
    provider.script([Failure(500, "oops"), Failure(429, "slow"), "fine"])
    assert flow(text, project_with_model(provider), tools={"add": add}).invoke({"input": "hi"})["result"] == "fine"
    provider.script([Failure(500, "oops")] * 9)
    provider.requests.clear()
    with pytest.raises(ModelError):
        flow(text, project_with_model(provider), tools={"add": add}).invoke({"input": "hi"})
    assert len(provider.requests) == 3


def test_usage_is_counted_once(provider: ProviderServer, flow: Compile) -> None:
    provider.script([Answer("fine", input_tokens=60, output_tokens=20)] * 4)
    text = """
assistants: [{id: a, system_prompt: p, model: local}]
states:
- {id: s, assistant_id: a, next: {state_id: e}}
- {id: e, assistant_id: a, next: {state_id: end}}
"""
    app = flow(text, project_with_model(provider))
    assert app.invoke({"input": "hi"}, budget=Budget(max_tokens=159))["result"] == "fine"
    with pytest.raises(BudgetExceeded):
        app.invoke({"input": "hi"}, budget=Budget(max_tokens=70))


# -- missing keys


MODEL_IN_SECOND_STATE = """
tools: [{id: t, tool: note}]
assistants: [{id: a, system_prompt: p, model: "anthropic:claude-x"}]
states:
- {id: first, tool_id: t, next: {state_id: second}}
- {id: second, assistant_id: a, next: {state_id: end}}
"""


def test_a_missing_key_is_reported_before_the_first_state_runs(flow: Compile) -> None:
    calls: list[int] = []

    def note() -> str:
        calls.append(1)
        return "noted"

    app = flow(MODEL_IN_SECOND_STATE, tools={"note": note})
    with pytest.raises(MissingApiKey, match="ANTHROPIC_API_KEY"):
        app.invoke({"input": "hi"})
    assert calls == []
    scripted = flow(MODEL_IN_SECOND_STATE, tools={"note": note}, script={"second": "scripted"})
    assert scripted.invoke({"input": "hi"})["result"] == "scripted"


def test_a_passed_name_is_connected_at_once(flow: Compile) -> None:
    with pytest.raises(MissingApiKey, match="OPENAI_API_KEY"):
        flow(one_state(), models="openai:gpt-5")


def test_missing_resources_include_keys(project: Callable[[str], Project], monkeypatch: pytest.MonkeyPatch) -> None:
    definition = load_workflow(MODEL_IN_SECOND_STATE).definition
    (missing,) = [item for item in find_missing_resources(definition, project("")) if "KEY" in item.message]
    assert "'anthropic:claude-x' needs an API key" in missing.message
    assert missing.line == 3
    monkeypatch.delenv("LOCAL_KEY")
    toml = '[defaults]\nmodel = "local"\n[models.local]\nname = "openai:x"\napi_key = "env:LOCAL_KEY"\n'
    (missing,) = find_missing_resources(load_workflow(one_state()).definition, project(toml))
    assert "takes api_key from the environment variable LOCAL_KEY" in missing.message
