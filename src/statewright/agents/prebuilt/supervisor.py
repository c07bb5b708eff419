"""A supervisor: an agent that delegates work to other agents with handoff tools, and continues with their results.

supervisor -> the agents to which it hands over, concurrently -> supervisor -> ... until it hands over to no agent
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from statewright.agents.agent import as_tool
from statewright.agents.prebuilt.handoff import DEFAULT_PREFIX, Handoff, HandoffTool, handoffs_in, tool_name
from statewright.agents.prebuilt.member import (
    MESSAGES,
    Member,
    MemberOutput,
    add_memory_notes_field,
    check_agents,
    stored_types,
)
from statewright.agents.prebuilt.react import create_agent, read_agent_schema
from statewright.checkpoint import Checkpointer
from statewright.errors import InvalidConfig, suggestion
from statewright.graph import END, START, Command, Runtime, Send
from statewright.messages import Message, RemoveMessage, ToolCall, replace
from statewright.runtime import CompiledGraph, StateGraph
from statewright.store import Store

OutputMode = Literal["last_message", "full_history"]
"""Which messages of an agent are added to the conversation: the last one, or all."""


def create_supervisor(
    agents: Sequence[CompiledGraph],
    *,
    model: Any,
    prompt: Any = None,
    tools: Iterable[Any] = (),
    output_mode: OutputMode = "last_message",
    add_handoff_messages: bool = True,
    handoff_tool_prefix: str = DEFAULT_PREFIX,
    response_format: Any = None,
    state_schema: Any = None,
    context_schema: Any = None,
    supervisor_name: str = "supervisor",
    supervisor_options: Mapping[str, Any] | None = None,
    checkpointer: Checkpointer | None = None,
    store: Store | None = None,
    name: str = "team",
    **options: Any,
) -> CompiledGraph:
    """Create a graph in which a supervisor delegates work: `invoke({"messages": [...]})` returns the conversation.

    The supervisor is created by `create_agent` from `model`, `prompt`, `tools`, `response_format` and
    `supervisor_options`. It gets a tool `<handoff_tool_prefix>_<agent>` for each agent for which `tools` has no handoff
    tool. If one answer hands over to several agents, they run concurrently. An agent sees only the task that it was
    given, or the whole conversation if it was given none. The run ends when the supervisor gives an answer without a
    handoff. With `add_handoff_messages=False` the conversation does not contain the handoffs. `options` are those of
    `StateGraph.compile`. Raises InvalidConfig for invalid agents and names, and for a `state_schema` that is neither a
    TypedDict nor a dict.
    """
    if output_mode not in get_args(OutputMode):
        raise InvalidConfig(
            f"output_mode is {output_mode!r}. {suggestion(str(output_mode), get_args(OutputMode), noun='Modes')}"
        )
    members = check_agents(agents, owner=f"Supervisor {name!r}")
    if supervisor_name in members:
        raise InvalidConfig(f"An agent of {name!r} is named {supervisor_name!r}, as is its supervisor. Rename one.")
    own_tools = [as_tool(tool) for tool in tools]
    supervisor = create_agent(
        model,
        [*own_tools, *_handoff_tools(members, own_tools, handoff_tool_prefix)],
        prompt=prompt,
        response_format=response_format,
        state_schema=state_schema,
        context_schema=context_schema,
        name=supervisor_name,
        **(supervisor_options or {}),
    )
    schema = read_agent_schema(state_schema, owner=f"supervisor {name!r}")
    add_memory_notes_field(schema, [supervisor, *members.values()])
    supervisor_node = _SupervisorNode(Member(supervisor, schema), shows_handoffs=add_handoff_messages)
    graph = StateGraph(schema, context_schema=context_schema).allow_types(
        *stored_types([supervisor, *members.values()])
    )
    metadata = supervisor_node.member.metadata()
    graph.add_node(supervisor_name, supervisor_node, destinations=[*members, END], metadata=metadata)
    graph.add_edge(START, supervisor_name)
    for agent in members.values():
        member = Member(agent, schema, shares_response=False)
        worker = _WorkerNode(member, supervisor_name, output_mode, shows_handoffs=add_handoff_messages)
        graph.add_node(member.name, worker, metadata=member.metadata())
        graph.add_edge(member.name, supervisor_name)
    return graph.compile(checkpointer, store=store, name=name, **options)


def _handoff_tools(agents: Iterable[str], own_tools: Sequence[Any], prefix: str) -> list[HandoffTool]:
    """Return a new handoff tool for each agent for which `own_tools` has none.

    Raises InvalidConfig for a handoff tool that names an agent that is not in `agents`, and for duplicate tool names.
    """
    own = [tool for tool in own_tools if isinstance(tool, HandoffTool)]
    names = list(agents)
    for tool in own:
        if tool.agent_name not in names:
            hint = suggestion(tool.agent_name, names, noun="Agents")
            raise InvalidConfig(
                f"Tool {tool.name!r} hands over to {tool.agent_name!r}, which is not one of the agents. {hint}"
            )
    covered = {tool.agent_name for tool in own}
    added = [
        HandoffTool(agent, name=tool_name(agent, prefix), takes_task=True) for agent in names if agent not in covered
    ]
    by_name: dict[str, Any] = {tool.name: tool for tool in own_tools}
    for tool in added:
        if tool.name in by_name:
            raise InvalidConfig(
                f"Two tools of the supervisor are named {tool.name!r}. Rename the agent {tool.agent_name!r}, or pass "
                f"a handoff tool: create_handoff_tool(agent_name={tool.agent_name!r}, name=...)."
            )
        by_name[tool.name] = tool
    return added


class _SupervisorNode:
    """The node of the supervisor."""

    def __init__(self, member: Member, *, shows_handoffs: bool) -> None:
        self.member = member
        self._shows_handoffs = shows_handoffs

    async def __call__(self, state: Any) -> list[Any]:
        output = await self.member.call(state)
        handoffs = handoffs_in(output.messages)
        messages = output.messages if self._shows_handoffs else _without_handoffs(handoffs, output.messages)
        return [output.to_subgraph_result(messages), Command[Any](goto=_handoff_sends(handoffs) or END)]


def _handoff_sends(handoffs: Sequence[Handoff]) -> list[Send]:
    """Return the sends that call the agents, in order.

    There is one send for each handoff with a task. Several handoffs to an agent without a task become a single send.
    """
    sends: list[Send] = []
    for handoff in handoffs:
        send = Send(handoff.to, handoff.task)
        if handoff.task or send not in sends:
            sends.append(send)
    return sends


def _without_handoffs(
    handoffs: Sequence[Handoff], messages: Sequence[Message | RemoveMessage]
) -> list[Message | RemoveMessage]:
    """Return the messages without handoffs and their tool calls."""
    call_ids = {handoff.message.tool_call_id for handoff in handoffs}
    remaining: list[Message | RemoveMessage] = []
    for message in messages:
        if isinstance(message, Message) and message.tool_calls:
            other_calls = tuple(call for call in message.tool_calls if call.id not in call_ids)
            message = replace(message, tool_calls=other_calls)
            if not other_calls and not message.text:
                continue
        if not (isinstance(message, Message) and message.tool_call_id in call_ids):
            remaining.append(message)
    return remaining


class _WorkerNode:
    """The node of an agent to which a supervisor delegates work."""

    def __init__(self, member: Member, supervisor: str, output_mode: OutputMode, *, shows_handoffs: bool) -> None:
        self._member = member
        self._supervisor = supervisor
        self._output_mode = output_mode
        self._shows_handoffs = shows_handoffs

    async def __call__(self, state: Any, runtime: Runtime[Any]) -> Any:
        """Run the agent, and return the messages to add to the conversation.

        `state` is the task of a handoff, possibly empty, or the whole state.
        """
        output = await self._member.call(self._member_input(state, runtime.state) if isinstance(state, str) else state)
        messages = [*(output.messages if self._output_mode == "full_history" else self._last_message(output))]
        if self._shows_handoffs:
            messages.extend(self._handback_messages(runtime.idempotency_key))
        return output.to_subgraph_result(messages)

    def _member_input(self, task: str, state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the input of the agent: the state, in which the task replaces all messages unless it is empty."""
        return {**state, MESSAGES: [Message(task, name=self._supervisor)]} if task else state

    def _last_message(self, output: MemberOutput) -> list[Message | RemoveMessage]:
        """Return the last message, if there is one, in a list.

        A tool result becomes an assistant message, because the conversation does not contain its call.
        """
        last = output.last
        if last is None:
            return []
        if last.role == "assistant" and not last.tool_calls:
            return [last if last.name else replace(last, name=self._member.name)]
        return [Message(last.text, "assistant", last.id, self._member.name)]

    def _handback_messages(self, key: str) -> list[Message]:
        """Return a tool call and a result that hand back to the supervisor; `key` makes the id of the call unique.

        Without them the conversation could end with an assistant message, which the supervisor's model might continue.
        """
        call = ToolCall(f"back-{key}", tool_name(self._supervisor, "transfer_back_to"))
        text = f"Handed back to {self._supervisor}."
        return [
            Message("", "assistant", name=self._member.name, tool_calls=(call,)),
            Message(text, "tool", name=call.name, tool_call_id=call.id),
        ]
