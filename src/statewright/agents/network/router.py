"""Routers: functions or routing agents that choose the next agent, and the registry of the agents that they may choose.

A routing agent asks a model, and a function reads the choice from its answer.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import CodeType
from typing import Any, ClassVar, Final, cast

from statewright.agents.agent import Agent, Lifecycle
from statewright.agents.kwargs_injection import acall_with_kwargs
from statewright.agents.loop.model_call import cut_short_reason
from statewright.agents.loop.run import NetworkRun
from statewright.agents.state.result import AgentResult
from statewright.agents.tools import ToolFunction
from statewright.errors import InvalidConfig, RoutingError, RunError, ToolError, suggestion

SELECT: Final = "select_agent"
DONE: Final = "done"
_ATTEMPTS: Final = 3
"""Maximum number of answers of the default router until it names an existing agent."""
_SYSTEM: Final = """\
You coordinate a group of agents. Look at the request and at what has been said and done so far. If something is left \
to do, choose the agent that should do it next by calling `select_agent`. If everything that was asked for is done, \
call `done`.

The agents:
{agents}"""


@dataclass(frozen=True, eq=False, kw_only=True)
class RoutingAgent(Agent):
    """An agent whose answer chooses the next agent. It is not one of a network's `agents`, and adds no result.

    `on_route`, or the hook of that name in its lifecycle, is called with `result`, `agent`, `network` and `state`, and
    returns one or several agents or names, or None to stop. Raises InvalidConfig without one.
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
        """The function that reads the choice."""
        return self.on_route or self.lifecycle.on_route

    async def chosen(self, result: AgentResult, network: NetworkRun[Any]) -> Any:
        """Return the agents that a result of this agent chooses."""
        kwargs = {"result": result, "agent": self, "network": network, "state": network.state}
        return await acall_with_kwargs(self.router, kwargs)


def default_router() -> RoutingAgent:
    """Return the router of a network without one: its model selects an agent by a tool, or calls `done`."""
    return RoutingAgent(
        "Router",
        description="Chooses the agent that comes next.",
        system=_system_prompt,
        tools=[
            ToolFunction(_select_agent, name=SELECT, description="Choose the agent that comes next."),
            ToolFunction(_done, name=DONE, description="Say that everything that was asked for is done."),
        ],
        tool_choice="any",
        max_iter=_ATTEMPTS,
        lifecycle=Lifecycle(),
        on_route=_read_choice,
        stop_when=_has_chosen,
    )


def _system_prompt(network: NetworkRun[Any]) -> str:
    return _SYSTEM.format(agents="\n".join(_describe_agent(agent) for agent in network.available_agents))


def _describe_agent(agent: Agent) -> str:
    tools = ", ".join(tool.name for tool in agent.tools)
    return f"- {agent.name}: {agent.description or 'no description'}{f' (tools: {tools})' if tools else ''}"


def _select_agent(name: str, reason: str = "", *, network: NetworkRun[Any]) -> str:
    names = [agent.name for agent in network.available_agents]
    if name not in names:
        raise ToolError(f"There is no agent {name!r}. {suggestion(name, names, noun='Agents')}")
    return name


def _done(summary: str = "") -> str:
    return summary


def _has_chosen(result: AgentResult, network: NetworkRun[Any]) -> bool:
    """Return True if a call names an existing agent, or is `done`."""
    return _last_choice(result, [agent.name for agent in network.available_agents]) is not None


def _last_choice(result: AgentResult, names: Sequence[str]) -> tuple[str, str] | None:
    """Return the first valid call of the last answer that has one: the tool, and the agent or summary."""
    for message in reversed(result.output):
        for call in message.tool_calls:
            if call.name == DONE:
                return DONE, str(call.arguments.get("summary") or "")
            if call.name == SELECT and call.arguments.get("name") in names:
                return SELECT, call.arguments["name"]
    return None


def _read_choice(result: AgentResult, network: NetworkRun[Any]) -> list[str] | None:
    choice = _last_choice(result, [agent.name for agent in network.available_agents])
    if choice is None:
        last = next((message for message in reversed(result.output) if message.role == "assistant"), None)
        ending = f" and ended with {last.finish_reason!r}" if last is not None and cut_short_reason(last) else ""
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


# -- routers and the registry of agents

Router = Callable[..., Any] | RoutingAgent
"""A function of `input`, `network`, `state`, `stack`, `call_count` and `last_result`, or a RoutingAgent."""


MOST_RUNS: Final = 10_000
"""Maximum number of runs for which undeclared agents are remembered. They are forgotten when a run ends."""


