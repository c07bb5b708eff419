"""Agents and networks as targets, and their models."""

from __future__ import annotations

from pathlib import Path

import pytest

from statewright.agents import Agent, Network
from statewright.cli.console.failure import UsageError
from statewright.cli.workflow.agents import prepare_network
from statewright.cli.workflow.models import NO_MODELS, Models
from statewright.models import ScriptedModel

FILE = Path("agents.py")
MODELS = Models("openai-chat:x", base_url="http://127.0.0.1:9/v1")


@pytest.fixture(autouse=True)
def _isolated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in an empty folder without API keys."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def team(*agents: Agent, default_model: object = None) -> Network[object]:
    return Network("team", agents=agents, router=lambda: None, default_model=default_model)


def test_an_agent_becomes_a_network() -> None:
    agent = Agent("helper", model=ScriptedModel(["hi"]))
    assert prepare_network(agent, NO_MODELS, FILE).agents == {"helper": agent}


@pytest.mark.parametrize("models", [MODELS, Models(by_name={"helper": "openai-chat:x"}, base_url=MODELS.base_url)])
def test_an_agent_gets_the_model_of_the_command_line(models: Models) -> None:
    prepared = prepare_network(Agent("helper", model=ScriptedModel([])), models, FILE).agents["helper"]
    assert prepared.model.name == "openai-chat:x"


def test_an_agent_without_a_model_is_refused_except_for_inspection() -> None:
    agent = Agent("helper")
    assert prepare_network(agent, None, FILE).agents["helper"] is agent
    with pytest.raises(UsageError, match=r"'helper' has no model\. .*--model"):
        prepare_network(agent, NO_MODELS, FILE)


def test_the_default_model_of_the_project_is_used() -> None:
    Path("statewright.toml").write_text('[defaults]\nmodel = "openai:gpt-5"\n', encoding="utf-8")
    with pytest.raises(UsageError, match="'openai:gpt-5' needs an API key"):
        prepare_network(Agent("helper"), NO_MODELS, FILE)


@pytest.mark.parametrize("target", [Agent("helper", model="openai:gpt-5"), team(Agent("a", model="openai:gpt-5"))])
def test_a_missing_key_is_reported_before_the_run(target: Agent | Network[object]) -> None:
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        prepare_network(target, NO_MODELS, FILE)


def test_the_agents_of_a_network_stay_the_same_and_use_the_model_of_the_command_line() -> None:
    network = team(Agent("a"), Agent("b", model=ScriptedModel([])), default_model=ScriptedModel([]))
    prepared = prepare_network(network, MODELS, FILE)
    assert prepared.agents["a"] is network.agents["a"]
    used = [prepared.model_for(agent) for agent in prepared.agents.values()]
    assert [getattr(model, "name", None) for model in used] == ["openai-chat:x", "openai-chat:x"]
    assert network.model_for(network.agents["a"]) is None


@pytest.mark.parametrize(
    ("models", "message"),
    [(NO_MODELS, "Agent 'a' of network 'team' has no model"), (Models(by_name={"b": "x"}), "Agents: a")],
)
def test_a_network_without_suitable_models_is_refused(models: Models, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        prepare_network(team(Agent("a")), models, FILE)


def test_a_model_for_another_agent_is_refused() -> None:
    with pytest.raises(UsageError, match="Agents: helper"):
        prepare_network(Agent("helper"), Models(by_name={"other": "x"}), FILE)


def test_a_model_can_be_defined_in_the_project() -> None:
    described = '[models.local]\nname = "openai-chat:llama"\nbase_url = "http://127.0.0.1:9/v1"\n'
    Path("statewright.toml").write_text(described, encoding="utf-8")
    prepared = prepare_network(Agent("helper"), Models("local"), FILE).agents["helper"]
    assert prepared.model.name == "openai-chat:llama"
