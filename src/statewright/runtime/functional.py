"""Workflows that are written as one function: `@entrypoint` makes it a graph of one node, `@task` makes parts durable.

When the function is executed again, after an interrupt or a crash, calls of tasks that have completed return their
recorded results (see `tasks/journal.py`). A call is identified by the name of the task, and by its ordinal among the
calls with that name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import update_wrapper, wraps
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    overload,
)

from statewright.cache import Cache
from statewright.channels import copy_container
from statewright.checkpoint import Checkpointer, TaskResult
from statewright.clock import Clock, Duration
from statewright.errors import InvalidGraph
from statewright.graph import (
    END,
    START,
    CachePolicy,
    ContextT,
    GraphBuilder,
    InputT,
    RetryPolicy,
    TimeoutPolicy,
    is_coroutine_function,
)
from statewright.runtime.compiled import CompiledGraph
from statewright.runtime.config import ChangedQuestions
from statewright.runtime.core.program import NodeProgram, Program
from statewright.runtime.instrument import Instrument
from statewright.runtime.tasks.context import PREVIOUS
from statewright.runtime.tasks.task_calls import CalledFunction, call_task
from statewright.runtime.tasks.task_future import TaskFuture
from statewright.state import IdSource, UpdateReader

INPUT: Final = "__input__"
RETURN: Final = "__return__"
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
A = TypeVar("A")
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeParameter  # slow to import; see graph/generics.py

    from statewright.store import Store

    ValueT = TypeParameter("ValueT", default=Any)
else:
    ValueT = TypeVar("ValueT")
T = TypeVar("T")


class Final_(Generic[R, S]):  # noqa: N801  # users see it as entrypoint.final
    """Result of an entrypoint that returns one value and saves another; as a type hint `entrypoint.final[R, S]`."""

    __slots__ = ("save", "value")

    def __init__(self, *, value: R, save: S) -> None:
        self.value = value
        """The value that `invoke` returns."""
        self.save = save
        """The value that the next run on the thread receives as `previous`."""


class EntrypointProgram(Program):
    """The program of an entrypoint: the input is any value, and the output is what the function has returned."""

    calls_tasks = True
    passes_state_on = False

    def output(self, values: Mapping[str, Any], *, typed: bool = False, plain: bool = False) -> Any:
        return copy_container(values.get(RETURN))

    def visible_writes(self, result: TaskResult) -> Any:
        return copy_container(dict(cast(Any, result.writes)).get(RETURN))

    def _start(self) -> NodeProgram:
        start = super()._start()
        start.updates = _AnyInput(self.channels, closed=True)
        start.plain_keys = None
        return start


class _AnyInput(UpdateReader):
    """Reads any value as the input, and clears the result of the previous run."""

    @property
    def takes_lists(self) -> bool:
        return True

    def read(self, update: Any, node: str, ids: IdSource) -> dict[str, Any]:
        return {INPUT: update, RETURN: None}

    def _problems_of_keys(self, mapping: Mapping[str, Any], node: str | None) -> dict[str, str]:
        return {}


class EntrypointGraph(CompiledGraph[InputT, ContextT, InputT, ValueT, ValueT], Generic[ContextT, InputT, ValueT]):
    """A function that runs as a graph, created by `@entrypoint`."""

    program_class = EntrypointProgram


class entrypoint(Generic[ContextT]):  # noqa: N801  # a decorator
    """Turn a function into a graph: `invoke(value)` calls the function, durably if there is a checkpointer.

    The first parameter of the function receives the input. Other parameters receive services, as in nodes; `previous`
    receives the value that the last run on the thread has returned, or saved with
    `entrypoint.final(value=..., save=...)`. Raises InvalidGraph if the decorated object is not a function, or is a
    generator function.
    """

    if TYPE_CHECKING:

        class final(Final_[R, S]):  # noqa: N801  # used like entrypoint itself
            """Result of an entrypoint that returns one value and saves another."""
    else:
        final = Final_

    def __init__(
        self,
        checkpointer: Checkpointer | None = None,
        *,
        store: Store | None = None,
        cache: Cache | None = None,
        context_schema: type[ContextT] | None = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        timeout: TimeoutPolicy | Duration | None = None,
        name: str | None = None,
        changed_questions: ChangedQuestions = "warn",
        instruments: Sequence[Instrument] = (),
        clock: Clock | None = None,
    ) -> None:
        self._name = name
        self._context_schema = context_schema
        self._policies = {"retry_policy": retry_policy, "cache_policy": cache_policy, "timeout": timeout}
        self._compile_options = {
            "checkpointer": checkpointer,
            "store": store,
            "cache": cache,
            "changed_questions": changed_questions,
            "instruments": instruments,
            "clock": clock,
        }

    # Type checkers take the first overload that matches. So the overloads for coroutine functions come first, and those
    # for `final` come before those for other results.
    @overload
    def __call__(
        self, function: Callable[Concatenate[A, ...], Coroutine[Any, Any, Final_[R, Any]]]
    ) -> EntrypointGraph[ContextT, A, R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[A, ...], Coroutine[Any, Any, R]]
    ) -> EntrypointGraph[ContextT, A, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[A, ...], Final_[R, Any]]) -> EntrypointGraph[ContextT, A, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[A, ...], R]) -> EntrypointGraph[ContextT, A, R]: ...
    def __call__(self, function: Callable[..., Any]) -> EntrypointGraph[Any, Any, Any]:
        name = self._name or getattr(function, "__name__", "entrypoint")
        if not callable(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidGraph(
                [f"{function!r} is not a function that returns a value. Decorate a function or a coroutine function."]
            )
        builder = GraphBuilder({INPUT: None, RETURN: None, PREVIOUS: None}, self._context_schema, name=name)
        builder.add_node(name, _as_node(function), destinations=(), **cast(Any, self._policies))
        builder.add_edge(START, name).add_edge(name, END)
        graph = builder.freeze(has_store=self._compile_options["store"] is not None)
        return EntrypointGraph(graph, **cast(Any, self._compile_options))


def _as_node(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a node that reads the input from the state, calls the function, and writes the result to the state."""

    def update_with(value: Any) -> dict[str, Any]:
        if isinstance(value, Final_):
            final = cast("Final_[Any, Any]", value)
            return {RETURN: final.value, PREVIOUS: final.save}
        return {RETURN: value, PREVIOUS: value}

    @wraps(function)
    def call(state: Any, /, **injected: Any) -> Any:
        return update_with(function(state[INPUT], **injected))

    @wraps(function)
    async def acall(state: Any, /, **injected: Any) -> Any:
        return update_with(await function(state[INPUT], **injected))

    node = acall if is_coroutine_function(function) else call
    hints = dict(getattr(function, "__annotations__", {}))
    first_parameter = next(iter(inspect.signature(function).parameters), None)
    # The types of the function's input and result are not the types of a state and an update.
    node.__annotations__ = {name: hint for name, hint in hints.items() if name not in (first_parameter, "return")}
    return node


