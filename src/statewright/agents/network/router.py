"""Routers: functions or routing agents that choose the next agent.

A routing agent calls a model, and its function `on_route` reads the choice from the model's answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from statewright.agents.agent import Agent
from statewright.agents.kwargs_injection import acall_with_kwargs
from statewright.agents.loop.model_call import cut_short_reason
from statewright.agents.loop.run import NetworkRun
from statewright.agents.state.result import AgentResult
from statewright.agents.tools import ToolFunction
from statewright.errors import InvalidConfig, ToolError, suggestion

SELECT: Final = "select_agent"
DONE: Final = "done"
"""The tools of the default router."""
_ATTEMPTS: Final = 3
"""Maximum number of model calls that the default router makes until one names an existing agent."""
_SYSTEM: Final = """\
You coordinate a group of agents. Look at the request and at what has been said and done so far. If something is left \
to do, choose the agent that should do it next by calling `select_agent`. If the whole request is done, \
call `done`.

The agents:
{agents}"""


@dataclass(frozen=True, eq=False, kw_only=True)
class RoutingAgent(Agent):
    """An agent whose answer chooses the next agents. It is not one of the network's `agents`, and adds no result.

    `on_route`, or the hook of the same name in its lifecycle, is called with those of `result`, `agent`, `network` and
    `state` that its parameters name. It returns one or several agents or names of agents, or None to stop. Raises
    InvalidConfig if neither function is set.
    """

    repeats_tool_choice: ClassVar[bool] = True  # an answer without a valid choice is requested again

    on_route: Any = field(default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.router is None:
            raise InvalidConfig(
                f"Routing agent {self.name!r} has no on_route. Pass a function that returns the next agent."
            )

    @property
    def router(self) -> Any:
        """The function that reads the choice from the model's answer."""
        return self.on_route or self.lifecycle.on_route

    async def choose(self, result: AgentResult, network: NetworkRun[Any]) -> Any:
        """Return the agents, or names of agents, that `router` reads from a result of this agent."""
        kwargs = {"result": result, "agent": self, "network": network, "state": network.state}
        return await acall_with_kwargs(self.router, kwargs)


Router = Callable[..., Any] | RoutingAgent
"""A RoutingAgent, or a function that returns the next agents. Its parameters may be `input`, `network`, `state`,
`stack`, `call_count` and `last_result`."""


# -- the default router


def default_router() -> RoutingAgent:
    """Return the router of networks that set none: its model calls a tool to choose an agent, or the tool `done`."""
    return RoutingAgent(
        "Router",
        description="Chooses the agent that comes next.",
        system=_system_prompt,
        tools=[
            ToolFunction(_select_agent, name=SELECT, description="Choose the agent that comes next."),
            ToolFunction(_done, name=DONE, description="Report that the whole request is done."),
        ],
        tool_choice="any",
        max_iter=_ATTEMPTS,
        on_route=_read_choice,
        stop_when=_has_chosen,
    )


def _system_prompt(network: NetworkRun[Any]) -> str:
    return _SYSTEM.format(agents="\n".join(_describe_agent(agent) for agent in network.available_agents))


def _describe_agent(agent: Agent) -> str:
    tools = ", ".join(tool.name for tool in agent.tools)
    return f"- {agent.name}: {agent.description or 'no description'}{f' (tools: {tools})' if tools else ''}"


def _select_agent(name: str, reason: str = "", *, network: NetworkRun[Any]) -> str:
    names = _available_names(network)
    if name not in names:
        raise ToolError(f"Agent {name!r} does not exist. {suggestion(name, names, noun='Agents')}")
    return name


def _done(summary: str = "") -> str:
    return summary


def _available_names(network: NetworkRun[Any]) -> list[str]:
    return [agent.name for agent in network.available_agents]


def _has_chosen(result: AgentResult, network: NetworkRun[Any]) -> bool:
    """Return True if a call names an existing agent, or is `done`."""
    return _last_choice(result, network) is not None


def _last_choice(result: AgentResult, network: NetworkRun[Any]) -> tuple[str, str] | None:
    """Return the first valid call in the last answer that has a valid call; None if no answer has one.

    The call is returned as the name of the tool, and the name of the agent or the summary.
    """
    names = _available_names(network)
    for message in reversed(result.output):
        for call in message.tool_calls:
            if call.name == DONE:
                return DONE, str(call.arguments.get("summary") or "")
            if call.name == SELECT and call.arguments.get("name") in names:
                return SELECT, call.arguments["name"]
    return None


def _read_choice(result: AgentResult, network: NetworkRun[Any]) -> list[str] | None:
    """Return the chosen agent. If the model called `done`, set the summary of the run, and return None.

    Raises InvalidConfig if no answer names an existing agent.
    """
    choice = _last_choice(result, network)
    if choice is None:
        last = next((message for message in reversed(result.output) if message.role == "assistant"), None)
        reason = cut_short_reason(last)
        ending = f" and ended with {reason!r}" if reason is not None else ""
        raise InvalidConfig(
            f"The routing model of network {network.name!r} named no existing agent in {_ATTEMPTS} answers; its "
            f"last one was {(last.text if last is not None else '')[:200]!r}{ending}. Describe the agents better, or "
            f"write a router."
        )
    tool, text = choice
    if tool == SELECT:
        return [text]
    network.summary = text
    return None
