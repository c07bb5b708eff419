"""The standard agent as a graph: a loop in which a model requests tool calls until it gives a final answer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Annotated, Any, Final, NotRequired, cast

from typing_extensions import TypedDict  # pydantic rejects typing.TypedDict before Python 3.12

from statewright.agents.agent import DEFAULT_RETRIES, find_setting_problem
from statewright.agents.kwargs_injection import acall_with_kwargs
from statewright.agents.loop.model_call import ask, retry_policy
from statewright.agents.loop.request import MEMORY_NOTES, MemoryNotes, select_messages, tool_specs
from statewright.agents.memory import MemoryStrategy
from statewright.agents.prebuilt.structured import StructuredOutput
from statewright.agents.prebuilt.tool_node import ErrorHandling, ToolNode, requested_calls
from statewright.agents.tools.calling import tool_options
from statewright.channels import add_messages
from statewright.checkpoint import Checkpointer
from statewright.errors import InvalidConfig
from statewright.graph import END, START, Command, RetryPolicy, Runtime, Send
from statewright.langchain import is_langchain_message
from statewright.messages import Message, as_message
from statewright.models import ChatModel, ModelRequest, as_chat_model
from statewright.runtime import CompiledGraph, StateGraph
from statewright.runtime.concurrency.private_loop import run_on_this_thread
from statewright.state import SchemaKind, StateSchema, read_schema
from statewright.store import Store

STRUCTURED_RESPONSE: Final = "structured_response"
"""The field of the state that contains the final answer."""
NO_STEPS_LEFT: Final = "Sorry, I need more steps to process this request."
_STEPS_WITH_TOOLS: Final = 3
"""The supersteps needed for tool calls: the model requests the calls, they are made, and the model answers."""
Hook = Callable[..., Any]


class AgentState(TypedDict):
    """The state of an agent. A custom state may have more fields, and gets those that it lacks."""

    messages: Annotated[list[Message], add_messages]
    structured_response: NotRequired[Any]
    """The final answer, parsed by `response_format`."""


def create_agent(
    model: Any,
    tools: Iterable[Any] | ToolNode = (),
    *,
    prompt: str | Message | Hook | None = None,
    response_format: Any = None,
    pre_model_hook: Hook | None = None,
    post_model_hook: Hook | None = None,
    state_schema: Any = None,
    context_schema: Any = None,
    memory: MemoryStrategy | None = None,
    settings: Mapping[str, Any] | None = None,
    retries: int | RetryPolicy = DEFAULT_RETRIES,
    handle_tool_errors: ErrorHandling = True,
    checkpointer: Checkpointer | None = None,
    store: Store | None = None,
    name: str = "agent",
    **options: Any,
) -> CompiledGraph:
    """Create an agent as a graph: `invoke({"messages": [...]})` returns the conversation, with the agent's messages.

    `model` is a chat model, the name of a model, or a function of `state` and `runtime` that returns either. `prompt`
    is the system prompt, or a function of `state` and `runtime` that returns it. `pre_model_hook` and `post_model_hook`
    become nodes before and after the model. If the hook before the model writes `llm_input_messages` to the state,
    these are sent to the model instead of `messages`. With `response_format`, a class or a JSON Schema, a final answer
    in this form is requested and stored in `structured_response`. `memory` selects the part of a long conversation to
    send. Each tool call is a separate task. `state_schema` is a TypedDict or a dict, to which the fields that the agent
    needs are added. `options` are those of `StateGraph.compile`.

    Raises InvalidConfig for unknown settings, for a `state_schema` of another kind, and for invalid tools or an invalid
    `response_format`.
    """
    problem = find_setting_problem(settings or {})
    if problem is not None:
        raise InvalidConfig(f"Agent {name!r} is invalid: {problem}")
    tool_node = tools if isinstance(tools, ToolNode) else ToolNode(tools, handle_tool_errors=handle_tool_errors)
    output = StructuredOutput(response_format) if response_format is not None else None
    nodes = _ReactNodes(name, model, tool_node, prompt, memory, settings or {}, output, pre_model_hook, post_model_hook)
    schema = _build_schema(state_schema, name, has_pre_hook=pre_model_hook is not None, has_memory=memory is not None)
    graph = StateGraph(schema, context_schema=context_schema)
    if response_format is not None and not isinstance(response_format, Mapping):
        graph.allow_types(response_format)
    nodes.add_to(graph, retry_policy(retries))
    return graph.compile(checkpointer, store=store, name=name, **options)


def create_react_agent(model: Any, tools: Any = (), *, version: str = "v2", **options: Any) -> CompiledGraph:
    """Alias of `create_agent`, under LangGraph's name. Its only `version` is v2, with a task for each tool call."""
    if version != "v2":
        warnings.warn(f"create_react_agent has no version {version!r}; it uses v2: a task per tool call.", stacklevel=2)
    return create_agent(model, tools, **options)


