"""`run`, `resume` and `chat` with models of a provider, called over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.integration.cli.conftest import Statewright
from tests.provider_server import Failure, ProviderServer

FLOW = """
enable_summarization_node: false
assistants: [{id: a, system_prompt: A}, {id: b, system_prompt: B, model: gpt-4.1}]
states:
- {id: one, assistant_id: a, task: "First {{task}}", next: {state_id: two}}
- {id: two, assistant_id: b, interrupt_before: true, task: "Then {{task}}", next: {state_id: end}}
"""
CREW = """
from statewright.agents import Agent, Network, create_agent

agent = Agent("helper", system="Help.")
team = Network("team", agents=[agent], router=lambda call_count: "helper" if call_count == 0 else None)

def built(model):
    return create_agent(model)
"""


@pytest.fixture(autouse=True)
def _files(folder: Path) -> None:
    (folder / "flow.yaml").write_text(FLOW, encoding="utf-8")
    (folder / "crew.py").write_text(CREW, encoding="utf-8")


def requested_models(provider: ProviderServer) -> list[str]:
    return [request.body["model"] for request in provider.requests]


def test_a_workflow_runs_and_resumes_with_a_model_by_name(statewright: Statewright, provider: ProviderServer) -> None:
    models = ("--model", "openai-chat:x", "--base-url", provider.openai_url)
    first = statewright("run", "flow.yaml", "--input", "hi", "--thread", "t", *models)
    assert (first.returncode, first.stdout) == (3, "first\n")
    assert f"--answer TEXT --model openai-chat:x --base-url {provider.openai_url}" in first.stderr
    second = statewright("resume", "t", "flow.yaml", "--answer", "yes", *models)
    assert (second.returncode, second.stdout) == (0, "second\n")
    assert requested_models(provider) == ["x", "x"]


def test_each_assistant_can_have_its_own_model(statewright: Statewright, provider: ProviderServer) -> None:
    options = ("--model", "a=one", "--model", "b=openai-chat:two", "--base-url", provider.openai_url)
    statewright("run", "flow.yaml", "--input", "hi", "--thread", "t", *options)
    assert statewright("resume", "t", "flow.yaml", *options).returncode == 0
    assert requested_models(provider) == ["one", "two"]


def test_assistants_without_a_model_use_the_model_of_the_project(
    statewright: Statewright, provider: ProviderServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "statewright.toml").write_text('[defaults]\nmodel = "openai-chat:usual"\n', encoding="utf-8")
    monkeypatch.setenv("OPENAI_BASE_URL", provider.openai_url)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    result = statewright("run", "flow.yaml", "--input", "hi")
    assert (result.returncode, result.stdout) == (3, "first\n")
    assert requested_models(provider) == ["usual"]
    assert provider.requests[0].headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize("name", ["agent", "team"])
def test_agents_and_networks_run_with_a_model_by_name(
    statewright: Statewright, provider: ProviderServer, name: str
) -> None:
    models = ("--model", "openai-chat:x", "--base-url", provider.openai_url)
    result = statewright("run", f"crew.py:{name}", "--input", "hi", *models)
    assert (result.returncode, result.stdout, result.stderr) == (0, "first\n", "")
    as_json = statewright("run", f"crew.py:{name}", "--input", "hi", "--json", *models)
    assert [turn["agent_name"] for turn in json.loads(as_json.stdout)["turns"]] == ["user", "helper"]


def test_a_function_builds_a_graph_with_the_model(statewright: Statewright, provider: ProviderServer) -> None:
    options = ("--input", '{"messages": ["hi"]}', "--model", "x", "--base-url", provider.openai_url)
    result = statewright("run", "crew:built", *options)
    assert json.loads(result.stdout)["messages"][-1]["content"] == "first"


@pytest.mark.parametrize(
    ("command", "target"),
    [
        *(("run", target) for target in ("flow.yaml", "crew.py:agent", "crew.py:team", "crew.py:built")),
        *(("chat", target) for target in ("flow.yaml", "crew.py:agent", "crew.py:team", "crew.py:built")),
    ],
)
def test_a_missing_key_is_reported_in_one_line_before_anything_runs(
    statewright: Statewright, command: str, target: str
) -> None:
    options = ("--input", "hi") if command == "run" else ()
    result = statewright(command, target, *options, "--model", "openai:gpt-5", stdin="hi\n")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "Error: Model 'openai:gpt-5' needs an API key, but none was found. Set OPENAI_API_KEY in the environment, or "
        "pass api_key. [SW-missing-api-key]\n"
    )


def test_a_conversation_streams_from_the_provider(statewright: Statewright, provider: ProviderServer) -> None:
    options = ("--model", "openai-chat:x", "--base-url", provider.openai_url)
    result = statewright("chat", "crew.py:agent", *options, stdin="hi\nand more\n")
    assert (result.returncode, result.stdout) == (0, "first\nsecond\n")
    assert "12 tokens in, 5 out" in result.stderr
    assert all(request.streamed for request in provider.requests)


def test_an_error_of_the_provider_is_reported_in_one_line_and_the_conversation_continues(
    statewright: Statewright, provider: ProviderServer
) -> None:
    provider.script([Failure(400, "that is too much"), "better"])
    options = ("-q", "--model", "openai-chat:x", "--base-url", provider.openai_url)
    result = statewright("chat", "crew.py:agent", *options, stdin="hi\nless\n")
    assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (0, "better\n", 1)
    assert "answered with status 400: that is too much" in result.stderr


def test_a_conversation_with_a_workflow_has_several_turns(statewright: Statewright, provider: ProviderServer) -> None:
    options = ("-q", "--thread", "t", "--model", "openai-chat:x", "--base-url", provider.openai_url)
    first = statewright("chat", "flow.yaml", *options, stdin="hi\nan answer\nagain\n")
    assert (first.returncode, first.stdout) == (3, "first\nsecond\nthird\n")
    second = statewright("chat", "flow.yaml", *options, stdin="another answer\n")
    assert (second.returncode, second.stdout) == (0, "fourth\n")
    texts = [request.body["messages"][-1]["content"] for request in provider.requests]
    assert texts == ["First hi", "Then first", "First again", "Then third"]
