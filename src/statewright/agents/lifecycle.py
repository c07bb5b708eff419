"""Functions of people that take part in the life of an agent.

Each is called with what it asks for by the names of its parameters, and may be a coroutine function. Data that it
changes in `network.state` or `state` is kept, like that of a tool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from statewright.messages import Message

Hook = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Prompt:
    """What `on_start` may answer instead: what the model is told, and whether it is asked at all."""

    prompt: Sequence[Message]
    """The system message, and an assistant's beginning of the answer if there is one."""
    history: Sequence[Message]
    """The conversation: the user's message and everything before and after it."""
    stop: bool = False
    """Whether the agent ends here, without a call of its model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """The hooks of one agent."""

    enabled: Hook | None = None
    """`(agent, network, state) -> bool`: whether a router may choose the agent; plain, no coroutine function."""
    on_start: Hook | None = None
    """`(agent, network, state, input, prompt, history) -> Prompt | None`, before every call of the model."""
    on_response: Hook | None = None
    """`(agent, network, state, result) -> AgentResult | None`, before tools are called: changed calls are made."""
    on_finish: Hook | None = None
    """`(agent, network, state, result) -> AgentResult | None`, once, when all tools are through."""
    on_route: Hook | None = None
    """Of a RoutingAgent: `(agent, network, state, result)` -> names of agents, or None to stop."""
