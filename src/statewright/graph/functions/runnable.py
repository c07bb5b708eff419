"""Use of objects with `invoke` and `ainvoke` as nodes: LangChain's Runnables, and others with the same methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, cast

from statewright.graph.context import is_subgraph

Config = Mapping[str, Any]


class RunnableNode:
    """A node function that calls a Runnable: `ainvoke` under the async driver, `invoke` under the sync driver."""

    def __init__(self, runnable: Any) -> None:
        self.runnable = runnable
        self.name = _name(runnable)

    async def __call__(self, state: Any, config: Config) -> Any:
        return await _accept_config(self.runnable.ainvoke)(state, config)

    def sync(self, state: Any, config: Config) -> Any:
        """Call `invoke`. The sync driver uses this method in place of `__call__`."""
        return _accept_config(self.runnable.invoke)(state, config)


class SyncRunnable:
    """A function that calls `invoke` of a Runnable under both drivers."""

    def __init__(self, runnable: Any) -> None:
        self.runnable = runnable
        self.name = _name(runnable)

    def __call__(self, state: Any, config: Config) -> Any:
        return _accept_config(self.runnable.invoke)(state, config)


def as_action(action: Any) -> Any:
    """Return a node function that calls a Runnable; return any other action unchanged."""
    if (
        type(action) is FunctionType
        or isinstance(action, type)
        or is_subgraph(action)
        or not has_method(action, "invoke")
    ):
        return action
    if has_method(action, "ainvoke"):
        return RunnableNode(action)
    return action if callable(action) else SyncRunnable(action)


def as_path(path: Any) -> Any:
    """Return a function of a conditional edge that calls a Runnable; return any other path unchanged."""
    if type(path) is FunctionType or isinstance(path, type) or callable(path) or not has_method(path, "invoke"):
        return path
    return SyncRunnable(path)


def has_method(value: Any, name: str) -> bool:
    """Return whether an object has a method with this name."""
    return callable(getattr(value, name, None))


def _name(runnable: Any) -> str:
    get_name = getattr(runnable, "get_name", None)
    name = cast(Any, get_name)() if callable(get_name) else getattr(runnable, "name", None)
    return name if isinstance(name, str) else type(runnable).__name__


def _accept_config(method: Callable[..., Any]) -> Callable[[Any, Config], Any]:
    """Return a function of the state and the config that calls a method, which may lack a config parameter."""
    try:
        inspect.signature(method).bind(None, None)
    except TypeError:
        return lambda state, config: method(state)
    except ValueError:  # a builtin without a signature is assumed to have a config parameter
        pass
    return lambda state, config: method(state, dict(config))
