"""The graph of one call of an agent: call the model, call its tools, repeat, and build the result.

    infer -> tool (each call a task of its own) -> infer ... -> finish
          -> ordered (calls that change the state, one after another)

Every arrow is a saved superstep, so a crash costs only the call in progress: a finished tool is not called again, and
the model is not asked again for an answer that was saved. The state of the network comes with the `AgentCall` (see
`call`); this graph's state holds only what is new since.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Final

from statewright.agents.agent import Agent
from statewright.agents.kwargs_injection import acall_with_kwargs
from statewright.agents.loop.call import RunView, current_call
from statewright.agents.loop.model_call import ask, cut_short_reason, keep_answer, not_retried, retry_policy
from statewright.agents.loop.request import Inference, next_tool_choice
from statewright.agents.state.result import AgentResult
from statewright.agents.tools import Tool, ToolContext
from statewright.agents.tools.calling import RESULTS, answer_message, failure_message, run_tool_call, tool_options
from statewright.channels import add_messages
from statewright.errors import InvalidConfig, InvalidUpdateError, SerdeError, ToolError
from statewright.graph import START, Command, Runtime, Send
from statewright.messages import Message, ToolCall
from statewright.models import ModelResponse, Usage, named, repair_tool_rounds
from statewright.runtime import CompiledGraph, StateGraph

Values = Mapping[str, Any]
CALL_A_TOOL: Final = "Answer by calling a tool."
"""What a model is told that had to call one and did not."""
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
"""The fields of the data come with their prefix, as they are written. `made` counts those of the `ordered` calls.
`notes` are those of the agent's memory strategy."""


def compile_agent(agent: Agent) -> CompiledGraph:
    """The compiled graph of an agent. It runs within a call, see `call.entered`."""
    steps = _AgentNodes(agent)
    retries = retry_policy(agent.retries)
    graph = StateGraph(dict(_STATE))
    ends = ["infer", "finish"]
    graph.add_node(
        "infer", steps.infer, join="idle", retry_policy=retries, destinations=["infer", "tool", "ordered", "finish"]
    )
    graph.add_node("tool", steps.tool)
    graph.add_node("ordered", steps.ordered, destinations=["ordered", *ends])
    graph.add_node("finish", steps.finish, join="idle", retry_policy=retries)
    graph.add_edge(START, "infer")
    graph.add_conditional_edges("tool", _after_tools, {end: end for end in ends})
    return graph.compile(name=agent.name)


