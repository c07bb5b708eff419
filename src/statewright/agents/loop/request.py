"""Build the next request to the model of an agent: prompt, conversation and tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

from statewright.agents.agent import Agent, Prompt
from statewright.agents.kwargs_injection import acall_with_kwargs
from statewright.agents.loop.call import AgentCall, RunView
from statewright.agents.loop.context_window import ContextWindow, select_messages
from statewright.agents.state.usage_limits import Allowance
from statewright.agents.tools import Tool
from statewright.agents.tools.calling import tool_options
from statewright.errors import InvalidConfig, ModelError
from statewright.graph import Runtime
from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest, ToolSpec, Usage, repair_tool_rounds

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Inference:
    """One call of a model, before it is made."""

    model: ChatModel
    request: ModelRequest
    window: ContextWindow
    """The selected messages, with the usage and the notes of the agent's memory strategy."""
    allowance: Allowance
    """The usage that the limits of the run still allow."""
    stop: str | None = None
    """The reason not to ask the model, if there is one."""

    @classmethod
    async def prepare(
        cls,
        agent: Agent,
        call: AgentCall,
        view: RunView,
        state: Values,
        tools: Mapping[str, Tool],
        runtime: Runtime[Any],
    ) -> Self:
        """Return the next call of an agent's model. Raises ModelError if it has none."""
        chosen = await build_prompt(agent, call, view, state)
        used = call.usage + Usage(*state.get("usage") or ())
        allowance = Allowance(call.limits, used, call.requests + state.get("requests", 0))
        stop = "stopped" if chosen.stop else "usage_limit" if allowance.is_used_up else None
        notes = {**call.notes.get(agent.name, {}), **state.get("notes", {})}
        memory = agent.memory if stop is None else None
        window = await select_messages(
            memory, chosen.history, runtime, notes=notes, agent=agent.name, allowance=allowance
        )
        if stop is None and allowance.is_used_up:
            stop = "usage_limit"
        opening = [message for message in chosen.prompt if message.role != "system"]
        request = ModelRequest(
            messages=[*window.messages, *opening],
            continue_last=bool(opening),
            system="\n\n".join(one.text for one in chosen.prompt if one.role == "system" and one.text),
            tools=tool_specs(tools.values()),
            tool_choice=next_tool_choice(agent, state),
            metadata={"agent": agent.name, "call_count": call.call_count},
            **agent.settings,
        )
        return cls(resolve_model(agent, call), request, window, allowance, stop)


async def build_prompt(agent: Agent, call: AgentCall, view: RunView, state: Values) -> Prompt:
    """What the model is told and shown, as the hook on_start leaves it."""
    system = agent.system
    if callable(system):
        system = await acall_with_kwargs(system, {**view.kwargs, "agent": agent})
    more = (call.message.metadata or {}).get("system_prompt") if call.message is not None else None
    told = "\n\n".join(text for text in (str(system or ""), more) if text)
    prompt = [Message(told, role="system")] if told else []
    if agent.assistant:
        prompt.append(Message(agent.assistant, role="assistant"))
    history = [*call.history, *repair_tool_rounds(state.get("messages", []))]
    hook = agent.lifecycle.on_start
    if hook is None:
        return Prompt(prompt, history)
    known = {**view.kwargs, "agent": agent, "input": view.network.input, "prompt": prompt, "history": history}
    return _check_prompt(await acall_with_kwargs(hook, known), Prompt(prompt, history), agent)


def _check_prompt(answer: Any, usual: Prompt, agent: Agent) -> Prompt:
    if answer is None:
        return usual
    if isinstance(answer, Prompt) and _are_messages(answer.prompt) and _are_messages(answer.history):
        return answer
    raise InvalidConfig(f"on_start of agent {agent.name!r} answered {answer!r}. Return a Prompt, or None.")


def _are_messages(found: object) -> bool:
    return isinstance(found, list | tuple) and all(isinstance(one, Message) for one in cast("list[Any]", found))


def next_tool_choice(agent: Agent, state: Values) -> str:
    """Return how the model chooses tools in its next answer.

    A choice that forces a call is met by the first one: the model could never end if it were forced again.
    """
    is_met = any(message.tool_calls for message in state.get("messages", ()))
    return "auto" if is_met and agent.tool_choice != "none" and not agent.repeats_tool_choice else agent.tool_choice


def tool_specs(tools: Sequence[Tool] | Any) -> list[ToolSpec]:
    """What a model is told of tools."""
    return [ToolSpec(one.name, one.description, one.parameters, tool_options(one).strict) for one in tools]


def resolve_model(agent: Agent, call: AgentCall) -> ChatModel:
    """The model of a call: that of the run, of the agent, or of its network. Raises ModelError if there is none."""
    model = call.model or agent.chat_model or call.default_model
    if model is None:
        raise ModelError(
            f"Agent {agent.name!r} of {call.network!r} has no model. Give it one, or the network a default_model."
        )
    return model
