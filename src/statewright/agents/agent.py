"""The definition of an agent: its model, prompt, tools, limits and hooks.

An agent does not choose which agent is called next; the router of its network does. An agent that is run alone gets a
network in which it is the only agent. The modules of networks import this one, so this module calls them only through
the `AgentRunner` that `network.network` sets.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Protocol, Self, cast

from statewright.agents.mcp import McpTools
from statewright.agents.memory import MemoryStrategy
from statewright.agents.state.result import AgentResult
from statewright.agents.thread_history import ThreadHistory
from statewright.agents.tools import LangChainTool, Tool, ToolFunction, is_langchain_tool
from statewright.checkpoint import Checkpointer
from statewright.data.mappings import without_none
from statewright.errors import InvalidConfig, ToolError, suggestion
from statewright.graph import RetryPolicy, is_coroutine_function
from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest, as_chat_model
from statewright.runtime import CompiledGraph

Hook = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt and the conversation of the next model call, which the hook `on_start` may replace."""

    prompt: Sequence[Message]
    """The system message, and the beginning of the answer if the agent has one."""
    history: Sequence[Message]
    """The whole conversation, including the user's message."""
    stop: bool = False
    """True to end the call of the agent without another model call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """The hooks of one agent: user-defined functions, each called with the arguments that its parameters name.

    All hooks except `enabled` may be coroutine functions. Like tools, hooks may change the data in `network.state` or
    `state`; the changes are saved.
    """

    enabled: Hook | None = None
    """`(agent, network, state) -> bool`: True if a router may choose the agent; not a coroutine function."""
    on_start: Hook | None = None
    """`(agent, network, state, input, prompt, history) -> Prompt | None`: called before every model call. The returned
    Prompt replaces the prompt and the conversation; None leaves them unchanged."""
    on_response: Hook | None = None
    """`(agent, network, state, result) -> AgentResult | None`: called after every model call, before its tool calls are
    made. The returned result, whose tool calls may differ, replaces the answer; None leaves it unchanged."""
    on_finish: Hook | None = None
    """`(agent, network, state, result) -> AgentResult | None`: called once, after the last tool calls. The returned
    result replaces the agent's result; None leaves it unchanged."""
    on_route: Hook | None = None
    """Only for a RoutingAgent. `(agent, network, state, result) ->` the next agents, or their names; None to stop."""


_SET_BY_AGENT: Final = frozenset({"messages", "system", "tools", "tool_choice", "metadata", "model", "continue_last"})
SETTINGS: Final = tuple(field.name for field in fields(ModelRequest) if field.name not in _SET_BY_AGENT)
"""The fields of a ModelRequest that an agent's `settings` may set."""


def find_setting_problem(settings: Mapping[str, Any]) -> str | None:
    """Return the error text for the first unknown setting; None if all names are known."""
    unknown = next((name for name in settings if name not in SETTINGS), None)
    if unknown is None:
        return None
    return f"settings has an unknown key {unknown!r}. {suggestion(unknown, SETTINGS, noun='Settings')}"


TOOL_CHOICES: Final = ("auto", "any", "none")
"""The values of `tool_choice` that are not names of tools."""
DEFAULT_RETRIES: Final = 4
"""Default number of retries of a model call."""


class SoloNetwork(Protocol):
    """The network of an agent that is run alone."""

    def compile(self, checkpointer: Checkpointer | None = None, **options: Any) -> CompiledGraph: ...
    def run(self, input: Any = None, **options: Any) -> Any: ...  # noqa: A002  # the usual name of this parameter
    async def arun(self, input: Any = None, **options: Any) -> Any: ...  # noqa: A002
    def stream(self, input: Any = None, **options: Any) -> Iterator[Any]: ...  # noqa: A002
    def astream(self, input: Any = None, **options: Any) -> AsyncIterator[Any]: ...  # noqa: A002