class AgentRegistry:
    """The agents of a network by name: declared ones, and those that the router function refers to."""

    def __init__(self, network: str, agents: Sequence[Agent], router: Router | None) -> None:
        self.network = network
        self.declared: Mapping[str, Agent] = agents_by_name(f"Network {network!r}", agents)
        # A run that is resumed in another process must find undeclared agents that its router returns.
        self.implicit = {agent.name: agent for agent in reachable_agents(router)} if callable(router) else {}
        self.admitted: OrderedDict[str, dict[str, Agent]] = OrderedDict()
        """The undeclared agents that the router of a run has returned, by run."""

    def declare(self, agent: Agent) -> None:
        """Add a declared agent. Raises InvalidConfig if another one has its name."""
        self.declared = agents_by_name(f"Network {self.network!r}", [*self.declared.values(), agent])

    def for_run(self, run: str) -> RunAgents:
        """Return the agents of one run, with those that its own router has created."""
        return RunAgents(self, run)


class RunAgents:
    """The agents that one run can call."""

    def __init__(self, registry: AgentRegistry, run: str) -> None:
        self._registry = registry
        self._run = run

    def find(self, name: str) -> Agent:
        """Return an agent by name. Raises RoutingError if there is none."""
        registry = self._registry
        agents = {**registry.implicit, **registry.declared, **registry.admitted.get(self._run, {})}
        if name not in agents:
            raise RoutingError(
                f"Network {registry.network!r} has no agent {name!r}. {suggestion(name, agents, noun='Agents')} "
                f"A resumed run finds an agent that a router creates only if it is declared, and needs the router that "
                f"was passed for it again."
            )
        return agents[name]

    def resolve_names(self, answer: Any) -> list[str]:
        """Return the names of the agents that a router returned. Raises RoutingError for anything else."""
        if answer is None:
            return []
        items = list(cast("Iterable[Any]", answer)) if isinstance(answer, list | tuple) else [answer]
        agents = {id(item): item for item in items if isinstance(item, Agent)}
        agents_by_name(f"The router of network {self._registry.network!r}", list(agents.values()), RoutingError)
        return [self._resolve_name(item) for item in items]

    def _resolve_name(self, item: Any) -> str:
        if isinstance(item, str):
            return self.find(item).name
        if not isinstance(item, Agent):
            raise RoutingError(
                f"The router of network {self._registry.network!r} returned {item!r} of type {type(item).__name__}. "
                f"Return an agent, a list of agents or names, or None to stop."
            )
        self.admit(item)
        return item.name

    def admit(self, agent: Agent) -> None:
        """Remember an agent for this run. Raises RoutingError if another one was declared with its name."""
        declared = self._registry.declared.get(agent.name)
        if declared is not None and declared is not agent:
            raise RoutingError(
                f"The router of network {self._registry.network!r} returned another agent {agent.name!r} than the one "
                f"that was declared. Rename one of them."
            )
        if declared is None and self._registry.implicit.get(agent.name) is not agent:
            runs = self._registry.admitted
            runs.setdefault(self._run, {})[agent.name] = agent
            runs.move_to_end(self._run)
            while len(runs) > MOST_RUNS:
                runs.popitem(last=False)

    def forget(self) -> None:
        """Forget the agents of this run, which has ended."""
        self._registry.admitted.pop(self._run, None)


def agents_by_name(owner: str, agents: Sequence[Agent], error: type[RunError] = InvalidConfig) -> dict[str, Agent]:
    """Return agents by name. Raises `error` for a duplicate name, and InvalidConfig for anything but an agent."""
    by_name: dict[str, Agent] = {}
    for agent in agents:
        if not isinstance(agent, Agent):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidConfig(f"{owner} has {agent!r} among its agents, which is not an Agent.")
        if by_name.setdefault(agent.name, agent) is not agent:
            raise error(f"{owner} has two agents named {agent.name!r}. Rename one of them.")
    return by_name


def reachable_agents(router: Any) -> Iterator[Agent]:
    """Yield the agents that a router refers to: in bound arguments, globals, its closure and defaults."""
    for value in _reachable_values(router):
        yield from (item for item in _contained_values(value) if isinstance(item, Agent))


def _reachable_values(router: Any) -> Iterator[Any]:
    """Yield the values that the code of a function or callable object refers to by name."""
    if isinstance(router, partial):
        bound = cast("partial[Any]", router)
        yield from (*bound.args, *bound.keywords.values(), *_reachable_values(bound.func))
        return
    function: Any = inspect.unwrap(router)
    if not hasattr(function, "__code__") and not inspect.ismethod(function):  # a callable object
        function = getattr(function, "__call__", function)  # noqa: B004  # the method is wanted
    yield from getattr(getattr(function, "__self__", None), "__dict__", {}).values()
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is not None:
        module_values = function.__globals__
        yield from (module_values.get(name) for name in dict.fromkeys(_global_names(code)))
        yield from (cell.cell_contents for cell in function.__closure__ or () if _is_cell_set(cell))
        yield from (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())


def _contained_values(value: Any) -> Iterable[Any]:
    """Return a value, or the items of a list or a mapping."""
    if isinstance(value, Mapping):
        return cast("Mapping[Any, Any]", value).values()
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else (value,)


def _global_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _global_names(inner)


def _is_cell_set(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # reading it is the question
    except ValueError:
        return False
    return True
