"""Agents and networks as targets, with the models that they get."""

from __future__ import annotations

from pathlib import Path

import pytest

from statewright.agents import Agent, Network
from statewright.cli.console.failure import UsageError
from statewright.cli.workflow.agents import prepare_network
from statewright.cli.workflow.models import NO_MODELS, Models
from statewright.models import ScriptedModel

FILE = Path("agents.py")
GIVEN = Models("openai-chat:x", base_url="http://127.0.0.1:9/v1")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No project and no key is found by chance."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def team(*agents: Agent, default_model: object = None) -> Network[object]:
    return Network("team", agents=agents, router=lambda: None, default_model=default_model)


def test_an_agent_is_a_network_of_its_own() -> None:
    agent = Agent("helper", model=ScriptedModel(["hi"]))
    assert prepare_network(agent, NO_MODELS, FILE).agents == {"helper": agent}


@pytest.mark.parametrize("given", [GIVEN, Models(by_name={"helper": "openai-chat:x"}, base_url=GIVEN.base_url)])
def test_an_agent_gets_the_model_of_the_command_line(given: Models) -> None:
    found = prepare_network(Agent("helper", model=ScriptedModel([])), given, FILE).agents["helper"]
    assert found.model.name == "openai-chat:x"


def test_an_agent_without_a_model_is_refused_unless_it_is_only_looked_at() -> None:
    agent = Agent("helper")
    assert prepare_network(agent, None, FILE).agents["helper"] is agent
    with pytest.raises(UsageError, match=r"'helper' has no model\. .*--model"):
        prepare_network(agent, NO_MODELS, FILE)


def test_the_default_of_the_project_is_taken_where_there_is_no_model() -> None:
    Path("statewright.toml").write_text('[defaults]\nmodel = "openai:gpt-5"\n', encoding="utf-8")
    with pytest.raises(UsageError, match="'openai:gpt-5' needs a key"):
        prepare_network(Agent("helper"), NO_MODELS, FILE)


@pytest.mark.parametrize("target", [Agent("helper", model="openai:gpt-5"), team(Agent("a", model="openai:gpt-5"))])
def test_a_missing_key_shows_before_anything_is_run(target: Agent | Network[object]) -> None:
    with pytest.raises(UsageError, match="OPENAI_API_KEY"):
        prepare_network(target, NO_MODELS, FILE)


def test_the_agents_of_a_network_stay_the_same_and_ask_the_model_of_the_command_line() -> None:
    network = team(Agent("a"), Agent("b", model=ScriptedModel([])), default_model=ScriptedModel([]))
    found = prepare_network(network, GIVEN, FILE)
    assert found.agents["a"] is network.agents["a"]
    asked = [found.model_for(agent) for agent in found.agents.values()]
    assert [getattr(model, "name", None) for model in asked] == ["openai-chat:x", "openai-chat:x"]
    assert network.model_for(network.agents["a"]) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [(NO_MODELS, "Agent 'a' of network 'team' has no model"), (Models(by_name={"b": "x"}), "Agents: a")],
)
def test_a_network_that_cannot_be_run_so_is_refused(given: Models, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        prepare_network(team(Agent("a")), given, FILE)


def test_a_model_for_another_agent_is_refused() -> None:
    with pytest.raises(UsageError, match="Agents: helper"):
        prepare_network(Agent("helper"), Models(by_name={"other": "x"}), FILE)


def test_a_model_may_be_one_that_the_project_describes() -> None:
    described = '[models.local]\nname = "openai-chat:llama"\nbase_url = "http://127.0.0.1:9/v1"\n'
    Path("statewright.toml").write_text(described, encoding="utf-8")
    found = prepare_network(Agent("helper"), Models("local"), FILE).agents["helper"]
    assert found.model.name == "openai-chat:llama"