@dataclass(frozen=True, slots=True)
class AgentRunner:
    """The functions that agents need from the modules that import this one."""

    compile: Callable[[Agent], CompiledGraph]
    """Returns the graph of one call of an agent."""
    network_of: Callable[..., SoloNetwork]
    """`(agent, **options)`: returns a network in which this agent is the only one; `options` are those of `Network`."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Agent:
    """An agent: a model with a prompt, tools and hooks. Frozen: use `with_model` or `dataclasses.replace`.

    Raises InvalidConfig for a missing name, duplicate tool names, or a tool_choice that is not a tool.
    """

    repeats_tool_choice: ClassVar[bool] = False
    """True if the tool choice applies to every answer, not just until the first tool call."""
    runner: ClassVar[AgentRunner]
    """Set by `network.network`, which imports this module."""

    name: str = field(kw_only=False)
    """Identifies the agent in routers, results and traces."""
    description: str = ""
    """The abilities of the agent, described for the model of a routing agent."""
    system: str | Callable[..., Any] = ""
    """The system prompt, or a function of `network`, `state` and `agent` that returns it for each call."""
    assistant: str = ""
    """The beginning of every answer, which the model continues."""
    tools: Sequence[Any] = ()
    """Tools, or functions to convert to tools."""
    tool_choice: str = "auto"
    """`auto`, `any` (the model must call a tool), `none`, or the name of the tool that it must call. A call is forced
    only once: afterwards the choice is `auto`."""
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    model: Any = None
    """A chat model or the name of one; None for the network's default model."""
    mcp_servers: Sequence[Any] | McpTools = ()
    """MCP servers, whose tools are added under names `<server>-<tool>`; or McpTools, which the caller has to close."""
    history: ThreadHistory | None = None
    """User-supplied storage for the conversations of an agent that is run alone."""
    max_iter: int = 0
    """Maximum number of model calls in one call of the agent; 0 for one model call and the tool calls it requests."""
    retries: int | RetryPolicy = DEFAULT_RETRIES
    """Number of retries of a failed model call, with exponential backoff; or a policy."""
    memory: MemoryStrategy | None = None
    """Selects the part of a long conversation to send to the model; all of it if None."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Values of further fields of ModelRequest, such as `temperature`, `max_tokens`, `timeout` and `output`."""
    stop_when: Callable[..., Any] | None = None
    """`(result, state, network) -> bool`: True to end the call of the agent before its model is called again."""

    def __post_init__(self) -> None:
        tools = cast(Any, self.tools)
        if not isinstance(tools, list | tuple):
            raise InvalidConfig(f"Agent {self.name!r} is invalid: tools is {tools!r}. Pass a list.")
        object.__setattr__(self, "tools", tuple(as_tool(tool) for tool in self.tools))
        problems = list(self._problems())
        if problems:
            raise InvalidConfig(f"Agent {self.name!r} is invalid: " + " ".join(problems))

    def _problems(self) -> Iterator[str]:
        if not isinstance(self.name, str) or not self.name.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            yield "it has no name."
        names = [tool.name for tool in self.tools]
        duplicates = sorted({name for name in names if names.count(name) > 1})
        if duplicates:
            yield f"two of its tools are named {duplicates[0]!r}."
        if self.tool_choice not in TOOL_CHOICES and self.tool_choice not in names and not self.mcp_servers:
            hint = suggestion(self.tool_choice, [*TOOL_CHOICES, *names], noun="Choices")
            yield f"tool_choice is {self.tool_choice!r}. {hint}"
        if not is_count(self.max_iter):
            yield f"max_iter is {self.max_iter!r}. Pass 0 or a positive integer."
        if not (isinstance(self.retries, RetryPolicy) or is_count(self.retries)):
            yield f"retries is {self.retries!r}. Pass 0, a positive integer, or a RetryPolicy."
        for field_name, value, valid_type, expected in (
            ("lifecycle", self.lifecycle, Lifecycle, "a Lifecycle"),
            ("history", self.history, ThreadHistory | None, "a ThreadHistory"),
            ("assistant", self.assistant, str, "text"),
        ):
            if not isinstance(value, valid_type):
                yield f"{field_name} is {value!r}. Pass {expected}."
        if is_coroutine_function(getattr(self.lifecycle, "enabled", None)):
            yield "its hook `enabled` is a coroutine function. Pass a plain function."
        if (problem := find_setting_problem(self.settings)) is not None:
            yield problem

    def with_model(self, model: Any) -> Self:
        """Return a copy of the agent with another model."""
        return replace(self, model=model)

    async def all_tools(self) -> Mapping[str, Tool]:
        """Return all tools by name, including those of the MCP servers.

        Raises ToolError if a server cannot be used, or if one of its tools has the same name as one of the agent's own.
        """
        own: dict[str, Tool] = {tool.name: tool for tool in self.tools}
        if not self.mcp_servers:
            return own
        mcp_tools = {tool.name: tool for tool in await self._mcp.tools()}
        duplicates = sorted(own.keys() & mcp_tools)
        if duplicates:
            raise ToolError(
                f"Agent {self.name!r} and one of its MCP servers both have a tool {duplicates[0]!r}. Rename one."
            )
        return {**own, **mcp_tools}

    @cached_property
    def _mcp(self) -> McpTools:
        return self.mcp_servers if isinstance(self.mcp_servers, McpTools) else McpTools(self.mcp_servers)

    @cached_property
    def chat_model(self) -> ChatModel | None:
        """The agent's own model, resolved if it is a name; None if it has none."""
        return as_chat_model(self.model) if self.model is not None else None

    @cached_property
    def graph(self) -> CompiledGraph:
        """The compiled graph of one call of the agent."""
        return self.runner.compile(self)

    def alone(self, **options: Any) -> SoloNetwork:
        """Return a network whose runs call only this agent, once; `options` are those of `Network`."""
        return self.runner.network_of(self, **options)

    def run(self, input: Any, *, model: Any = None, max_iter: int | None = None, **options: Any) -> AgentResult:  # noqa: A002
        """Run the agent alone on an input and return its result; `options` are those of `Network.run`.

        `model` and `max_iter` replace the agent's own. Raises InvalidConfig if the run is interrupted: to resume it,
        use the network that `alone` returns.
        """
        return _single_result(self._alone_with(model, max_iter).run(input, **options))

    async def arun(self, input: Any, *, model: Any = None, max_iter: int | None = None, **options: Any) -> AgentResult:  # noqa: A002
        """Like `run`, on the running event loop."""
        return _single_result(await self._alone_with(model, max_iter).arun(input, **options))

    def stream(self, input: Any, *, model: Any = None, max_iter: int | None = None, **options: Any) -> Iterator[Any]:  # noqa: A002
        """Run the agent alone, and yield messages and chunks as they arrive; see `Network.stream`."""
        return self._alone_with(model, max_iter).stream(input, **options)

    def astream(
        self,
        input: Any,  # noqa: A002
        *,
        model: Any = None,
        max_iter: int | None = None,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """Like `stream`, on the running event loop."""
        return self._alone_with(model, max_iter).astream(input, **options)

    def _alone_with(self, model: Any, max_iter: int | None) -> SoloNetwork:
        """Return the network for one run. `model` and `max_iter` replace the agent's own unless they are None."""
        changes = without_none({"model": model, "max_iter": max_iter})
        return (replace(self, **changes) if changes else self).alone()


def as_tool(tool: Any) -> Tool:
    """Return a tool unchanged; convert a function or a LangChain tool to a tool.

    Raises InvalidConfig for anything else.
    """
    if hasattr(tool, "parameters") and hasattr(tool, "call"):
        return tool
    is_langchain = is_langchain_tool(tool)
    if not is_langchain and not callable(tool):
        raise InvalidConfig(f"{tool!r} is not a tool. Pass a tool, or a function with type hints and a docstring.")
    try:
        return LangChainTool(tool) if is_langchain else ToolFunction(tool)
    except ToolError as error:
        raise InvalidConfig(str(error)) from error


def is_count(value: object) -> bool:
    """Return True for an integer that is at least 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _single_result(run: Any) -> AgentResult:
    """Return the result of an agent that ran alone. Raises InvalidConfig if it was interrupted."""
    if run.interrupts:
        questions = "; ".join(repr(interrupt.value) for interrupt in run.interrupts)
        raise InvalidConfig(
            f"Agent {run.name!r} is waiting for answers ({questions}), so it has no result yet. Use agent.alone(), run "
            f"it with a checkpointer and a thread_id, and answer with run(Command(resume=...))."
        )
    return run.results[-1]
