"""What the model of an agent is asked: its prompt, the conversation, and the tools that it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

from statewright.agents.agent import Agent
from statewright.agents.call import AgentCall, View
from statewright.agents.given import await_with
from statewright.agents.lifecycle import Prompt
from statewright.agents.remembering import remembered
from statewright.agents.tool_call import in_call_order, options_of, without_gaps
from statewright.agents.tools import Tool
from statewright.errors import InvalidConfig, ModelError
from statewright.graph import Runtime
from statewright.messages import Message
from statewright.models import ChatModel, ModelRequest, ToolSpec, Usage

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Inference:
    """One call of a model, before it is made."""

    model: ChatModel
    request: ModelRequest
    stop: str | None = None
    """Why the model is not asked, if it is not."""

    @classmethod
    async def of(
        cls,
        agent: Agent,
        call: AgentCall,
        view: View,
        state: Values,
        tools: Mapping[str, Tool],
        runtime: Runtime[Any],
    ) -> Self:
        """What an agent asks its model now. Raises ModelError if it has none."""
        chosen = await prompt_of(agent, call, view, state)
        history = await remembered(agent.memory, chosen.history, runtime)
        request = ModelRequest(
            messages=[*without_gaps(history), *(one for one in chosen.prompt if one.role != "system")],
            system="\n\n".join(one.text for one in chosen.prompt if one.role == "system" and one.text),
            tools=specs_of(tools.values()),
            tool_choice=agent.tool_choice,
            metadata={"agent": agent.name, "call_count": call.call_count},
            **agent.settings,
        )
        return cls(model_of(agent, call), request, "stopped" if chosen.stop else _limit(call, state))


async def prompt_of(agent: Agent, call: AgentCall, view: View, state: Values) -> Prompt:
    """What the model is told and shown, as the hook on_start leaves it."""
    system = agent.system
    if callable(system):
        system = await await_with(system, {**view.known, "agent": agent})
    more = (call.message.metadata or {}).get("system_prompt") if call.message is not None else None
    told = "\n\n".join(text for text in (str(system or ""), more) if text)
    prompt = [Message(told, role="system")] if told else []
    if agent.assistant:
        prompt.append(Message(agent.assistant, role="assistant"))
    history = [*call.history, *in_call_order(state.get("messages", []))]
    hook = agent.lifecycle.on_start
    if hook is None:
        return Prompt(prompt, history)
    known = {**view.known, "agent": agent, "input": view.network.input, "prompt": prompt, "history": history}
    return _checked(await await_with(hook, known), Prompt(prompt, history), agent)


def _checked(answer: Any, usual: Prompt, agent: Agent) -> Prompt:
    if answer is None:
        return usual
    if isinstance(answer, Prompt) and _are_messages(answer.prompt) and _are_messages(answer.history):
        return answer
    raise InvalidConfig(f"on_start of agent {agent.name!r} answered {answer!r}. Return a Prompt, or None.")


def _are_messages(found: object) -> bool:
    return isinstance(found, list | tuple) and all(isinstance(one, Message) for one in cast("list[Any]", found))


def specs_of(tools: Sequence[Tool] | Any) -> list[ToolSpec]:
    """What a model is told of tools."""
    return [ToolSpec(one.name, one.description, one.parameters, options_of(one).strict) for one in tools]


def model_of(agent: Agent, call: AgentCall) -> ChatModel:
    """The model of a call: that of the run, of the agent, or of its network. Raises ModelError if there is none."""
    model = call.model or agent.chat_model or call.default_model
    if model is None:
        raise ModelError(
            f"Agent {agent.name!r} of {call.network!r} has no model. Give it one, or the network a default_model."
        )
    return model


def _limit(call: AgentCall, state: Values) -> str | None:
    """That a limit leaves no room for another call of a model."""
    if call.limits is None:
        return None
    usage = call.usage + Usage(*state.get("usage") or ())
    reached = call.limits.reached(usage, call.requests + state.get("requests", 0))
    return "usage_limit" if reached else None
