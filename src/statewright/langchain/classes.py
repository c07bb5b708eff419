"""Subclasses of LangChain classes, under LangGraph's names: markers for injected tool parameters, and a state.

For our agents, the markers of `statewright.agents` are equivalent. But LangChain does not recognise those markers: if a
tool that has them is passed to `bind_tools` of a LangChain model, the model sees the injected parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, TypeVar

from langchain_core.messages import AnyMessage
from langchain_core.tools import InjectedToolArg, InjectedToolCallId
from langchain_core.tools.base import _DirectlyInjectedToolArg  # pyright: ignore  # LangGraph derives from it too
from typing_extensions import TypedDict  # pydantic rejects typing.TypedDict below Python 3.12

from statewright.langchain.channel import add_messages

ContextT = TypeVar("ContextT")
StateT = TypeVar("StateT")

__all__ = ["InjectedState", "InjectedStore", "InjectedToolCallId", "MessagesState", "ToolRuntime"]


class InjectedState(InjectedToolArg):
    """Marks a parameter that receives the state as a dict; or, with `field`, the value of one field of the state."""

    def __init__(self, field: str | None = None) -> None:
        self.field = field


class InjectedStore(InjectedToolArg):
    """Marks a parameter that receives the store."""


@dataclass
class ToolRuntime(_DirectlyInjectedToolArg, Generic[ContextT, StateT]):  # pyright: ignore
    """The state, the store and the context of a tool call. A tool gets it through a parameter with this annotation."""

    state: StateT
    context: ContextT
    config: Mapping[str, Any]
    """A RunnableConfig."""
    stream_writer: Callable[[Any], None]
    tool_call_id: str | None
    store: Any
    tools: Sequence[Any] = field(default_factory=list[Any])
    execution_info: Any = None


class MessagesState(TypedDict):
    """A state with one field, `messages`: a list of LangChain messages, which `add_messages` merges."""

    messages: Annotated[list[AnyMessage], add_messages]
