"""Objects with `invoke` and `ainvoke` as nodes: Runnables of LangChain, and other objects with the same methods."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any, cast

from statewright.graph.context import is_subgraph

Config = Mapping[str, Any]


class RunnableNode:
    """Calls a Runnable as a node: `ainvoke` under the async driver, `invoke` under the sync one."""

    def __init__(self, runnable: Any) -> None:
        self.runnable = runnable
        self.name = _name(runnable)

    async def __call__(self, state: Any, config: Config) -> Any:
        return await _with_config(self.runnable.ainvoke)(state, config)

    def sync(self, state: Any, config: Config) -> Any:
        """Call `invoke`, for the sync driver."""
        return _with_config(self.runnable.invoke)(state, config)


class SyncRunnable:
    """Calls `invoke` of a Runnable under both drivers."""

    def __init__(self, runnable: Any) -> None:
        self.runnable = runnable
        self.name = _name(runnable)

    def __call__(self, state: Any, config: Config) -> Any:
        return _with_config(self.runnable.invoke)(state, config)


def as_action(action: Any) -> Any:
    """Return the node function for a Runnable; any other action unchanged."""
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
    """Return the function of a conditional edge for a Runnable; any other path unchanged."""
    if type(path) is FunctionType or isinstance(path, type) or callable(path) or not has_method(path, "invoke"):
        return path
    return SyncRunnable(path)


def has_method(value: Any, name: str) -> bool:
    """Return whether an object has a method of that name."""
    return callable(getattr(value, name, None))


def _name(runnable: Any) -> str:
    get_name = getattr(runnable, "get_name", None)
    name = cast(Any, get_name)() if callable(get_name) else getattr(runnable, "name", None)
    return name if isinstance(name, str) else type(runnable).__name__


def _with_config(method: Callable[..., Any]) -> Callable[[Any, Config], Any]:
    """Return the method as a function of state and config. Not every object with `invoke` has a config parameter."""
    try:
        inspect.signature(method).bind(None, None)
    except TypeError:
        return lambda state, config: method(state)
    except ValueError:  # a builtin without a signature
        pass
    return lambda state, config: method(state, dict(config))
