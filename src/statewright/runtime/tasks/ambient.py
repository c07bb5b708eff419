"""What a node may ask for, asked for from anywhere inside it: for functions that a node calls, far from its parameters.

Parameters are the usual way; see `graph/context.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, overload

from statewright.errors import InvalidUpdateError
from statewright.graph import Runtime, StreamWriter
from statewright.runtime.tasks.context import RuntimeHost, writer_of
from statewright.runtime.tasks.scope import Scope, current_scope
from statewright.store import Store

C = TypeVar("C")


@overload
def get_runtime(context_schema: type[C]) -> Runtime[C]: ...
@overload
def get_runtime(context_schema: None = None) -> Runtime[Any]: ...
def get_runtime(context_schema: Any = None) -> Runtime[Any]:
    """The runtime of the task that calls. Raises InvalidUpdateError outside a node.

    `context_schema` is for the reader: it says of which type the context is.
    """
    return Runtime(RuntimeHost(_scope("get_runtime()")))


def get_config() -> Mapping[str, Any]:
    """The config of the run that calls. Raises InvalidUpdateError outside a node."""
    return _scope("get_config()").run.node_config()


def get_store() -> Store | None:
    """The store of the run that calls; None if its graph has none. Raises InvalidUpdateError outside a node."""
    return _scope("get_store()").run.store


def get_stream_writer() -> StreamWriter:
    """What sends values of the task that calls to readers of the stream. Raises InvalidUpdateError outside a node."""
    return writer_of(_scope("get_stream_writer()").copy())


def _scope(what: str) -> Scope:
    scope = current_scope()
    if scope is None or scope.task is None:
        raise InvalidUpdateError(
            f"{what} was called outside a node. Call it in a node, or in what a node calls; "
            f"a thread that the node starts itself needs contextvars.copy_context()."
        )
    return scope
