"""The graph of one call of an agent: call the model, make the tool calls, repeat, and build the result.

    infer -> tool (one task for each call) -> infer ... -> finish
          -> ordered (calls that may change the state, one after another)

Every arrow is a saved superstep, so a crash loses only the calls in progress: finished tool calls are not made again,
and saved answers of the model are not requested again. The state of the network is in the `AgentCall` (see `run`); the
state of this graph has only what this call adds to it.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Final

from statewright.agents.agent import Agent
from statewright.agents.kwargs_injection import acall_with_kwargs
from statewright.agents.loop.model_call import ask, cut_short_reason, keep_answer, not_retried, retry_policy
from statewright.agents.loop.request import Inference, next_tool_choice
from statewright.agents.loop.run import RunView, current_call
from statewright.agents.state.result import AgentResult
from statewright.agents.tools import Tool, ToolContext
from statewright.agents.tools.calling import (
    RESULTS,
    answer_message,
    check_saveable,
    failure_message,
    run_tool_call,
    tool_options,
)
from statewright.channels import add_messages
from statewright.errors import InvalidConfig, InvalidUpdateError, ToolError
from statewright.graph import START, Command, Runtime, Send
from statewright.messages import Message, ToolCall
from statewright.models import ModelResponse, Usage, named, repair_tool_rounds
from statewright.runtime import CompiledGraph, StateGraph

Values = Mapping[str, Any]
CALL_A_TOOL: Final = "Answer by calling a tool."
"""Sent to a model that was required to call a tool, but did not."""
_STATE: Final[Mapping[str, Any]] = {
    "messages": add_messages,
    "ordered": list,
    "made": int,
    "scheduled": Annotated[list[str], operator.add],
    "iteration": int,
    "then": str,
    "usage": list,
    "requests": int,
    "notes": dict,
    "stop": str,
    "result": AgentResult,
}
"""The fields of the graph's state. Changed fields of the network's data are added to them, with the prefix `data.`.

