"""An assistant with tools at work: its model is asked, tools are called, and the model is asked again.

    remember -> model -> tools (each call a task of its own) -> model ... until it answers

It is a graph that the node of the state calls, so each arrow is a superstep that is saved: after a crash, tools that
have answered are not called again. What the state knows anyway, as the history of its branch, comes with the call and
is not saved here once more.
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
from statewright.workflow.states.handlers.assistant_tools import OfferedOnce
from statewright.workflow.states.handlers.call import Call, Outcome, told_to_do
from statewright.workflow.states.handlers.summaries import Memory

MOST_ROUNDS: Final = 25
"""How often a model may ask for tools before it has to answer."""
KEY: Final = "conversation"
"""Tells the call of the graph from others that a tool may make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What one conversation is about. It comes with the call; the graph keeps only what is said."""

    call: Call
    model: ChatModel
    memory: Memory
    tools: OfferedOnce
    request: Callable[[Sequence[Message], Sequence[ToolSpec]], ModelRequest]
    """What the model is asked, from what was said before and with which tools."""
    correction: Callable[[ModelResponse, int], Message | None]
    """What the model is told about an answer that will not do, by how often it has answered; None if it will."""


class Said(TypedDict, total=False):
    """The state of the graph."""

    messages: Annotated[list[Message], add_messages]
    summary: str
    """What the history was summed up to, if it had to be."""
    rounds: int
    """How often the model has asked for tools."""
    answers: int
    """How often it has answered."""


async def converse(conversation: Conversation, retries: RetryPolicy | None) -> Outcome:
    """What comes of a conversation. Steps that fail are tried again as `retries` says, and nothing else is."""
    token = _current.set(conversation)
    try:
        end: Any = await conversation_graph(retries).ainvoke({"rounds": 0}, call_key=KEY)
    finally:
        _current.reset(token)
    return Outcome(end["messages"][-1].text, end.get("summary"), end["answers"])


@lru_cache(maxsize=64)
def conversation_graph(retries: RetryPolicy | None) -> CompiledGraph:
    """The graph, compiled once for all that are tried again alike."""
    graph = StateGraph(Said)
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
    return {"summary": await conversation.memory.summary(conversation.call, runtime)}


async def _model(state: Mapping[str, Any], runtime: Runtime[Any]) -> Command[Any]:
    """Ask the model, and go on to the tools that it wants, to another try, or to the end."""
    conversation = _current.get()
    call, tools = conversation.call, await conversation.tools.found()
    history = conversation.memory.shortened(call.history, state.get("summary"))
    said = [*history, Message(told_to_do(call)), *state.get("messages", ())]
    response = await ask(conversation.model, conversation.request(said, tools.specs), runtime, name=call.state.id)
    asked = response.message.tool_calls
    if asked:
        update = {"messages": [response.message], "rounds": _counted(state["rounds"], call)}
        return Command(update=update, goto=[Send("tools", one) for one in asked])
    answers = state.get("answers", 0) + 1
    told = conversation.correction(response, answers)
    if told is None:
        return Command(update={"messages": [response.message], "answers": answers}, goto=END)
    return Command(update={"messages": [response.message, told], "answers": answers}, goto="model")


def _counted(rounds: int, call: Call) -> int:
    if rounds + 1 >= MOST_ROUNDS:
        raise ModelAnswerInvalid(
            f"The model of state {call.state.id!r} has asked for tools {MOST_ROUNDS} times and has given no answer. "
            f"Tell it when to stop, or split the task."
        )
    return rounds + 1


async def _tools(asked: ToolCall, runtime: Runtime[Any]) -> dict[str, Any]:
    """Make one call. Whatever comes of it becomes a message for the model."""
    tools = await _current.get().tools.found()
    context = ToolContext(
        stream_writer=runtime.stream_writer,
        idempotency_key=runtime.idempotency_key,
        tool_call_id=asked.id,
        runtime=runtime,
    )
    return {"messages": [tools.shortened(await answer_call(asked, tools.by_name, context))]}


_current: Final[ContextVar[Conversation]] = ContextVar("statewright_conversation")