class _AgentNodes:
    """The nodes."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def infer(self, state: Values, runtime: Runtime[Any]) -> Command[Any]:
        """Ask the model, unless a hook or a limit says that this is the end."""
        agent, call = self._agent, current_call()
        view = RunView(call, state)
        tools = await agent.all_tools()
        inference = await Inference.prepare(agent, call, view, state, tools, runtime)
        window = inference.window
        usage = Usage(*state.get("usage") or ()) + window.usage
        requests = state.get("requests", 0) + window.requests
        update: dict[str, Any] = {"notes": dict(window.notes)} if window.notes else {}
        if inference.stop is not None:
            update |= {"stop": inference.stop, "usage": usage.to_list(), "requests": requests}
            return Command(update={**update, **view.update()}, goto="finish")
        _saveable_update(view, runtime)  # what on_start left cannot be refused when the model has been paid
        response = await self._call_model(inference, runtime)
        inference.allowance.count(response, named(inference.model, inference.request))
        usage += response.usage
        view.network.count(window.usage + response.usage)
        with not_retried():
            said = await self._apply_on_response(view, [response.message])
            update |= {
                "messages": said,
                "iteration": state.get("iteration", 0) + 1,
                "requests": requests + 1,
                "usage": usage.to_list(),
            }
            ways, more = await self._next_nodes(said, tools, state, view)
            return Command(update={**update, **more, **view.update()}, goto=ways)

    async def _call_model(self, inference: Inference, runtime: Runtime[Any]) -> ModelResponse:
        """Ask the model. Where a function of the user's follows, which may fail, its answer is kept first."""
        agent = self._agent
        asking = partial(ask, inference.model, inference.request, runtime, name=agent.name)
        if agent.lifecycle.on_response is None and agent.stop_when is None:
            return await asking()
        return await keep_answer(runtime, "the model", asking)

    async def _apply_on_response(self, view: RunView, messages: list[Message]) -> list[Message]:
        """What the model said, as the hook on_response leaves it."""
        hook = self._agent.lifecycle.on_response
        if hook is None:
            return messages
        return list((await self._call_hook(hook, view, self._partial_result(messages))).messages)

    def _partial_result(self, messages: Sequence[Message]) -> AgentResult:
        """What was said so far, as the result that it would be."""
        return AgentResult(agent_name=self._agent.name, messages=messages, created_at=datetime.now(UTC))

    async def _call_hook(self, hook: Any, view: RunView, result: AgentResult) -> AgentResult:
        """What a hook makes of a result. Raises InvalidConfig if that is none."""
        changed = await acall_with_kwargs(hook, {**view.kwargs, "agent": self._agent, "result": result})
        if changed is None:
            return result
        if not isinstance(changed, AgentResult):
            raise InvalidConfig(
                f"A hook of agent {self._agent.name!r} answered {changed!r}. Return an AgentResult, or None."
            )
        return changed

    async def _next_nodes(
        self, said: Sequence[Message], tools: Mapping[str, Tool], state: Values, view: RunView
    ) -> tuple[list[str | Send], dict[str, Any]]:
        """Where it goes on, and what the nodes there have to know."""
        asked = [call for message in said for call in message.tool_calls]
        is_last = state.get("iteration", 0) + 1 >= self._agent.max_iter
        if not asked:
            if next_tool_choice(self._agent, state) in ("auto", "none") or is_last:
                return ["finish"], {}
            return ["infer"], {"messages": [*said, Message(CALL_A_TOOL)]}
        queued = {name for name, tool in tools.items() if getattr(tool, "in_order", False)}
        in_order = [one for one in asked if one.name in queued]
        ways: list[str | Send] = [Send("tool", one) for one in asked if one.name not in queued]
        is_direct = any(one.name in tools and tool_options(tools[one.name]).return_direct for one in asked)
        stop = None if is_direct else await self._stop_reason(said, state, view, is_last=is_last)
        then = "finish" if is_direct or is_last or stop is not None else "infer"
        more = {"ordered": in_order, "made": 0, "then": then, "stop": stop}
        return [*ways, *(["ordered"] if in_order else [])], more

    async def _stop_reason(self, said: Sequence[Message], state: Values, view: RunView, *, is_last: bool) -> str | None:
        """Why the model is not asked again when the tools are through, though it would be; None if it is through."""
        agent = self._agent
        if is_last:
            return "max_iter" if agent.max_iter else None
        if agent.stop_when is None:
            return None
        result = self._partial_result([*state.get("messages", ()), *said])
        return "stop_when" if await acall_with_kwargs(agent.stop_when, {**view.kwargs, "result": result}) else None

    async def tool(self, asked: ToolCall, runtime: Runtime[Any]) -> dict[str, Any]:
        """One call of a tool."""
        view = RunView(current_call(), runtime.state)
        return await self._run_tool(asked, view, runtime)

    async def ordered(self, state: Values, runtime: Runtime[Any]) -> Command[Any]:
        """The next of the calls that are made one after another."""
        calls, made = state["ordered"], state["made"]
        update = await self._run_tool(calls[made], RunView(current_call(), state), runtime)
        made += 1
        return Command(update={**update, "made": made}, goto="ordered" if made < len(calls) else _after_tools(state))

    async def _run_tool(self, asked: ToolCall, view: RunView, runtime: Runtime[Any]) -> dict[str, Any]:
        context = ToolContext(
            stream_writer=runtime.stream_writer,
            idempotency_key=runtime.idempotency_key,
            tool_call_id=asked.id,
            runtime=runtime,
            state=view.state,
            network=view.network,
            agent=self._agent,
        )
        tools = await self._agent.all_tools()
        try:
            answer = await run_tool_call(asked, tools, context, kept=RESULTS)
        except Exception as error:
            return {"messages": [failure_message(asked, context, error)]}
        try:
            update = _tool_update(asked, view, runtime)
        except ToolError as error:
            return {"messages": [failure_message(asked, context, error)]}
        return {"messages": [answer_message(asked, context, answer)], **update}

    async def finish(self, state: Values, runtime: Runtime[Any]) -> dict[str, Any]:
        """The result, as the hook on_finish leaves it."""
        view = RunView(current_call(), state)
        messages = repair_tool_rounds(state.get("messages", []))
        result = AgentResult(
            agent_name=self._agent.name,
            messages=messages,
            created_at=datetime.now(UTC),
            id=runtime.idempotency_key,
            usage=Usage(*state.get("usage") or ()),
            requests=state.get("requests", 0),
            stop_reason=state.get("stop") or _cut_short_reason(messages),
        )
        hook = self._agent.lifecycle.on_finish
        if hook is not None:
            result = await self._call_hook(hook, view, result)
        return {"result": result, **view.update()}


def _cut_short_reason(messages: Sequence[Message]) -> str | None:
    """`length` or `refused` if that is how the model ended its last answer."""
    last = next((message for message in reversed(messages) if message.role == "assistant"), None)
    return cut_short_reason(last) if last is not None else None


def _tool_update(asked: ToolCall, view: RunView, runtime: Runtime[Any]) -> dict[str, Any]:
    """What a tool has changed. Raises ToolError if it could not be saved: then nothing has changed."""
    try:
        update = _saveable_update(view, runtime)
    except SerdeError as error:
        raise ToolError(f"Tool {asked.name!r} wrote to the state what cannot be saved: {error}") from error
    except (AttributeError, InvalidUpdateError) as error:
        raise ToolError(f"Tool {asked.name!r} wrote to the state: {error}") from error
    return update


def _saveable_update(view: RunView, runtime: Runtime[Any]) -> dict[str, Any]:
    """The update that a hook or tool has left. Raises InvalidUpdateError or SerdeError for one that cannot be saved."""
    update = view.update()
    if update:
        runtime.check_saveable(update)
    return update


def _after_tools(state: Values) -> str:
    return state["then"]