- `messages` are the messages of this call, and `iteration` is the number of answers of the model among them;
- `ordered` are the tool calls to make one after another, and `made` is the number of those that are finished;
- `then` is the node to run after the tools, and `stop` is the stop reason that the result gets;
- `scheduled` are the names of the agents that were added to the queue of the network;
- `usage` and `requests` are the usage and the number of all model calls, including those of the memory strategy;
- `notes` are the notes of the agent's memory strategy.
"""


def compile_agent(agent: Agent) -> CompiledGraph:
    """Return the compiled graph of an agent, which must be run inside a `with enter_call(...)` block."""
    nodes = _AgentNodes(agent)
    retries = retry_policy(agent.retries)
    graph = StateGraph(dict(_STATE))
    next_nodes = ["infer", "finish"]
    # Each tool call has an edge to the next node. With `join="idle"` this node runs once, when no other task is left.
    graph.add_node(
        "infer", nodes.infer, join="idle", retry_policy=retries, destinations=["infer", "tool", "ordered", "finish"]
    )
    graph.add_node("tool", nodes.tool)
    graph.add_node("ordered", nodes.ordered, destinations=["ordered", *next_nodes])
    graph.add_node("finish", nodes.finish, join="idle", retry_policy=retries)
    graph.add_edge(START, "infer")
    graph.add_conditional_edges("tool", _after_tools, {node: node for node in next_nodes})
    return graph.compile(name=agent.name)


class _AgentNodes:
    """The nodes of an agent's graph."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def infer(self, state: Values, runtime: Runtime[Any]) -> Command[Any]:
        """Call the model, unless a hook or a limit ends the call of the agent."""
        agent, call = self._agent, current_call()
        run_view = call.build_view(state)
        tools = await agent.all_tools()
        inference = await Inference.prepare(agent, call, run_view, state, tools, runtime)
        window = inference.window
        usage = Usage(*state.get("usage") or ()) + window.usage
        requests = state.get("requests", 0) + window.requests
        update: dict[str, Any] = {"notes": dict(window.notes)} if window.notes else {}
        if inference.stop_reason is not None:
            update |= {"stop": inference.stop_reason, "usage": usage.to_list(), "requests": requests}
            return Command(update={**update, **run_view.update()}, goto="finish")
        if changes := run_view.update():
            runtime.check_saveable(changes)  # before the model call is paid for
        response = await self._call_model(inference, runtime)
        inference.allowance.count(response, named(inference.model, inference.request))
        usage += response.usage
        run_view.network.count(window.usage + response.usage)
        with not_retried():
            messages: Sequence[Message] = [response.message]
            if (hook := agent.lifecycle.on_response) is not None:
                messages = list((await self._call_hook(hook, run_view, self._partial_result(messages))).messages)
            update |= {
                "messages": messages,
                "iteration": state.get("iteration", 0) + 1,
                "requests": requests + 1,
                "usage": usage.to_list(),
            }
            nodes, next_update = await self._next_nodes(messages, tools, state, run_view)
            return Command(update={**update, **next_update, **run_view.update()}, goto=nodes)

    async def _call_model(self, inference: Inference, runtime: Runtime[Any]) -> ModelResponse:
        """Call the model, and return its answer.

        If user code that may fail runs afterwards, the answer is recorded in the journal first.
        """
        agent = self._agent
        call = partial(ask, inference.model, inference.request, runtime, name=agent.name)
        if agent.lifecycle.on_response is None and agent.stop_when is None:
            return await call()
        return await keep_answer(runtime, "the model", call)

    def _partial_result(self, messages: Sequence[Message]) -> AgentResult:
        """Return a result with these messages, for hooks that are called before the result is complete."""
        return AgentResult(agent_name=self._agent.name, messages=messages, created_at=datetime.now(UTC))

    async def _call_hook(self, hook: Any, run_view: RunView, result: AgentResult) -> AgentResult:
        """Call a hook with a result, and return the result that the hook returns, or `result` if it returns None.

        Raises InvalidConfig for any other answer.
        """
        answer = await acall_with_kwargs(hook, {**run_view.kwargs, "agent": self._agent, "result": result})
        if answer is None:
            return result
        if not isinstance(answer, AgentResult):
            raise InvalidConfig(
                f"A hook of agent {self._agent.name!r} returned {answer!r}. Return an AgentResult, or None."
            )
        return answer

    async def _next_nodes(
        self, messages: Sequence[Message], tools: Mapping[str, Tool], state: Values, run_view: RunView
    ) -> tuple[list[str | Send], dict[str, Any]]:
        """Return the next nodes after an answer of the model, and the state update that these nodes need."""
        calls = [call for message in messages for call in message.tool_calls]
        is_last = state.get("iteration", 0) + 1 >= self._agent.max_iter
        if not calls:
            if next_tool_choice(self._agent, state) in ("auto", "none") or is_last:
                return ["finish"], {}
            return ["infer"], {"messages": [*messages, Message(CALL_A_TOOL)]}
        ordered_names = {name for name, tool in tools.items() if getattr(tool, "in_order", False)}
        ordered = [call for call in calls if call.name in ordered_names]
        sends: list[str | Send] = [Send("tool", call) for call in calls if call.name not in ordered_names]
        returns_direct = any(call.name in tools and tool_options(tools[call.name]).return_direct for call in calls)
        stop = None if returns_direct else await self._stop_reason(messages, state, run_view, is_last=is_last)
        then = "finish" if returns_direct or is_last or stop is not None else "infer"
        update = {"ordered": ordered, "made": 0, "then": then, "stop": stop}
        return [*sends, *(["ordered"] if ordered else [])], update

    async def _stop_reason(
        self, messages: Sequence[Message], state: Values, run_view: RunView, *, is_last: bool
    ) -> str | None:
        """Return the reason not to call the model again after the tools; None if it may be called again.

        `is_last` means that `max_iter` does not allow another model call. There is no stop reason if `max_iter` is 0,
        because a single model call is then the normal end.
        """
        agent = self._agent
        if is_last:
            return "max_iter" if agent.max_iter else None
        if agent.stop_when is None:
            return None
        result = self._partial_result([*state.get("messages", ()), *messages])
        return "stop_when" if await acall_with_kwargs(agent.stop_when, {**run_view.kwargs, "result": result}) else None

    async def tool(self, call: ToolCall, runtime: Runtime[Any]) -> dict[str, Any]:
        """Make one tool call."""
        return await self._run_tool(call, current_call().build_view(runtime.state), runtime)

    async def ordered(self, state: Values, runtime: Runtime[Any]) -> Command[Any]:
        """Make the next of the tool calls that must be made in order."""
        calls, count = state["ordered"], state["made"]
        update = await self._run_tool(calls[count], current_call().build_view(state), runtime)
        count += 1
        return Command(update={**update, "made": count}, goto="ordered" if count < len(calls) else _after_tools(state))

    async def _run_tool(self, call: ToolCall, run_view: RunView, runtime: Runtime[Any]) -> dict[str, Any]:
        """Make a tool call, and return the update with its result and the changes that the tool made to the state."""
        context = ToolContext.for_call(call, runtime, state=run_view.state, network=run_view.network, agent=self._agent)
        tools = await self._agent.all_tools()
        try:
            answer = await run_tool_call(call, tools, context, kept=RESULTS)
            update = _tool_update(call, run_view, runtime)
        except Exception as error:
            return {"messages": [failure_message(call, context, error)]}
        return {"messages": [answer_message(call, context, answer)], **update}

    async def finish(self, state: Values, runtime: Runtime[Any]) -> dict[str, Any]:
        """Build the result, which the hook `on_finish` may replace."""
        run_view = current_call().build_view(state)
        messages = repair_tool_rounds(state.get("messages", []))
        last_answer = next((message for message in reversed(messages) if message.role == "assistant"), None)
        result = AgentResult(
            agent_name=self._agent.name,
            messages=messages,
            created_at=datetime.now(UTC),
            id=runtime.idempotency_key,
            usage=Usage(*state.get("usage") or ()),
            requests=state.get("requests", 0),
            stop_reason=state.get("stop") or cut_short_reason(last_answer),
        )
        hook = self._agent.lifecycle.on_finish
        if hook is not None:
            result = await self._call_hook(hook, run_view, result)
        return {"result": result, **run_view.update()}


def _tool_update(call: ToolCall, run_view: RunView, runtime: Runtime[Any]) -> dict[str, Any]:
    """Return the update with the changes that a tool made to the state.

    Raises ToolError if a changed value is invalid or cannot be saved.
    """
    try:
        update = run_view.update()
        if update:
            check_saveable(call, update, runtime)
    except (AttributeError, InvalidUpdateError) as error:
        raise ToolError(f"Tool {call.name!r} wrote an invalid value to the state: {error}") from error
    return update


def _after_tools(state: Values) -> str:
    """Return the node that `infer` chose to run after the tools."""
    return state["then"]