@dataclass(eq=False)
class _ReactNodes:
    """The nodes of an agent, some of which are optional, and the edges between them."""

    name: str
    model: Any
    tools: ToolNode
    prompt: Any
    memory: MemoryStrategy | None
    settings: Mapping[str, Any]
    structured_output: StructuredOutput | None
    pre_hook: Hook | None
    post_hook: Hook | None

    def __post_init__(self) -> None:
        tools = self.tools.tools_by_name.values()
        self._fixed_model = as_chat_model(self.model) if not _is_function(self.model) else None
        self._specs = tool_specs(tools)
        self._return_direct_names = {tool.name for tool in tools if tool_options(tool).return_direct}
        self._first_node = "pre_model_hook" if self.pre_hook is not None else "model"
        self._last_node = "respond" if self.structured_output is not None else END

    def add_to(self, graph: StateGraph, policy: RetryPolicy | None) -> None:
        """Add the nodes and the edges to a graph."""
        first, last = self._first_node, self._last_node
        targets = dict.fromkeys(["tools", "post_model_hook" if self.post_hook is not None else last, END])
        graph.add_edge(START, first)
        if self.pre_hook is not None:
            graph.add_node("pre_model_hook", self.pre_hook)
            graph.add_edge("pre_model_hook", "model")
        graph.add_node("model", self, retry_policy=policy, destinations=list(targets))
        graph.add_node("tools", self.tools)
        if self.post_hook is not None:
            graph.add_node("post_model_hook", self.post_hook)
            graph.add_conditional_edges("post_model_hook", self._after_hook, {"tools": "tools", last: last})
        if self.structured_output is not None:
            graph.add_node("respond", self._respond, retry_policy=policy)
            graph.add_edge("respond", END)
        if self._return_direct_names:
            graph.add_conditional_edges("tools", self._after_tools, {first: first, last: last})
        else:
            graph.add_edge("tools", first)

    def sync(self, state: Any, runtime: Runtime[Any]) -> Command[Any]:
        """Like `__call__`, for the sync driver."""
        return run_on_this_thread(self.__call__, state, runtime, control=runtime.control)

    async def __call__(self, state: Any, runtime: Runtime[Any]) -> Command[Any]:
        """Call the model; then go to the tools that it requests, to the hook after the model, or to the last node."""
        request, update = await self._request(state, runtime)
        response = await ask(await self._model_for(state, runtime), request, runtime, name=self.name)
        message = response.message
        if message.tool_calls and runtime.remaining_steps < _STEPS_WITH_TOOLS:
            message = Message(NO_STEPS_LEFT, role="assistant", id=message.id, name=self.name)
        goto: Any = [Send("tools", call) for call in message.tool_calls] or self._last_node
        if self.post_hook is not None:
            goto = "post_model_hook"
        return Command(update={"messages": [message], **update}, goto=goto)

    async def _request(self, state: Any, runtime: Runtime[Any]) -> tuple[ModelRequest, dict[str, Any]]:
        """Return the next request, and the state update with the new notes of the agent's memory strategy.

        The update is empty if there are no notes.
        """
        messages = _as_messages(state.get("llm_input_messages") or state.get("messages") or ())
        all_notes: Mapping[str, Any] = state.get(MEMORY_NOTES) or {}
        own_notes = all_notes.get(self.name)
        window = await select_messages(self.memory, messages, runtime, notes=own_notes, agent=self.name)
        system, messages = await self._apply_prompt(state, window.messages, runtime)
        request = ModelRequest(
            messages=messages,
            system=system,
            tools=self._specs,
            metadata={"agent": self.name, "state": state},
            **self.settings,
        )
        return request, {MEMORY_NOTES: {self.name: dict(window.notes)}} if window.notes else {}

    async def _apply_prompt(self, state: Any, messages: Sequence[Message], runtime: Runtime[Any]) -> tuple[str, Any]:
        """Return the system prompt and the other messages to send.

        Leading system messages of the conversation become part of the system prompt. A prompt that is a list replaces
        the whole conversation.
        """
        prompt = self.prompt
        if prompt is not None and callable(prompt):
            prompt = await acall_with_kwargs(prompt, {"state": state, "runtime": runtime})
        if is_langchain_message(prompt):
            prompt = as_message(prompt)
        if isinstance(prompt, list):
            return "", [cast(Message, as_message(item)) for item in cast("list[Any]", prompt)]
        if not isinstance(prompt, str | Message | None):
            raise InvalidConfig(
                f"The prompt of agent {self.name!r} is {prompt!r}. Pass text, a message, or a list of messages."
            )
        parts = [prompt.text if isinstance(prompt, Message) else prompt] if prompt else []
        leading = list(takewhile(lambda message: message.role == "system", messages))
        parts += [message.text for message in leading]
        return "\n\n".join(parts), messages[len(leading) :] if leading else messages

    async def _model_for(self, state: Any, runtime: Runtime[Any]) -> ChatModel:
        if self._fixed_model is not None:
            return self._fixed_model
        return as_chat_model(await acall_with_kwargs(self.model, {"state": state, "runtime": runtime}))

    async def _respond(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        """Request the final answer in the form of `response_format`."""
        assert self.structured_output is not None
        request, update = await self._request(state, runtime)
        model = await self._model_for(state, runtime)
        return {STRUCTURED_RESPONSE: await self.structured_output.ask(model, request, runtime), **update}

    def _after_hook(self, state: Any) -> Any:
        """Return sends for the tool calls in the last message, which the hook may have changed; or the last node."""
        return [Send("tools", call) for call in requested_calls(state)] or self._last_node

    def _after_tools(self, state: Any) -> str:
        """Return the first node, to call the model again; or the last node after a call of a `return_direct` tool."""
        messages: Iterator[Any] = map(as_message, reversed(state["messages"]))
        calls = next((message.tool_calls for message in messages if getattr(message, "tool_calls", ())), ())
        return self._last_node if any(call.name in self._return_direct_names for call in calls) else self._first_node


def _as_messages(messages: Sequence[Any]) -> Sequence[Message]:
    """Return the messages of a state as instances of Message: a custom state may have LangChain's messages."""
    if all(type(message) is Message for message in messages):
        return messages
    return [cast(Message, as_message(message)) for message in messages]


def _is_function(model: Any) -> bool:
    """Return True if `model` is a function that returns a model. Models may be callable too, but have these methods."""
    is_model = isinstance(model, type) or hasattr(model, "complete") or hasattr(model, "ainvoke")
    return callable(model) and not is_model


def read_agent_schema(state_schema: Any, *, owner: str, default: Any = AgentState) -> StateSchema:
    """Return the schema of the state of an agent, or of a group of agents, as a copy to which fields can be added.

    It is read from `state_schema`, or from `default` if that is None, and gets the field `messages` if it lacks it.
    Raises InvalidConfig if nodes would not receive the state as a mapping. `owner` is the agent's description in
    errors.
    """
    schema = read_schema(state_schema if state_schema is not None else default).copy()
    if schema.kind is not SchemaKind.MAPPING:
        raise InvalidConfig(
            f"The state_schema of {owner} is {schema.name!r}, which is not a mapping. Declare it as a TypedDict, or as "
            f"a dict of reducers and types."
        )
    if "messages" not in schema.keys:
        schema.add("messages", Annotated[list[Message], add_messages])
    return schema


def _build_schema(state_schema: Any, name: str, *, has_pre_hook: bool, has_memory: bool) -> StateSchema:
    """Return the schema of the state: the user's fields, and the fields that the agent needs."""
    schema = read_agent_schema(state_schema, owner=f"agent {name!r}")
    required_fields: dict[str, Any] = {STRUCTURED_RESPONSE: Any}
    if has_pre_hook:
        required_fields["llm_input_messages"] = list[Message]
    if has_memory:
        required_fields[MEMORY_NOTES] = MemoryNotes
    for name, annotation in required_fields.items():
        if name not in schema.keys:
            schema.add(name, annotation)
    return schema
