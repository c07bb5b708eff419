"""Markers for parameters of LangChain's tools that the runtime fills, under LangGraph's names.

Those of `statewright.agents` mean the same to our agents, but LangChain does not know them: a tool that is given to a
model of LangChain with `bind_tools` would show them. These derive from LangChain's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from langchain_core.tools import InjectedToolArg, InjectedToolCallId
from langchain_core.tools.base import _DirectlyInjectedToolArg  # pyright: ignore  # LangGraph derives from it too

ContextT = TypeVar("ContextT")
StateT = TypeVar("StateT")

__all__ = ["InjectedState", "InjectedStore", "InjectedToolCallId", "ToolRuntime"]


class InjectedState(InjectedToolArg):
    """Marks a parameter that gets the state as a dict, or one field of it."""

    def __init__(self, field: str | None = None) -> None:
        self.field = field


class InjectedStore(InjectedToolArg):
    """Marks a parameter that gets the store."""


@dataclass
class ToolRuntime(_DirectlyInjectedToolArg, Generic[ContextT, StateT]):  # pyright: ignore
    """Everything that a call of a tool can be given: the annotation of a parameter, without Annotated."""

    state: StateT
    context: ContextT
    config: Mapping[str, Any]
    """A RunnableConfig."""
    stream_writer: Callable[[Any], None]
    tool_call_id: str | None
    store: Any
    tools: Sequence[Any] = field(default_factory=list[Any])
    execution_info: Any = None