class TaskFunction(Generic[P, T]):
    """A function whose calls in a node are durable and run concurrently. Created by `@task`."""

    def __init__(self, called: CalledFunction) -> None:
        self._called = called
        update_wrapper(self, called.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> TaskFuture[T]:
        """Start a call of the function, and return a future. Await the future, or call its `result()`."""
        return call_task(self._called, args, kwargs)


class _TaskDecorator(Protocol):
    """The decorator that `task(...)` returns if it is called with options."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, T]], /) -> TaskFunction[P, T]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> TaskFunction[P, T]: ...


@overload
def task(function: Callable[P, Coroutine[Any, Any, T]]) -> TaskFunction[P, T]: ...
@overload
def task(function: Callable[P, T]) -> TaskFunction[P, T]: ...
@overload
def task(
    *,
    name: str | None = None,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    cache_policy: CachePolicy | None = None,
    timeout: TimeoutPolicy | Duration | None = None,
) -> _TaskDecorator: ...
def task(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    cache_policy: CachePolicy | None = None,
    timeout: TimeoutPolicy | Duration | None = None,
) -> Any:
    """Turn a function into a task. A call of the task in an entrypoint or a node starts at once, and returns a future.

    The result is saved in the journal of the thread before the future completes, so it must be a value that can be
    stored. The future raises exceptions of the function. They are not recorded, so the next execution of the node calls
    the function again. A call raises NonDeterminismError if its recorded result belongs to other arguments.
    """

    def decorate(function: Callable[..., Any]) -> TaskFunction[..., Any]:
        return TaskFunction(CalledFunction(function, name, retry_policy, cache_policy, timeout))

    return decorate(function) if function is not None else decorate
