"""Workflows written as one function: `@entrypoint` makes it a graph of one node, `@task` makes its parts durable.

When the function runs again, after an interrupt or a crash, tasks that were done give what they gave; see
`journal.py`. A task is known by its name and by how often the function has called that name before.
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
from statewright.store import Store

INPUT: Final = "__input__"
RETURN: Final = "__return__"
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
A = TypeVar("A")
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeParameter  # slow to import; see graph/generics.py

    AnswerT = TypeParameter("AnswerT", default=Any)
else:
    AnswerT = TypeVar("AnswerT")
T = TypeVar("T")


class Final_(Generic[R, S]):  # noqa: N801  # users see it as entrypoint.final
    """Answer of an entrypoint whose value for the caller is not what it saves: `entrypoint.final[R, S]` as a hint."""

    __slots__ = ("save", "value")

    def __init__(self, *, value: R, save: S) -> None:
        self.value = value
        """The value that `invoke` returns."""
        self.save = save
        """The value that the next run on the thread gets as `previous`."""


class EntrypointProgram(Program):
    """A graph of one function: any value goes in, and its answer comes out."""

    calls_tasks = True
    passes_state_on = False

    def output(self, values: Mapping[str, Any], *, typed: bool = False, plain: bool = False) -> Any:
        return copy_container(values.get(RETURN))

    def shown(self, result: TaskResult) -> Any:
        return copy_container(dict(cast(Any, result.writes)).get(RETURN))

    def _start(self) -> NodeProgram:
        start = super()._start()
        start.updates = _AnyInput(self.channels, closed=True)
        start.known_plain = None
        return start


class _AnyInput(UpdateReader):
    """Takes whatever is given as the input, and forgets what the last run returned."""

    @property
    def takes_lists(self) -> bool:
        return True

    def read(self, update: Any, node: str, ids: IdSource) -> dict[str, Any]:
        return {INPUT: update, RETURN: None}

    def unknown_in(self, update: Any) -> str | None:
        return None


class EntrypointGraph(CompiledGraph[InputT, ContextT, InputT, AnswerT, AnswerT], Generic[ContextT, InputT, AnswerT]):
    """A function that runs as a graph. Made by `@entrypoint`."""

    program_class = EntrypointProgram


class entrypoint(Generic[ContextT]):  # noqa: N801  # a decorator
    """Make a function a graph: `invoke(value)` calls it, durably if there is a checkpointer.

    The function takes the input, and asks for more by parameter, as nodes do; `previous` is what its last run on the
    thread returned, or what that run saved with `entrypoint.final(value=..., save=...)`. Raises InvalidGraph for what
    is no function, and for generators.
    """

    if TYPE_CHECKING:

        class final(Final_[R, S]):  # noqa: N801  # used like entrypoint itself
            """Answer of an entrypoint whose value for the caller is not what it saves."""
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
        self._compiled = {
            "checkpointer": checkpointer,
            "store": store,
            "cache": cache,
            "changed_questions": changed_questions,
            "instruments": instruments,
            "clock": clock,
        }

    # The answer of a coroutine function comes first, and of two answers that fit the one that is more special.
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
            raise InvalidGraph([f"{function!r} is no function that returns. Decorate a function or coroutine."])
        builder = GraphBuilder({INPUT: None, RETURN: None, PREVIOUS: None}, self._context_schema, name=name)
        builder.add_node(name, _node_of(function), destinations=(), **cast(Any, self._policies))
        builder.add_edge(START, name).add_edge(name, END)
        graph = builder.freeze(has_store=self._compiled["store"] is not None)
        return EntrypointGraph(graph, **cast(Any, self._compiled))


def _node_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a node: the input out of the state, the answer into it."""

    def answered(value: Any) -> dict[str, Any]:
        if isinstance(value, Final_):
            final = cast("Final_[Any, Any]", value)
            return {RETURN: final.value, PREVIOUS: final.save}
        return {RETURN: value, PREVIOUS: value}

    @wraps(function)
    def call(state: Any, /, **asked: Any) -> Any:
        return answered(function(state[INPUT], **asked))

    @wraps(function)
    async def acall(state: Any, /, **asked: Any) -> Any:
        return answered(await function(state[INPUT], **asked))

    node = acall if is_coroutine_function(function) else call
    hints = dict(getattr(function, "__annotations__", {}))
    first = next(iter(inspect.signature(function).parameters), None)
    # The types of the input and of the answer are no state and no update.
    node.__annotations__ = {name: hint for name, hint in hints.items() if name not in (first, "return")}
    return node


class TaskFunction(Generic[P, T]):
    """A function whose calls in a node are durable and run beside each other. Made by `@task`."""

    def __init__(self, called: CalledFunction) -> None:
        self._called = called
        update_wrapper(self, called.function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> TaskFuture[T]:
        """Start the function; ask the future for its result, or await it."""
        return call_task(self._called, args, kwargs)


class _TaskDecorator(Protocol):
    """The decorator that `task(...)` with options returns."""

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
    """Make a function a task: called in an entrypoint or a node it starts at once, and gives a future.

    Its result is in the journal of the thread before anybody gets it, so it must be a value that can be saved. What
    it raises is raised where the result is asked for, and the call counts as not done. Raises NonDeterminismError
    if a call has other arguments than when it was done.
    """

    def decorate(function: Callable[..., Any]) -> TaskFunction[..., Any]:
        return TaskFunction(CalledFunction(function, name, retry_policy, cache_policy, timeout))

    return decorate(function) if function is not None else decorate
