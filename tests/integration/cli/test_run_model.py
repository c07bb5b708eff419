"""`run`, `resume` and `chat` with models of a provider, asked over HTTP."""

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


def asked(provider: ProviderServer) -> list[str]:
    return [one.body["model"] for one in provider.requests]


def test_a_workflow_is_run_and_resumed_with_a_model_by_name(statewright: Statewright, provider: ProviderServer) -> None:
    models = ("--model", "openai-chat:x", "--base-url", provider.openai_url)
    begun = statewright("run", "flow.yaml", "--input", "hi", "--thread", "t", *models)
    assert (begun.returncode, begun.stdout) == (3, "first\n")
    assert f"--answer TEXT --model openai-chat:x --base-url {provider.openai_url}" in begun.stderr
    ended = statewright("resume", "t", "flow.yaml", "--answer", "yes", *models)
    assert (ended.returncode, ended.stdout) == (0, "second\n")
    assert asked(provider) == ["x", "x"]


def test_each_assistant_can_have_a_model_of_its_own(statewright: Statewright, provider: ProviderServer) -> None:
    given = ("--model", "a=one", "--model", "b=openai-chat:two", "--base-url", provider.openai_url)
    statewright("run", "flow.yaml", "--input", "hi", "--thread", "t", *given)
    assert statewright("resume", "t", "flow.yaml", *given).returncode == 0
    assert asked(provider) == ["one", "two"]


def test_the_project_names_a_model_for_those_without_one(
    statewright: Statewright, provider: ProviderServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "statewright.toml").write_text('[defaults]\nmodel = "openai-chat:usual"\n', encoding="utf-8")
    monkeypatch.setenv("OPENAI_BASE_URL", provider.openai_url)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    done = statewright("run", "flow.yaml", "--input", "hi")
    assert (done.returncode, done.stdout) == (3, "first\n")
    assert asked(provider) == ["usual"]
    assert provider.requests[0].headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize("name", ["agent", "team"])
def test_agents_and_networks_are_run_with_a_model_by_name(
    statewright: Statewright, provider: ProviderServer, name: str
) -> None:
    models = ("--model", "openai-chat:x", "--base-url", provider.openai_url)
    done = statewright("run", f"crew.py:{name}", "--input", "hi", *models)
    assert (done.returncode, done.stdout, done.stderr) == (0, "first\n", "")
    whole = statewright("run", f"crew.py:{name}", "--input", "hi", "--json", *models)
    assert [turn["agent_name"] for turn in json.loads(whole.stdout)["turns"]] == ["user", "helper"]


def test_a_function_makes_a_graph_of_the_model(statewright: Statewright, provider: ProviderServer) -> None:
    given = ("--input", '{"messages": ["hi"]}', "--model", "x", "--base-url", provider.openai_url)
    done = statewright("run", "crew:built", *given)
    assert json.loads(done.stdout)["messages"][-1]["content"] == "first"


@pytest.mark.parametrize(
    ("command", "target"),
    [
        *(("run", target) for target in ("flow.yaml", "crew.py:agent", "crew.py:team", "crew.py:built")),
        *(("chat", target) for target in ("flow.yaml", "crew.py:agent", "crew.py:team", "crew.py:built")),
    ],
)
def test_a_missing_key_is_one_line_before_anything_is_run(statewright: Statewright, command: str, target: str) -> None:
    given = ("--input", "hi") if command == "run" else ()
    done = statewright(command, target, *given, "--model", "openai:gpt-5", said="hi\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "Error: Model 'openai:gpt-5' needs a key, and there is none. Set OPENAI_API_KEY in the environment, or pass "
        "api_key. [SW-missing-api-key]\n"
    )


def test_a_conversation_streams_from_the_provider(statewright: Statewright, provider: ProviderServer) -> None:
    given = ("--model", "openai-chat:x", "--base-url", provider.openai_url)
    done = statewright("chat", "crew.py:agent", *given, said="hi\nand more\n")
    assert (done.returncode, done.stdout) == (0, "first\nsecond\n")
    assert "12 tokens in, 5 out" in done.stderr
    assert all(one.streamed for one in provider.requests)


def test_a_provider_that_refuses_is_one_line_and_the_conversation_goes_on(
    statewright: Statewright, provider: ProviderServer
) -> None:
    provider.script([Failure(400, "that is too much"), "better"])
    given = ("-q", "--model", "openai-chat:x", "--base-url", provider.openai_url)
    done = statewright("chat", "crew.py:agent", *given, said="hi\nless\n")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (0, "better\n", 1)
    assert "answered with status 400: that is too much" in done.stderr


def test_a_workflow_is_talked_with_turn_by_turn(statewright: Statewright, provider: ProviderServer) -> None:
    given = ("-q", "--thread", "t", "--model", "openai-chat:x", "--base-url", provider.openai_url)
    first = statewright("chat", "flow.yaml", *given, said="hi\nan answer\nagain\n")
    assert (first.returncode, first.stdout) == (3, "first\nsecond\nthird\n")
    second = statewright("chat", "flow.yaml", *given, said="another answer\n")
    assert (second.returncode, second.stdout) == (0, "fourth\n")
    texts = [one.body["messages"][-1]["content"] for one in provider.requests]
    assert texts == ["First hi", "Then first", "First again", "Then third"]
