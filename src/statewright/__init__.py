"""Statewright: typed state graphs on a superstep runtime.

The modules that define the public names are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = [
    "END",
    "REMOVE_ALL_MESSAGES",
    "START",
    "STOP",
    "AnyValue",
    "AppendReducer",
    "Budget",
    "CachePolicy",
    "CircuitBreaker",
    "Command",
    "CompiledGraph",
    "Ephemeral",
    "EphemeralReducer",
    "GraphBuilder",
    "InMemoryCache",
    "InMemorySaver",
    "InMemoryStore",
    "Instrument",
    "Interrupt",
    "IsLastStep",
    "Message",
    "MessagesState",
    "MessagesStateGraph",
    "NodeError",
    "Overwrite",
    "OverwriteReducer",
    "RateLimit",
    "RemainingSteps",
    "RemoveMessage",
    "RetryPolicy",
    "RunControl",
    "Runtime",
    "Send",
    "StateGraph",
    "StateSchema",
    "StatewrightError",
    "TimeoutPolicy",
    "ToolCall",
    "ToolResult",
    "Topic",
    "Untracked",
    "add_messages",
    "append",
    "entrypoint",
    "get_config",
    "get_runtime",
    "get_store",
    "get_stream_writer",
    "interrupt",
    "overwrite",
    "request_approval",
    "sleep",
    "task",
    "wait_for_event",
]

if TYPE_CHECKING:
    from statewright.cache import InMemoryCache
    from statewright.channels import (
        AnyValue,
        AppendReducer,
        Ephemeral,
        EphemeralReducer,
        Overwrite,
        OverwriteReducer,
        Topic,
        Untracked,
        add_messages,
        append,
        overwrite,
    )
    from statewright.checkpoint import InMemorySaver, Interrupt
    from statewright.errors import StatewrightError
    from statewright.graph import (
        END,
        START,
        STOP,
        Budget,
        CachePolicy,
        CircuitBreaker,
        Command,
        GraphBuilder,
        NodeError,
        RateLimit,
        RetryPolicy,
        Runtime,
        Send,
        TimeoutPolicy,
    )
    from statewright.messages import REMOVE_ALL_MESSAGES, Message, RemoveMessage, ToolCall, ToolResult
    from statewright.runtime import (
        CompiledGraph,
        Instrument,
        MessagesStateGraph,
        RunControl,
        StateGraph,
        get_config,
        get_runtime,
        get_store,
        get_stream_writer,
        interrupt,
        sleep,
        wait_for_event,
    )
    from statewright.runtime.functional import entrypoint, task
    from statewright.runtime.tasks.approval import request_approval
    from statewright.state import IsLastStep, RemainingSteps, StateSchema
    from statewright.state.prebuilt import MessagesState
    from statewright.store import InMemoryStore

_NAMES_BY_MODULE = {
    "cache": "InMemoryCache",
    "channels": "AnyValue AppendReducer Ephemeral EphemeralReducer Overwrite OverwriteReducer Topic Untracked "
    "add_messages append overwrite",
    "checkpoint": "InMemorySaver Interrupt",
    "errors": "StatewrightError",
    "graph": "Budget CachePolicy CircuitBreaker Command END GraphBuilder NodeError RateLimit RetryPolicy Runtime START "
    "STOP Send TimeoutPolicy",
    "messages": "REMOVE_ALL_MESSAGES Message RemoveMessage ToolCall ToolResult",
    "runtime": "CompiledGraph Instrument MessagesStateGraph RunControl StateGraph get_config get_runtime get_store "
    "get_stream_writer interrupt sleep wait_for_event",
    "runtime.functional": "entrypoint task",
    "runtime.tasks.approval": "request_approval",
    "state": "IsLastStep RemainingSteps StateSchema",
    "state.prebuilt": "MessagesState",
    "store": "InMemoryStore",
}
_MODULE_BY_NAME = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}


if not TYPE_CHECKING:  # a type checker that saw this function would accept any name

    def __getattr__(name: str) -> object:
        module = _MODULE_BY_NAME.get(name)
        if module is None:
            raise AttributeError(f"module 'statewright' has no attribute {name!r}")
        value = getattr(import_module(f"statewright.{module}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
