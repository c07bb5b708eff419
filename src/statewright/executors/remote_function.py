"""Functions that are called in other processes, for code that is not a node of its own.

Tools, handlers of custom nodes in YAML workflows and coroutine nodes await such a function. Calls that wait together,
such as those of the items of an iteration, are sent in chunks like the tasks of a node.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

from statewright.errors import InvalidConfig, suggestion
from statewright.executors.chunks import ChunkSizes
from statewright.executors.defaults import DEFAULT_NAMES, default_executor
from statewright.executors.loop_calls import LoopCalls
from statewright.executors.port import Executor, SharedValue, find_resource_problems, pickling_error

P = ParamSpec("P")
R = TypeVar("R")


class RemoteFunction(Generic[P, R]):
    """A coroutine function that calls a plain function on an executor.

    `executor` is an executor, or `process` or `ray` for the one that the program shares. `resources` are those of a
    node. The function runs without a runtime: it has its arguments only. An error that it raises keeps its type; a call
    that cannot be sent raises RemoteCallError, one that has killed its worker again and again WorkerDied. Cancelling
    the coroutine kills a call in progress. Raises InvalidConfig if there is no such executor, if it can never provide
    the resources, and for a coroutine function.
    """

    def __init__(
        self,
        function: Callable[P, R],
        executor: Executor | str = "process",
        *,
        resources: Mapping[str, float] | None = None,
    ) -> None:
        resolved = default_executor(executor) if isinstance(executor, str) else executor
        self._name = f"function {getattr(function, '__name__', repr(function))!r}"
        if resolved is None:
            hint = suggestion(str(executor), DEFAULT_NAMES, noun="Executors")
            raise InvalidConfig(f"There is no executor {executor!r} for {self._name}. {hint}")
        if inspect.iscoroutinefunction(function):
            raise InvalidConfig(f"{self._name.capitalize()} is a coroutine function. Pass a plain function.")
        self._function = function
        self._executor = resolved
        self._resources = dict(resources or {})
        for problem in find_resource_problems(resolved, self._resources):
            raise InvalidConfig(f"{self._name.capitalize()} cannot run on {executor!r}: {problem}.")
        self._sizes = ChunkSizes()
        self._shared: SharedValue | None = None
        self._calls: dict[asyncio.AbstractEventLoop, LoopCalls] = {}
        """The calls on each event loop."""
        update_wrapper(self, function)

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        value, error, _ = await self._calls_here().call((args, kwargs))
        if error is not None:
            raise error
        return value

    def _calls_here(self) -> LoopCalls:
        loop = asyncio.get_running_loop()
        calls = self._calls.get(loop)
        if calls is None:
            open_loops = {other: calls for other, calls in self._calls.copy().items() if not other.is_closed()}
            calls = LoopCalls(
                self._executor,
                self._sent_function(),
                loop,
                name=self._name,
                resources=self._resources,
                sizes=self._sizes,
            )
            self._calls = {**open_loops, loop: calls}
        return calls

    def _sent_function(self) -> SharedValue:
        if self._shared is None:
            try:
                data = self._executor.dumps_function(_Call(self._function))
            except Exception as error:
                raise pickling_error(self._name.capitalize(), error) from error
            self._shared = self._executor.share(data)
        return self._shared


class _Call:
    """Calls the function in a worker."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, item: tuple[tuple[Any, ...], dict[str, Any]], effects: list[Any]) -> Any:
        args, kwargs = item
        return self.function(*args, **kwargs)

    def __reduce__(self) -> Any:
        return _Call, (self.function,)
