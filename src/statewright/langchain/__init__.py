"""States with LangChain messages, and conversion between our messages and LangChain's. Needs the extra `langchain`.

LangChain is imported only when a name is used that needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from statewright.extras import optional
from statewright.langchain.channel import LangChainMessages, add_messages
from statewright.langchain.messages import from_langchain, is_langchain_message, to_langchain
from statewright.messages import REMOVE_ALL_MESSAGES

if TYPE_CHECKING:
    from statewright.langchain.classes import (
        InjectedState,
        InjectedStore,
        InjectedToolCallId,
        MessagesState,
        ToolRuntime,
    )

__all__ = [
    "REMOVE_ALL_MESSAGES",
    "InjectedState",
    "InjectedStore",
    "InjectedToolCallId",
    "LangChainMessages",
    "MessagesState",
    "ToolRuntime",
    "add_messages",
    "from_langchain",
    "is_langchain_message",
    "to_langchain",
]


_LAZY: Final = ("InjectedState", "InjectedStore", "InjectedToolCallId", "MessagesState", "ToolRuntime")


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'statewright.langchain' has no attribute {name!r}")
    with optional("States and tools with LangChain's classes need", extra="langchain"):
        return getattr(import_module("statewright.langchain.classes"), name)
