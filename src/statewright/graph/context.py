"""Types of the objects that can be injected into nodes, such as Runtime. `runtime/` implements them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeGuard, TypeVar, runtime_checkable

from statewright.checkpoint import Interrupt, register_codec
from statewright.clock import Clock
from statewright.events import DurableKind
from statewright.ids import DEFAULT_WORKSPACE

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeParameter  # slow to import; see generics.py

    from statewright.store import Store

    Ctx = TypeParameter("Ctx", default=Any, covariant=True)
else:
    Ctx = TypeVar("Ctx", covariant=True)
P = ParamSpec("P")
R = TypeVar("R")
StreamWriter = Callable[[Any], None]
"""Sends a value to the readers of the stream mode `custom`; does nothing if there are none."""


@dataclass(slots=True, kw_only=True, eq=False)
class ExecutionInfo:
    """The ids of one execution of a node, for logs and idempotency keys."""

    attempt: int = 1
    """The number of the attempt, from 1."""
    checkpoint_id: str | None
    namespace: str
    node: str
    run_id: str
    step: int
    task_id: str
    thread_id: str | None
    workspace: str = DEFAULT_WORKSPACE
    """The workspace of the thread. Thread ids are unique only within a workspace, so the keys of data elsewhere should
    contain both."""


class Host(Protocol):
    """The implementation behind a `Runtime`. The members of `Runtime` with the same names are documented there."""

    @property
    def context(self) -> Any: ...
    @property
    def store(self) -> Store | None: ...
    @property
    def stream_writer(self) -> StreamWriter: ...
    @property
    def execution_info(self) -> ExecutionInfo: ...
    @property
    def control(self) -> Any: ...
    @property
    def cancel_requested(self) -> bool: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def previous(self) -> Any: ...
    @property
    def state(self) -> Mapping[str, Any]: ...
    def heartbeat(self) -> None: ...
    def step(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...
    def spend(self, tokens: int, cost: float) -> None: ...
    def push_message(self, message: Any) -> None: ...
    def record(self, kind: DurableKind, data: Mapping[str, Any]) -> None: ...
    def asked(self, key: str) -> Interrupt | None: ...
    def start_run(self, graph: str, input: Any, *, wait: bool, key: str | None, options: Mapping[str, Any]) -> Any: ...  # noqa: A002
    @property
    def is_recorded(self) -> bool: ...
    def check_saveable(self, value: Any) -> None: ...
    @property
    def remaining_steps(self) -> int: ...
    @property
    def shows_messages(self) -> bool: ...


class RunStarter(Protocol):
    """The port for starting child runs; a service implements it."""

    def start(
        self,
        run_id: str,
        graph: str,
        input: Any,  # noqa: A002  # the usual name
        *,
        work: Sequence[str],
        awaited: bool,
        options: Mapping[str, Any],
    ) -> None:
        """Start a run in the transaction that saves the first result of any task in `work`.

        `work` are the ids of the tasks that are starting the run, innermost first. A run that exists is not started
        again. If the caller waits for the run (`awaited`) and it has ended, its outcome is signalled again.
        """
        ...

    def differs(self, run_id: str, graph: str, input: Any) -> bool:  # noqa: A002
        """Return True if a run with this id exists and has a different graph or input."""
        ...


class Runtime(Generic[Ctx]):
    """Gives a node access to its run during one execution, for example to its context, its ids and durable steps.

    It is injected into a parameter that is named `runtime` or annotated with `Runtime[YourContext]`.
    """

    __slots__ = ("__orig_class__", "_host")

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def context(self) -> Ctx:
        """The caller's dependencies, as passed to `invoke(context=...)`. They are never saved."""
        return self._host.context

    @property
    def store(self) -> Store | None:
        """The store with which the graph was compiled; None without one."""
        return self._host.store

    @property
    def stream_writer(self) -> StreamWriter:
        """A function that sends a value to readers of the stream mode `custom`."""
        return self._host.stream_writer

    @property
    def execution_info(self) -> ExecutionInfo:
        """The ids of this execution."""
        return self._host.execution_info

    @property
    def idempotency_key(self) -> str:
        """A key that is the same for all attempts at this task, even after a crash, to pass to external services."""
        return self._host.execution_info.task_id

    @property
    def control(self) -> Any:
        """The `RunControl` of the run, which can ask the run to stop; None if the caller passed none."""
        return self._host.control

    @property
    def drain_requested(self) -> bool:
        """True if the run was asked to stop after the current superstep. A long node should then end early."""
        control = self._host.control
        return control is not None and control.drain_requested

    @property
    def cancel_requested(self) -> bool:
        """True once the result of this execution will not be used.

        That is so if its run was cancelled or has ended, or if the attempt has timed out. A plain function cannot be
        stopped from outside, so a long loop should check this property and return.
        """
        return self._host.cancel_requested

    @property
    def clock(self) -> Clock:
        """The clock of the run, which a test may replace."""
        return self._host.clock

    @property
    def previous(self) -> Any:
        """In an entrypoint: the value that the last run on the thread saved."""
        return self._host.previous

    @property
    def state(self) -> Mapping[str, Any]:
        """A read-only view of all channels as they were when the superstep started.

        It is useful in nodes whose input is the argument of a Send.
        """
        return self._host.state

    def heartbeat(self) -> None:
        """Report that the node is alive, which restarts its `idle_timeout`."""
        self._host.heartbeat()

    def step(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return `function(*args, **kwargs)`; when the node is executed again, return the saved result instead.

        The result is saved in the journal of the thread before this method returns, so it must be a value that can be
        saved. If the function is a coroutine function, await the result of this method. Calls with the same name in one
        task are identified by their order; steps inside the function are numbered separately. An error of the function
        is raised and not saved, so the next execution calls the function again. Raises NonDeterminismError if the
        arguments differ from those of the saved call, and InvalidUpdateError in a conditional edge of START, because
        there is no checkpoint yet to which a result could be added.
        """
        return self._host.step(name, function, args, kwargs)

    def spend(self, *, tokens: int = 0, cost: float = 0.0) -> None:
        """Charge tokens and cost to the Budget of the call, in the units of its limits."""
        self._host.spend(tokens, cost)

    def push_message(self, message: Any) -> None:
        """Send a message, or a part of a message, to the readers of the stream mode `messages`.

        The state does not change.
        """
        self._host.push_message(message)

    @property
    def remaining_steps(self) -> int:
        """The number of supersteps that the recursion limit still permits, including the current one."""
        return self._host.remaining_steps

    def check_saveable(self, value: Any) -> None:
        """Raise SerdeError if the run has a checkpointer and this value cannot be saved.

        Without this check, the error would be raised when the superstep is committed.
        """
        self._host.check_saveable(value)

    @property
    def shows_messages(self) -> bool:
        """True if the stream mode `messages` has a reader, so that it is worthwhile to stream the output of a model."""
        return self._host.shows_messages

    @property
    def is_recorded(self) -> bool:
        """True if the run has an event log, or an instrument that receives events, so that `record` has an effect."""
        return self._host.is_recorded

    def asked(self, key: str) -> Interrupt | None:
        """Return the question that this task asked with this key in an earlier execution; None if there is none.

        A node can store its progress in the value of the question. When it is executed again after the answer, it can
        then continue from there instead of repeating its work.
        """
        return self._host.asked(key)

    def start_run(
        self,
        graph: str,
        input: Any = None,  # noqa: A002  # the usual name
        *,
        wait: bool = True,
        key: str | None = None,
        **options: Any,
    ) -> Any:
        """Start a child run of another graph, by its name in the service that executes this run.

        With `wait=True` this run is suspended until the child has ended. The node is then executed again from its first
        line, as with `interrupt()`, and this call returns the child's output. With `wait=False` the id of the child is
        returned at once.

        The child starts only once, however often the node is executed. It starts when the result of the calling code (a
        step, a `@task`, a node of a subgraph, or the node itself) is saved, so an attempt that fails does not start it.
        Cancelling this run cancels the child.

        Calls are identified by their order. Pass a `key` if the order may change. `options` are options for starting a
        run: `thread_id`, `timeout`, `tags`, `metadata`, `concurrency_key`, `concurrency_limit`, `settings`. Raises
        ChildRunFailed if the child fails or is cancelled, NotFound if the service has no such graph, InvalidConfig if
        no service executes this run, NonDeterminismError if an earlier execution of the node started the child with a
        different graph or input, and RunCancelled if the calling attempt was cancelled or has timed out.
        """
        return self._host.start_run(graph, input, wait=wait, key=key, options=options)

    def record(self, kind: DurableKind, data: Mapping[str, Any]) -> None:
        """Add an event to the event log of the run, and emit it to instruments at once.

        The event is saved with the next journal entry of the task, or with the superstep if there is none.
        """
        self._host.record(kind, data)


@dataclass(slots=True, eq=False)
class NodeError:
    """The argument of an error handler: the name of the failed node, the error, and the node's input."""

    node: str
    error: BaseException
    input: Any = field(repr=False)  # may be large


register_codec(51, NodeError, lambda value: [value.node, value.error, value.input], lambda fields: NodeError(*fields))


def is_subgraph(action: object) -> TypeGuard[SubgraphLike]:
    """Return whether a node's action is a compiled graph."""
    # The first comparison avoids the slow check against a protocol for functions, which are the common case.
    return type(action) is not FunctionType and isinstance(action, SubgraphLike)


@runtime_checkable
class SubgraphLike(Protocol):
    """The members by which a compiled graph is recognized among the actions of nodes."""

    @property
    def graph(self) -> Any:
        """The frozen graph."""
        ...

    def invoke(self, input: Any, config: Any = None) -> Any: ...  # noqa: A002  # the usual name
