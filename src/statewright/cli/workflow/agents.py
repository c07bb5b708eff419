"""Assignment of models to agents and networks before a run: those of the command line, or the project's default."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from statewright.agents import Agent, Network
from statewright.agents.network.network import network_of
from statewright.cli.console.failure import UsageError, format_error
from statewright.cli.workflow.models import Models
from statewright.errors import InvalidConfig, ModelError
from statewright.models import ChatModel
from statewright.project import load_project


def prepare_network(target: Agent | Network[Any], models: Models | None, file: Path) -> Network[Any]:
    """Return the network to run; a single agent is wrapped in one. With `models=None`, no model is connected.

    Raises UsageError if an agent has no model, or if a model cannot be connected.
    """
    if isinstance(target, Agent):
        return network_of(target if models is None else _configure_agent(target, models, file))
    return target if models is None else _configure_network(target, models, file)


def _configure_agent(agent: Agent, models: Models, file: Path) -> Agent:
    models.check_names([agent.name], "Agents")
    name = models.by_name.get(agent.name) or models.default
    if name is not None:
        model = _connect(name, models, file)
    else:
        model = _connect_project_default(file) if agent.model is None else None
    if model is None and agent.model is None:
        raise UsageError(f"Agent {agent.name!r} has no model. Choose one, e.g. with --model openai:gpt-5.")
    configured = agent.with_model(model) if model is not None else agent
    _connect_own_models([configured])
    return configured


def _configure_network(network: Network[Any], models: Models, file: Path) -> Network[Any]:
    """Return the network with the models of the command line.

    The models are set on the network, not on its agents, because the router may return the original agent objects.
    """
    models.check_names(list(network.agents), "Agents")
    default = _connect(models.default, models, file) if models.default is not None else None
    by_agent = {name: _connect(model, models, file) for name, model in models.by_name.items()}
    configured = network.with_models(default, **by_agent)
    agents_without_model = [
        agent.name for agent in network.agents.values() if agent.model is None and configured.model_for(agent) is None
    ]
    if agents_without_model and network.default_model is None:
        project_default = _connect_project_default(file)
        if project_default is None:
            raise UsageError(
                f"Agent {agents_without_model[0]!r} of network {network.name!r} has no model. Choose one, e.g. with "
                f"--model openai:gpt-5."
            )
        configured = configured.with_models(**dict.fromkeys(agents_without_model, project_default))
    agents = [agent for agent in network.agents.values() if configured.model_for(agent) is None]
    _connect_own_models([*agents, configured])
    return configured


def _connect(name: str, models: Models, file: Path) -> ChatModel:
    """Connect a model named on the command line, which may be an alias defined in the project."""
    return models.connect(name, load_project(file))


def _connect_project_default(file: Path) -> ChatModel | None:
    """Connect the default model of the project; return None if there is none, or if its provider is unknown."""
    from statewright.workflow.states.resources.chat_models import ModelResolver

    project = load_project(file)
    model_source = ModelResolver(project.models, project.defaults.provider).find(project.defaults.model)
    try:
        return model_source.model if model_source is not None else None
    except ModelError as error:
        raise UsageError(format_error(error)) from error


def _connect_own_models(owners: Iterable[Agent | Network[Any]]) -> None:
    """Connect the models that agents and networks name themselves, so that a missing key is reported before the run."""
    try:
        for owner in owners:  # reading the attribute connects the model
            _ = owner.chat_model if isinstance(owner, Agent) else owner.default_chat_model
    except (ModelError, InvalidConfig) as error:
        raise UsageError(format_error(error)) from error
