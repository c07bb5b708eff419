"""The option --model of `statewright dev` replaces every model that is named in files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.cli_server import PATIENCE, serving
from tests.provider_server import ProviderServer

from statewright.client import Client

STATES = """
enable_summarization_node: false
assistants: [{id: a, system_prompt: A, model: "openai:gpt-5"}]
states:
- {id: one, assistant_id: a, task: "First {{task}}", next: {state_id: end}}
"""
STEPS = {
    "name": "draft",
    "version": "1",
    "steps": [
        {
            "name": "write",
            "type": "llm",
            "model": "claude-opus-5",
            "messages": [{"role": "user", "content": "Write to {{input.name}}"}],
            "outputKey": "text",
        }
    ],
}
CREW = """
from statewright.agents import Agent, create_agent

helper = Agent("helper", system="Help.")

def built(model):
    return create_agent(model)
"""


@pytest.fixture
def provider() -> Iterator[ProviderServer]:
    with ProviderServer(["fine"], repeat_last=True) as server:
        yield server


@pytest.fixture
def url(tmp_path: Path, provider: ProviderServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server with a state machine, a definition of steps and agents, which all call models."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "one.yaml").write_text(STATES, encoding="utf-8")
    (tmp_path / "draft.json").write_text(json.dumps(STEPS), encoding="utf-8")
    (tmp_path / "crew.py").write_text(CREW, encoding="utf-8")
    (tmp_path / "statewright.toml").write_text(
        '[graphs]\none = "one.yaml"\ndraft = "draft.json"\nhelper = "crew:helper"\nbuilt = "crew.py:built"\n',
        encoding="utf-8",
    )
    words = ("--model", "openai-chat:mine", "--base-url", provider.openai_url)
    with serving(tmp_path, "dev", "--port", "0", "--no-reload", *words) as server:
        yield server.url


def test_the_model_of_the_command_line_replaces_all_models_in_files(url: str, provider: ProviderServer) -> None:
    with Client(url, timeout=PATIENCE) as client:
        assert client.runs.start_and_wait("one", {"input": "hi"}).output["result"] == "fine"
        assert client.runs.start_and_wait("draft", {"name": "Ada"}).output["text"] == "fine"
        for agent in ("helper", "built"):
            run = client.runs.start_and_wait(agent, {"messages": [{"role": "user", "content": "hi"}]})
            assert (run.status, run.error) == ("completed", None)
    assert [request.body["model"] for request in provider.requests] == ["mine"] * 4
