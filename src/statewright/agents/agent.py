"""The definition of an agent: its model, prompt, tools, limits and hooks.

An agent does not choose its successor: the router of a network does. An agent that is run alone is run by a network
of one. Networks are built on agents, so this module reaches them only through the `AgentRunner` that they register.
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
from statewright.errors import InvalidConfig, ToolError, suggestion
from statewright.graph import RetryPolicy, is_coroutine_function
from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest, as_chat_model
from statewright.runtime import CompiledGraph

Hook = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt and conversation for the next call of the model, as `on_start` may replace them."""

    prompt: Sequence[Message]
    """The system message, and the beginning of the answer if there is one."""
    history: Sequence[Message]
    """The whole conversation, the user's message included."""
    stop: bool = False
    """True to end the agent here, without a call of its model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """The hooks of one agent: user-defined functions, called with the arguments that their parameters name.

    All but `enabled` may be coroutine functions. Changes that they make to the data in `network.state` or `state` are
    saved, as those of a tool are.
    """

    enabled: Hook | None = None
    """`(agent, network, state) -> bool`: True if a router may choose the agent; not a coroutine function."""
    on_start: Hook | None = None
    """`(agent, network, state, input, prompt, history) -> Prompt | None`, before every call of the model."""
    on_response: Hook | None = None
    """`(agent, network, state, result) -> AgentResult | None`, before tools are called, so it may change the calls."""
    on_finish: Hook | None = None
    """`(agent, network, state, result) -> AgentResult | None`, once, after all tool calls."""
    on_route: Hook | None = None
    """For a RoutingAgent: `(agent, network, state, result)` -> names of agents, or None to stop."""


_SET_BY_AGENT: Final = frozenset({"messages", "system", "tools", "tool_choice", "metadata", "model", "continue_last"})
SETTINGS: Final = tuple(field.name for field in fields(ModelRequest) if field.name not in _SET_BY_AGENT)
"""The fields of a ModelRequest that the settings of an agent may have."""


def setting_problem(settings: Mapping[str, Any]) -> str | None:
    """Return the problem with the names of settings; None if all are known."""
    unknown = next((name for name in settings if name not in SETTINGS), None)
    if unknown is None:
        return None
    return f"settings has an unknown key {unknown!r}. {suggestion(unknown, SETTINGS, noun='Settings')}"


CHOICES: Final = ("auto", "any", "none")
"""The values of `tool_choice` that are not names of tools."""
RETRIES: Final = 4
"""Default number of retries of a model call."""


class SoloNetwork(Protocol):
    """The network of an agent that is run alone."""

    def compile(self, checkpointer: Checkpointer | None = None, **options: Any) -> CompiledGraph: ...
    def run(self, input: Any = None, **options: Any) -> Any: ...  # noqa: A002  # the field's word
    async def arun(self, input: Any = None, **options: Any) -> Any: ...  # noqa: A002
    def stream(self, input: Any = None, **options: Any) -> Iterator[Any]: ...  # noqa: A002
    def astream(self, input: Any = None, **options: Any) -> AsyncIterator[Any]: ...  # noqa: A002


@dataclass(frozen=True, slots=True)
class AgentRunner:
    """The functions that compile an agent and run it alone."""

    compile: Callable[[Agent], CompiledGraph]
    network_of: Callable[..., SoloNetwork]
    """Returns the network of an agent, with the options of `Network`."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Agent:
    """An agent: a model with a prompt, tools and hooks. Frozen: use `with_model` or `dataclasses.replace`.

    Raises InvalidConfig for a missing name, duplicate tool names, or a tool_choice that is not a tool.
    """

    repeats_tool_choice: ClassVar[bool] = False
    """True if every answer must call a tool, not just the first."""
    runner: ClassVar[AgentRunner]
    """Set by the module of networks, which is above this one."""

    name: str = field(kw_only=False)
    """Identifies the agent in routers, results and traces."""
    description: str = ""
    """The abilities of the agent, for models that route."""
    system: str | Callable[..., Any] = ""
    """The system prompt, or a function of `network`, `state` and `agent` that returns it for each call."""
    assistant: str = ""
    """The beginning of each answer, which the model continues."""
    tools: Sequence[Any] = ()
    """Tools, or functions to convert to tools."""
    tool_choice: str = "auto"
    """`auto`, `any` (the model must call a tool), `none`, or the name of the tool that it must call. A forced call
    is made once: after it the choice is `auto`."""
    lifecycle: Lifecycle = field(default_factory=Lifecycle)
    model: Any = None
    """A chat model or the name of one; the network's default model if there is none."""
    mcp_servers: Sequence[Any] | McpTools = ()
    """MCP servers whose tools are added as `<server>-<tool>`; or McpTools, which their owner closes."""
    history: ThreadHistory | None = None
    """Storage of conversations, for an agent that is run alone."""
    max_iter: int = 0
    """Maximum number of model calls in one call of the agent; 0: one, followed by its tool calls."""
    retries: int | RetryPolicy = RETRIES
    """Retries of a failed model call, with exponential backoff; or a policy."""
    memory: MemoryStrategy | None = None
    """Selects the part of a long conversation to send to the model; all of it if None."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further fields of ModelRequest: `temperature`, `max_tokens`, `timeout`, `output` and so on."""
    stop_when: Callable[..., Any] | None = None
    """`(result, state, network) -> bool`: True to end the agent before its model is called again."""

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
        if self.tool_choice not in CHOICES and self.tool_choice not in names and not self.mcp_servers:
            hint = suggestion(self.tool_choice, [*CHOICES, *names], noun="Choices")
            yield f"tool_choice is {self.tool_choice!r}. {hint}"
        if not is_count(self.max_iter):
            yield f"max_iter is {self.max_iter!r}. Pass 0 or a positive integer."
        if not (isinstance(self.retries, RetryPolicy) or is_count(self.retries)):
            yield f"retries is {self.retries!r}. Pass 0, a positive integer, or a RetryPolicy."
        for field_name, value, kind, expected in (
            ("lifecycle", self.lifecycle, Lifecycle, "a Lifecycle"),
            ("history", self.history, ThreadHistory | None, "a ThreadHistory"),
            ("assistant", self.assistant, str, "text"),
        ):
            if not isinstance(value, kind):
                yield f"{field_name} is {value!r}. Pass {expected}."
        if is_coroutine_function(getattr(self.lifecycle, "enabled", None)):
            yield "its hook `enabled` is a coroutine function. Pass a plain function."
        if (problem := setting_problem(self.settings)) is not None:
            yield problem

    def with_model(self, model: Any) -> Self:
        """Return the agent with another model."""
        return replace(self, model=model)

    async def all_tools(self) -> Mapping[str, Tool]:
        """Return all tools by name, those of the MCP servers included.

        Raises ToolError for servers that cannot be used, and for one of their tools with the name of another tool.
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
        """The agent's own model, connected if it was given by name; None if it has none."""
        return as_chat_model(self.model) if self.model is not None else None

    @cached_property
    def graph(self) -> CompiledGraph:
        """The compiled graph that a call of the agent runs."""
        return self.runner.compile(self)

    def alone(self, **options: Any) -> SoloNetwork:
        """Return a network of this agent alone, which calls it once; `options` are those of `Network`."""
        return self.runner.network_of(self, **options)

    def run(self, input: Any, *, model: Any = None, **options: Any) -> AgentResult:  # noqa: A002  # the field's word
        """Run the agent alone on an input and return its result; `options` are those of `Network.run`.

        `model` and `max_iter` replace the agent's own. Raises InvalidConfig if the run is interrupted: to resume it,
        use the network that `alone` returns.
        """
        agent, options = self._with_run_options(model, options)
        return _only_result(agent.alone().run(input, **options))

    async def arun(self, input: Any, *, model: Any = None, **options: Any) -> AgentResult:  # noqa: A002
        """Like `run`, on the running event loop."""
        agent, options = self._with_run_options(model, options)
        return _only_result(await agent.alone().arun(input, **options))

    def stream(self, input: Any, *, model: Any = None, **options: Any) -> Iterator[Any]:  # noqa: A002
        """Yield the parts of a run as they arrive; see `Network.stream`."""
        agent, options = self._with_run_options(model, options)
        return agent.alone().stream(input, **options)

    def astream(self, input: Any, *, model: Any = None, **options: Any) -> AsyncIterator[Any]:  # noqa: A002
        """Like `stream`, on the running event loop."""
        agent, options = self._with_run_options(model, options)
        return agent.alone().astream(input, **options)

    def _with_run_options(self, model: Any, options: dict[str, Any]) -> tuple[Self, dict[str, Any]]:
        """Return the agent with the model and `max_iter` of one run, and the options to pass on to its network."""
        own_options = {"model": model, "max_iter": options.get("max_iter")}
        changes: dict[str, Any] = {name: value for name, value in own_options.items() if value is not None}
        run_options = {name: value for name, value in options.items() if name != "max_iter"}
        return replace(self, **changes) if changes else self, run_options


def as_tool(tool: Any) -> Tool:
    """Return a tool unchanged, or converted from a function or a LangChain tool.

    Raises InvalidConfig for anything else.
    """
    if hasattr(tool, "parameters") and hasattr(tool, "call"):
        return tool
    is_langchain = is_langchain_tool(tool)
    if not is_langchain and not callable(tool):
        raise InvalidConfig(f"{tool!r} is not a tool. Pass a tool, or a function with annotations and a docstring.")
    try:
        return LangChainTool(tool) if is_langchain else ToolFunction(tool)
    except ToolError as error:
        raise InvalidConfig(str(error)) from error


def is_count(value: object) -> bool:
    """Return True for an integer of at least 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _only_result(run: Any) -> AgentResult:
    if run.interrupts:
        questions = "; ".join(repr(interrupt.value) for interrupt in run.interrupts)
        raise InvalidConfig(
            f"Agent {run.name!r} waits for answers ({questions}), so there is no result yet. Use agent.alone(), run it "
            f"with a checkpointer and a thread_id, and answer with run(Command(resume=...))."
        )
    return run.results[-1]
