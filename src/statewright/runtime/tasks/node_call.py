"""The call of a node in a worker process: the part of a node that is pickled and sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from statewright.executors.port import SharedValue
from statewright.graph import ExecutionInfo, NodeError, Runtime
from statewright.runtime.tasks.scope import enter_scope
from statewright.runtime.tasks.worker_host import Effect, SuperstepData, WorkerHost, WorkerScope, recording_writer


class Parts(NamedTuple):
    """The argument of a call that needs more than the input of its node. Most are sent that input alone."""

    state: Any
    """The input, with None for the fields to fetch."""
    fields: dict[str, SharedValue] | None
    """The fields of the input that are sent once for all tasks of the superstep."""
    extra: tuple[ExecutionInfo | None, NodeError | None] | None
    """The ids and the error of the task, if the node takes services."""


class NodeCall:
    """The function of a node as a worker calls it. The only part of a node that is sent to workers."""

    __slots__ = ("_scope", "data", "function", "injected", "is_coroutine", "node", "takes_state")

    def __init__(
        self,
        node: str,
        function: Callable[..., Any],
        injected: Sequence[tuple[str, str]],
        data: SuperstepData | None,
        *,
        takes_state: bool,
        is_coroutine: bool,
    ) -> None:
        self.node = node
        self.function = function
        self.injected = injected
        self.data = data
        self.takes_state = takes_state
        self.is_coroutine = is_coroutine
        self._scope: Any = WorkerScope(node)

    def __call__(self, item: Any, effects: list[Effect]) -> Any:
        """Call the function in a worker. `item` is its input, or `Parts`."""
        state, fields, extra = item if type(item) is Parts else (item, None, None)
        if fields:
            state = {name: fields[name].get() if name in fields else value for name, value in state.items()}
        enter_scope(self._scope)  # never left: a worker makes each call in a context of its own
        args = (state,) if self.takes_state else ()
        kwargs = {parameter: self._service(kind, extra, effects) for parameter, kind in self.injected}
        result = self.function(*args, **kwargs)
        return _run_coroutine(result) if self.is_coroutine else result

    def _service(self, kind: str, extra: Any, effects: list[Effect]) -> Any:
        assert self.data is not None
        info, error = extra
        if kind == "runtime":
            return Runtime(WorkerHost(self.data, info, effects))
        if kind == "writer":
            return recording_writer(effects, self.data)
        if kind == "config":
            return self.data.config
        return error

    def __reduce__(self) -> Any:
        return _restore_call, (self.data, self.function, self.injected, self.is_coroutine, self.node, self.takes_state)


def _restore_call(
    data: SuperstepData | None,
    function: Callable[..., Any],
    injected: Sequence[tuple[str, str]],
    is_coroutine: bool,
    node: str,
    takes_state: bool,
) -> NodeCall:
    return NodeCall(node, function, injected, data, takes_state=takes_state, is_coroutine=is_coroutine)


_loop: asyncio.AbstractEventLoop | None = None
"""The event loop of a worker process, kept because creating one costs more than a short call."""


def _run_coroutine(awaitable: Any) -> Any:
    global _loop
    if _loop is None or _loop.is_closed():
        _loop = asyncio.new_event_loop()

    async def wait_for() -> Any:
        return await awaitable

    return _loop.run_until_complete(wait_for())
