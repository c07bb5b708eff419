"""Agents and networks as graphs, with the models of the command line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from statewright.agents import Agent, Network
from statewright.cli.failure import WrongUse, told
from statewright.cli.models import Models
from statewright.errors import InvalidConfig, ModelError
from statewright.models import ChatModel


def network_of(found: Agent | Network[Any], models: Models | None, file: Path) -> Network[Any]:
    """The network to be run; an agent is one of its own. With `None` as models nobody is going to be asked.

    Raises WrongUse for an agent without a model, or with one that cannot be connected.
    """
    if isinstance(found, Agent):
        return (found if models is None else _agent_with(found, models, file)).alone()
    return found if models is None else _network_with(found, models, file)


def _agent_with(agent: Agent, models: Models, file: Path) -> Agent:
    models.check_names([agent.name], "Agents")
    name = models.by_name.get(agent.name) or models.everybody
    model = _named(name, models, file) if name is not None else _usual(file) if agent.model is None else None
    if model is None and agent.model is None:
        raise WrongUse(f"Agent {agent.name!r} has no model. Give it one with --model, e.g. --model openai:gpt-5.")
    chosen = agent.with_model(model) if model is not None else agent
    _check([chosen])
    return chosen


def _network_with(network: Network[Any], models: Models, file: Path) -> Network[Any]:
    """The network whose agents ask the models of the command line. They stay the same: its router may answer them."""
    models.check_names(list(network.agents), "Agents")
    everybody = _named(models.everybody, models, file) if models.everybody is not None else None
    by_agent = {name: _named(model, models, file) for name, model in models.by_name.items()}
    chosen = network.with_models(everybody, **by_agent)
    lacking = [one.name for one in network.agents.values() if one.model is None and chosen.model_for(one) is None]
    if lacking and network.default_model is None:
        usual = _usual(file)
        if usual is None:
            raise WrongUse(
                f"Agent {lacking[0]!r} of network {network.name!r} has no model. Give one with --model, "
                f"e.g. --model openai:gpt-5."
            )
        chosen = chosen.with_models(**dict.fromkeys(lacking, usual))
    _check([*(one for one in network.agents.values() if chosen.model_for(one) is None), chosen])
    return chosen


def _named(name: str, models: Models, file: Path) -> ChatModel:
    """A model that the command line names; its project may know it."""
    from statewright.project import load_project

    return models.connect(name, load_project(file))


def _usual(file: Path) -> ChatModel | None:
    """The default model of the project, if its name says where it is."""
    from statewright.project import load_project
    from statewright.workflow.states.resources.chat_models import ModelNames

    project = load_project(file)
    found = ModelNames(project.models, project.defaults.provider).find(project.defaults.model)
    try:
        return found.model if found is not None else None
    except ModelError as error:
        raise WrongUse(told(error)) from error


def _check(those: Iterable[Agent | Network[Any]]) -> None:
    """Connect to the models that were given by name, so that a missing key shows before anything is run."""
    try:
        for one in those:
            _ = one.chat_model if isinstance(one, Agent) else one.default_chat_model
    except (ModelError, InvalidConfig) as error:
        raise WrongUse(told(error)) from error
