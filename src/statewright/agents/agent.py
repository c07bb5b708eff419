"""The definition of an agent: its model, prompt, tools, limits and hooks.

An agent does not choose its successor: the router of a network does. An agent that is run alone is run by a network
of one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, cast

from statewright.agents.memory import MemoryStrategy
from statewright.agents.thread_history import ThreadHistory
from statewright.agents.tools import LangChainTool, Tool, ToolFunction, is_langchain_tool
from statewright.errors import InvalidConfig, ToolError, suggestion
from statewright.graph import RetryPolicy, is_coroutine_function
from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest, as_chat_model

if TYPE_CHECKING:
    from statewright.agents.mcp import McpTools
    from statewright.agents.network.network import Network
    from statewright.agents.network.run import NetworkRun
    from statewright.agents.state.result import AgentResult
    from statewright.runtime import CompiledGraph

Hook = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Prompt:
    """What `on_start` may answer instead: what the model is told, and whether it is asked at all."""

    prompt: Sequence[Message]
    """The system message, and an assistant's beginning of the answer if there is one."""
    history: Sequence[Message]
    """The conversation: the user's message and everything before and after it."""
    stop: bool = False
    """Whether the agent ends here, without a call of its model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """The hooks of one agent."""

    enabled: Hook | None = None
    """`(agent, network, state) -> bool`: whether a router may choose the agent; plain, no coroutine function."""
    on_start: Hook | None = None
    """`(agent, network, state, input, prompt, history) -> Prompt | None`, before every call of the model."""
    on_response: Hook | None = None
    """`(agent, network, state, result) -> AgentResult | None`, before tools are called: changed calls are made."""
    on_finish: Hook | None = None
    """`(agent, network, state, result) -> AgentResult | None`, once, when all tools are through."""
    on_route: Hook | None = None
    """Of a RoutingAgent: `(agent, network, state, result)` -> names of agents, or None to stop."""


_SET_ELSEWHERE: Final = frozenset({"messages", "system", "tools", "tool_choice", "metadata", "model", "continue_last"})
SETTINGS: Final = tuple(one.name for one in fields(ModelRequest) if one.name not in _SET_ELSEWHERE)


def setting_problem(settings: Mapping[str, Any]) -> str | None:
    """What is wrong with the names of settings; None if nothing is."""
    strange = next((name for name in settings if name not in SETTINGS), None)
    if strange is None:
        return None
    return f"settings have {strange!r}. {suggestion(strange, SETTINGS, noun='Settings')}"


CHOICES: Final = ("auto", "any", "none")
RETRIES: Final = 4
"""How often a call of a model is tried again, where nobody says."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Agent:
    """What one agent is. Frozen: `with_model`, or `dataclasses.replace`, make others of it.

    Raises InvalidConfig for what cannot be: no name, two tools of one name, a choice that no tool has.
    """

    repeats_tool_choice: ClassVar[bool] = False
    """True if every answer has to call a tool, not just the first."""

    name: str = field(kw_only=False)
    """Who it is: for routers, results and traces."""
    description: str = ""
    """What it can do: read by models that route."""
    system: str | Callable[..., Any] = ""
    """What its model is told; or a function of `network`, `state` and `agent`, asked anew for each call."""
    assistant: str = ""
    """The beginning of each answer, with which the model goes on."""
    tools: Sequence[Any] = ()
    """Tools, or functions that become some."""
    tool_choice: str = "auto"
    """`auto`, `any` (the model has to call one), `none`, or the name of the tool that it has to call. A call that is
    forced is made once: after it the choice is `auto`."""
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    model: Any = None
    """A chat model or the name of one; the network's default model if there is none."""
    mcp_servers: Sequence[Any] | McpTools = ()
    """MCP servers whose tools it has too, named `<server>-<tool>`; or the McpTools that somebody else closes."""
    history: ThreadHistory | None = None
    """Where conversations are kept, for an agent that is run alone."""
    max_iter: int = 0
    """How often its model is asked in one call while it wants tools; 0: once, and its tools are called."""
    retries: int | RetryPolicy = RETRIES
    """How often a failed call of the model is tried again, with a growing delay; or exactly how."""
    memory: MemoryStrategy | None = None
    """What of a long conversation the model is shown; all of it if there is none."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """More of the request: `temperature`, `max_tokens`, `timeout`, `output` and so on, see ModelRequest."""
    stop_when: Callable[..., Any] | None = None
    """`(result, state, network) -> bool`: whether the agent ends, though its model would be asked again."""

    def __post_init__(self) -> None:
        given = cast(Any, self.tools)
        if not isinstance(given, list | tuple):
            raise InvalidConfig(f"Agent {self.name!r} cannot be: its tools are {given!r}. Give a list.")
        object.__setattr__(self, "tools", tuple(as_tool(tool) for tool in self.tools))
        problems = list(self._problems())
        if problems:
            raise InvalidConfig(f"Agent {self.name!r} cannot be: " + " ".join(problems))

    def _problems(self) -> list[str]:
        found: list[str] = []
        if not isinstance(self.name, str) or not self.name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            found.append("it has no name.")
        names = [tool.name for tool in self.tools]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            found.append(f"two of its tools are called {twice[0]!r}.")
        if self.tool_choice not in CHOICES and self.tool_choice not in names and not self.mcp_servers:
            hint = suggestion(self.tool_choice, [*CHOICES, *names], noun="Choices")
            found.append(f"tool_choice is {self.tool_choice!r}. {hint}")
        if not is_count(self.max_iter):
            found.append(f"max_iter is {self.max_iter!r}. Give 0 or a whole number above.")
        if not (isinstance(self.retries, RetryPolicy) or is_count(self.retries)):
            found.append(f"retries are {self.retries!r}. Give 0, a whole number above, or a RetryPolicy.")
        found.extend(
            f"its {what} is {value!r}. Give {wanted}."
            for what, value, kind, wanted in (
                ("lifecycle", self.lifecycle, Lifecycle, "a Lifecycle"),
                ("history", self.history, ThreadHistory | None, "a ThreadHistory"),
                ("assistant", self.assistant, str, "text"),
            )
            if not isinstance(value, kind)
        )
        if is_coroutine_function(getattr(self.lifecycle, "enabled", None)):
            found.append("its hook `enabled` is a coroutine function; it has to be a plain one.")
        wrong = setting_problem(self.settings)
        return [*found, wrong] if wrong is not None else found

    def with_model(self, model: Any) -> Self:
        """The same agent with another model."""
        return replace(self, model=model)

    async def all_tools(self) -> Mapping[str, Tool]:
        """Its tools by name, those of its MCP servers included.

        Raises ToolError for servers that cannot be used, and for a tool of one that is called like one of its own.
        """
        own: dict[str, Tool] = {tool.name: tool for tool in self.tools}
        if not self.mcp_servers:
            return own
        served = {tool.name: tool for tool in await self._mcp.tools()}
        twice = sorted(own.keys() & served)
        if twice:
            raise ToolError(f"Agent {self.name!r} has a tool {twice[0]!r}, and so has one of its MCP servers.")
        return {**own, **served}

    @cached_property
    def _mcp(self) -> McpTools:
        from statewright.agents.mcp import McpTools

        return self.mcp_servers if isinstance(self.mcp_servers, McpTools) else McpTools(self.mcp_servers)

    @cached_property
    def chat_model(self) -> ChatModel | None:
        """Its own model, connected to where that was given by name; None if it has none."""
        return as_chat_model(self.model) if self.model is not None else None

    @cached_property
    def graph(self) -> CompiledGraph:
        """What a call of the agent runs: its model, its tools, and its end."""
        from statewright.agents.loop.graph import compile_agent

        return compile_agent(self)

    def alone(self, **options: Any) -> Network[Any]:
        """A network of this agent alone, which calls it once: `options` are those of `Network`."""
        from statewright.agents.network.network import Network

        usual: dict[str, Any] = {"agents": [self], "router": _route_once, "history": self.history}
        return Network(self.name, **{**usual, **options})

    def run(self, input: Any, *, model: Any = None, **options: Any) -> AgentResult:  # noqa: A002  # the field's word
        """What the agent does about an input, alone: see `Network.run`, whose options it takes.

        `model` stands instead of the agent's own, and `max_iter` instead of its own too. Raises InvalidConfig
        where it waits for something: whoever answers needs the network that `alone` gives.
        """
        agent, options = self._with_run_options(model, options)
        return _only_result(agent.alone().run(input, **options))

    async def arun(self, input: Any, *, model: Any = None, **options: Any) -> AgentResult:  # noqa: A002
        """`run`, on the running event loop."""
        agent, options = self._with_run_options(model, options)
        return _only_result(await agent.alone().arun(input, **options))

    def stream(self, input: Any, *, model: Any = None, **options: Any) -> Iterator[Any]:  # noqa: A002
        """The parts of a run as they come: see `Network.stream`."""
        agent, options = self._with_run_options(model, options)
        return agent.alone().stream(input, **options)

    def astream(self, input: Any, *, model: Any = None, **options: Any) -> AsyncIterator[Any]:  # noqa: A002
        """`stream`, on the running event loop."""
        agent, options = self._with_run_options(model, options)
        return agent.alone().astream(input, **options)

    def _with_run_options(self, model: Any, options: dict[str, Any]) -> tuple[Self, dict[str, Any]]:
        other: dict[str, Any] = {"model": model} if model is not None else {}
        if options.get("max_iter") is not None:
            other["max_iter"] = options["max_iter"]
        rest = {name: value for name, value in options.items() if name != "max_iter"}
        return replace(self, **other) if other else self, rest


def as_tool(tool: Any) -> Tool:
    """A tool as it is; a function, or a tool of LangChain, as one. Raises InvalidConfig for anything else."""
    if hasattr(tool, "parameters") and hasattr(tool, "call"):
        return tool
    is_langchain = is_langchain_tool(tool)
    if not is_langchain and not callable(tool):
        raise InvalidConfig(f"{tool!r} is no tool. Give a tool, or a function with annotations and a docstring.")
    try:
        return LangChainTool(tool) if is_langchain else ToolFunction(tool)
    except ToolError as error:
        raise InvalidConfig(str(error)) from error


def is_count(value: object) -> bool:
    """Whether a value is a number of times."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _only_result(run: NetworkRun[Any]) -> AgentResult:
    if run.interrupts:
        asked = "; ".join(repr(one.value) for one in run.interrupts)
        raise InvalidConfig(
            f"Agent {run.name!r} waits for answers ({asked}), so there is no result yet. Take agent.alone(), run it "
            f"with a checkpointer and a thread_id, and answer with run(Command(resume=...))."
        )
    return run.results[-1]


def _route_once(network: Any, call_count: int) -> Any:
    return None if call_count else next(iter(network.agents.values()))
