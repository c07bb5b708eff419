"""Build the next request to an agent's model from the prompt, the conversation and the tools.

If the agent has a memory strategy, the strategy selects the part of the conversation to send.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final, Self, cast

from statewright.agents.agent import Agent, Prompt
from statewright.agents.kwargs_injection import acall_with_kwargs
from statewright.agents.loop.model_call import describe_call, keep_answer
from statewright.agents.loop.run import AgentCall, RunView
from statewright.agents.memory import MemoryContext, MemoryStrategy
from statewright.agents.state.result import Allowance
from statewright.agents.tools import Tool
from statewright.agents.tools.calling import tool_options
from statewright.data.fingerprint import fingerprint
from statewright.errors import InvalidConfig, ModelError
from statewright.graph import Runtime
from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest, ModelResponse, ToolSpec, Usage, named, repair_tool_rounds

MEMORY_NOTES: Final = "memory_notes"
"""The field of a state with the notes of the agents' memory strategies."""


def merge_notes(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the notes of all agents, by name: the new notes of an agent replace its old notes. A reducer."""
    return {**old, **new}


MemoryNotes = Annotated[dict[str, Any], merge_notes]
"""The notes of memory strategies, by agent name, because agents that share a conversation may have different ones."""


@dataclass(slots=True)
class ContextWindow:
    """The messages to send to a model, and the usage of the model calls that were made to select them."""

    messages: Sequence[Message]
    notes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The strategy's notes on the conversation, which are saved with the thread."""
    usage: Usage = field(default_factory=Usage)
    """The usage of the strategy's model calls, for example for summaries."""
    requests: int = 0
    """The number of the strategy's model calls."""


class _LimitReached(Exception):
    """The usage limits do not allow another model call of a memory strategy."""


async def select_messages(
    memory: MemoryStrategy | None,
    messages: Sequence[Message],
    runtime: Runtime[Any],
    *,
    notes: Mapping[str, Any] | None = None,
    agent: str | None = None,
    allowance: Allowance | None = None,
) -> ContextWindow:
    """Return the messages that a memory strategy selects; all messages if `memory` is None.

    `notes` are the strategy's notes that were saved with the thread. The strategy's model calls are logged under the
    name of the agent, and count towards the budget of the run and towards the allowance. If the strategy needs a model
    call when the allowance is used up, the call is not made, and all messages are returned.
    """
    if memory is None:
        return ContextWindow(messages)
    own_notes: MutableMapping[str, Any] = dict(notes or {})
    window = ContextWindow(messages, own_notes)

    def spend_and_log(response: ModelResponse) -> None:
        runtime.spend(tokens=response.usage.tokens, cost=response.usage.cost)
        if runtime.is_recorded:
            runtime.record("model_called", {"purpose": "memory", **describe_call(response, agent=agent)})

    def count(response: ModelResponse) -> None:
        window.usage, window.requests = window.usage + response.usage, window.requests + 1

    async def call_model(model: ChatModel, request: ModelRequest) -> ModelResponse:
        response = await model.complete(request)
        spend_and_log(response)
        return response

    async def ask(model: ChatModel, request: ModelRequest) -> ModelResponse:
        # Every execution of the task counts the call, but only the first one spends from the budget: later executions
        # find the answer in the journal.
        if allowance is not None and allowance.is_used_up:
            raise _LimitReached
        digest = fingerprint([request.system, *((message.role, message.content) for message in request.messages)])
        response = await keep_answer(runtime, f"the memory's model to {digest}", partial(call_model, model, request))
        count(response)
        if allowance is not None:
            allowance.count(response, named(model, request))
        return response

    def count_direct_call(response: ModelResponse) -> None:
        """Count a model call that a strategy made without `MemoryContext.complete`."""
        spend_and_log(response)
        count(response)

    query = next((message.text for message in reversed(messages) if message.role == "user"), "")
    context = MemoryContext(
        query=query,
        thread_id=runtime.execution_info.thread_id,
        store=runtime.store,
        task_id=runtime.idempotency_key,
        on_response=count_direct_call,
        ask=ask,
        notes=own_notes,
    )
    with suppress(_LimitReached):
        window.messages = await memory.select(messages, context=context)
    return window


# -- requests

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Inference:
    """The next call of an agent's model, or the reason not to make it."""

    model: ChatModel
    request: ModelRequest
    window: ContextWindow
    """The selected messages, with the notes and the usage of the agent's memory strategy."""
    allowance: Allowance
    """The usage that the limits of the run still allow."""
    stop_reason: str | None = None
    """The reason not to call the model; None to call it."""

    @classmethod
    async def prepare(
        cls,
        agent: Agent,
        call: AgentCall,
        run_view: RunView,
        state: Values,
        tools: Mapping[str, Tool],
        runtime: Runtime[Any],
    ) -> Self:
        """Return the next call of an agent's model. `state` is the state of the agent's graph.

        Raises ModelError if the agent has no model.
        """
        prompt = await build_prompt(agent, call, run_view, state)
        used = call.usage + Usage(*state.get("usage") or ())
        allowance = Allowance(call.limits, used, call.requests + state.get("requests", 0))
        stop_reason = "stopped" if prompt.stop else "usage_limit" if allowance.is_used_up else None
        notes = {**call.notes.get(agent.name, {}), **state.get("notes", {})}
        memory = agent.memory if stop_reason is None else None
        window = await select_messages(
            memory, prompt.history, runtime, notes=notes, agent=agent.name, allowance=allowance
        )
        if stop_reason is None and allowance.is_used_up:  # used up by the memory strategy
            stop_reason = "usage_limit"
        answer_start = [message for message in prompt.prompt if message.role != "system"]
        request = ModelRequest(
            messages=[*window.messages, *answer_start],
            continue_last=bool(answer_start),
            system="\n\n".join(message.text for message in prompt.prompt if message.role == "system" and message.text),
            tools=tool_specs(tools.values()),
            tool_choice=next_tool_choice(agent, state),
            metadata={"agent": agent.name, "call_count": run_view.network.call_count},
            **agent.settings,
        )
        return cls(resolve_model(agent, call), request, window, allowance, stop_reason)


async def build_prompt(agent: Agent, call: AgentCall, run_view: RunView, state: Values) -> Prompt:
    """Return the prompt and the conversation of the next model call, or those with which `on_start` replaced them."""
    history = [*run_view.state.format_history(call.formatter), *repair_tool_rounds(state.get("messages", []))]
    system = agent.system
    if callable(system):
        system = await acall_with_kwargs(system, {**run_view.kwargs, "agent": agent})
    message = run_view.network.message
    turn_prompt = (message.metadata or {}).get("system_prompt") if message is not None else None
    text = "\n\n".join(part for part in (str(system or ""), turn_prompt) if part)
    prompt = [Message(text, role="system")] if text else []
    if agent.assistant:
        prompt.append(Message(agent.assistant, role="assistant"))
    hook = agent.lifecycle.on_start
    if hook is None:
        return Prompt(prompt, history)
    kwargs = {**run_view.kwargs, "agent": agent, "input": run_view.network.input, "prompt": prompt, "history": history}
    return _check_prompt(await acall_with_kwargs(hook, kwargs), Prompt(prompt, history), agent)


def _check_prompt(answer: Any, default: Prompt, agent: Agent) -> Prompt:
    """Return the answer of `on_start`, or the default if it is None. Raises InvalidConfig for an invalid answer."""
    if answer is None:
        return default
    if isinstance(answer, Prompt) and _are_messages(answer.prompt) and _are_messages(answer.history):
        return answer
    raise InvalidConfig(f"on_start of agent {agent.name!r} returned {answer!r}. Return a Prompt, or None.")


def _are_messages(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, Message) for item in cast("list[Any]", value))


def next_tool_choice(agent: Agent, state: Values) -> str:
    """Return the tool choice for the next answer.

    A choice that forces the model to call a tool applies only until its first tool call, because a model that is always
    forced could never finish. This does not apply to routing agents, see `Agent.repeats_tool_choice`.
    """
    has_called = any(message.tool_calls for message in state.get("messages", ()))
    return "auto" if has_called and agent.tool_choice != "none" and not agent.repeats_tool_choice else agent.tool_choice


def tool_specs(tools: Iterable[Tool]) -> list[ToolSpec]:
    """Return the specifications of tools as they are sent to a model."""
    return [ToolSpec(tool.name, tool.description, tool.parameters, tool_options(tool).strict) for tool in tools]


def resolve_model(agent: Agent, call: AgentCall) -> ChatModel:
    """Return the model that the run sets, or else the agent's own, or else the network's default model.

    Raises ModelError if there is none of these.
    """
    model = call.model or agent.chat_model or call.default_model
    if model is None:
        raise ModelError(
            f"Agent {agent.name!r} of {call.network!r} has no model. "
            f"Pass model= to the agent, or default_model= to the network."
        )
    return model
