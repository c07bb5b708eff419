"""The conversation of an assistant with tools: its model calls tools until it answers.

    remember -> model -> tools (each call a task of its own) -> model ... until it answers

It is a graph that the node of the state calls, so each arrow is a saved superstep: after a crash, finished tool calls
are not repeated. Data that the state has anyway, such as the history of its branch, is passed along and not saved
again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final, TypedDict

from statewright.agents import ToolContext, answer_call, ask
from statewright.channels import add_messages
from statewright.errors import ModelAnswerInvalid
from statewright.graph import END, START, Command, RetryPolicy, Runtime, Send
from statewright.messages import Message, ToolCall
from statewright.models import ChatModel, ModelRequest, ModelResponse, ToolSpec
from statewright.runtime import CompiledGraph, StateGraph
from statewright.workflow.states.handlers.assistant_tools import LazyToolSet
from statewright.workflow.states.handlers.call import Call, Outcome, format_task
from statewright.workflow.states.handlers.summaries import HistorySummarizer

MOST_ROUNDS: Final = 25
"""The maximum number of rounds of tool calls before the model has to answer."""
KEY: Final = "conversation"
"""Distinguishes this subgraph call from those that a tool may make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantConversation:
    """Inputs of one conversation. They are passed with the call; the graph stores the messages only."""

    call: Call
    model: ChatModel
    memory: HistorySummarizer
    tools: LazyToolSet
    request: Callable[[Sequence[Message], Sequence[ToolSpec]], ModelRequest]
    """Builds the request to the model from the messages so far and the tools."""
    correction: Callable[[ModelResponse, int], Message | None]
    """Returns a correction for an invalid answer, given the number of answers so far; None for a valid one."""


class ConversationState(TypedDict, total=False):
    """The state of the graph."""

    messages: Annotated[list[Message], add_messages]
    summary: str
    """The summary of the history, if it was too long."""
    rounds: int
    """The number of rounds of tool calls."""
    answers: int
    """The number of answers."""


async def run_conversation(conversation: AssistantConversation, retries: RetryPolicy | None) -> Outcome:
    """Run a conversation and return its outcome. Failed steps are retried one by one according to `retries`."""
    token = _current.set(conversation)
    try:
        end: Any = await conversation_graph(retries).ainvoke({"rounds": 0}, call_key=KEY)
    finally:
        _current.reset(token)
    return Outcome(end["messages"][-1].text, end.get("summary"), end["answers"])


@lru_cache(maxsize=64)
def conversation_graph(retries: RetryPolicy | None) -> CompiledGraph:
    """Return the graph, which is compiled once per retry policy."""
    graph = StateGraph(ConversationState)
    graph.add_node("remember", _remember, retry_policy=retries)
    graph.add_node("model", _model, retry_policy=retries, destinations=["model", "tools", END])
    graph.add_node("tools", _tools)
    graph.add_conditional_edges(START, _first, {"remember": "remember", "model": "model"})
    graph.add_edge("remember", "model")
    graph.add_edge("tools", "model")
    return graph.compile(name="conversation").with_config({"recursion_limit": 4 * MOST_ROUNDS})


def _first(state: Mapping[str, Any]) -> str:
    conversation = _current.get()
    return "remember" if conversation.memory.is_too_long(conversation.call.history) else "model"


async def _remember(state: Mapping[str, Any], runtime: Runtime[Any]) -> dict[str, Any]:
    conversation = _current.get()
    return {"summary": await conversation.memory.summarize(conversation.call, runtime)}


async def _model(state: Mapping[str, Any], runtime: Runtime[Any]) -> Command[Any]:
    """Call the model, and continue with its tool calls, a correction, or the end."""
    conversation = _current.get()
    call, tools = conversation.call, await conversation.tools.load()
    history = conversation.memory.replace_history(call.history, state.get("summary"))
    messages = [*history, Message(format_task(call)), *state.get("messages", ())]
    response = await ask(conversation.model, conversation.request(messages, tools.specs), runtime, name=call.state.id)
    tool_calls = response.message.tool_calls
    if tool_calls:
        update = {"messages": [response.message], "rounds": _count_round(state["rounds"], call)}
        return Command(update=update, goto=[Send("tools", tool_call) for tool_call in tool_calls])
    answers = state.get("answers", 0) + 1
    correction = conversation.correction(response, answers)
    if correction is None:
        return Command(update={"messages": [response.message], "answers": answers}, goto=END)
    return Command(update={"messages": [response.message, correction], "answers": answers}, goto="model")


def _count_round(rounds: int, call: Call) -> int:
    if rounds + 1 >= MOST_ROUNDS:
        raise ModelAnswerInvalid(
            f"The model of state {call.state.id!r} has called tools {MOST_ROUNDS} times without an answer. "
            f"Tell it in the system prompt when to stop, or split the task."
        )
    return rounds + 1


async def _tools(tool_call: ToolCall, runtime: Runtime[Any]) -> dict[str, Any]:
    """Make one tool call. Its result or error becomes a message for the model."""
    tools = await _current.get().tools.load()
    context = ToolContext(
        stream_writer=runtime.stream_writer,
        idempotency_key=runtime.idempotency_key,
        tool_call_id=tool_call.id,
        runtime=runtime,
    )
    return {"messages": [tools.truncate_result(await answer_call(tool_call, tools.by_name, context))]}


_current: Final[ContextVar[AssistantConversation]] = ContextVar("statewright_conversation")
