"""Objects that can be injected into nodes besides the state. The types are here; `runtime/` implements them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeGuard, TypeVar, runtime_checkable

from statewright.checkpoint import Interrupt, register_codec
from statewright.clock import Clock
from statewright.events import DurableKind
from statewright.ids import DEFAULT_WORKSPACE
from statewright.store import Store

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeParameter  # slow to import; see generics.py

    Ctx = TypeParameter("Ctx", default=Any, covariant=True)
else:
    Ctx = TypeVar("Ctx", covariant=True)
P = ParamSpec("P")
R = TypeVar("R")
StreamWriter = Callable[[Any], None]
"""Sends one value to readers of the stream mode `custom`; does nothing if there are none."""


@dataclass(slots=True, kw_only=True, eq=False)
class ExecutionInfo:
    """The ids of one execution of a node, for logs and idempotency keys."""

    attempt: int = 1
    checkpoint_id: str | None
    namespace: str
    node: str
    run_id: str
    step: int
    task_id: str
    thread_id: str | None
    workspace: str = DEFAULT_WORKSPACE
    """The workspace of the thread. Thread ids are unique only within it, so keys of external data need both."""


class Host(Protocol):
    """The implementation to which a `Runtime` delegates. The members are documented in `Runtime`."""

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
        input: Any,  # noqa: A002  # the field's word
        *,
        work: Sequence[str],
        awaited: bool,
        options: Mapping[str, Any],
    ) -> None:
        """Start a run in the transaction that saves the first result of a task in `work` (task ids, innermost first).

        A run that exists is not started again, but if it is `awaited`, its outcome is signalled again.
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
        """The caller's dependencies, as passed to `invoke(context=...)`; never saved."""
        return self._host.context

    @property
    def store(self) -> Store | None:
        """Memory across threads, if the graph was compiled with one."""
        return self._host.store

    @property
    def stream_writer(self) -> StreamWriter:
        """A function that sends a value to readers of the stream mode `custom`."""
        return self._host.stream_writer

    @property
    def execution_info(self) -> ExecutionInfo:
        """The ids of this execution; computed on access."""
        return self._host.execution_info

    @property
    def idempotency_key(self) -> str:
        """A key that is equal for all attempts at this task, even after a crash; pass it to idempotent services."""
        return self._host.execution_info.task_id

    @property
    def control(self) -> Any:
        """The `RunControl` of the run, with which the run can be stopped; None if the caller passed none."""
        return self._host.control

    @property
    def drain_requested(self) -> bool:
        """True if the run was asked to stop, so that a long node can end early."""
        control = self._host.control
        return control is not None and control.drain_requested

    @property
    def cancel_requested(self) -> bool:
        """True once the result of this execution is no longer needed.

        This is the case if its run was cancelled or has ended, or if its attempt has timed out. A plain function cannot
        be stopped, so check this in a long loop, and return early.
        """
        return self._host.cancel_requested

    @property
    def clock(self) -> Clock:
        """The clock of the run; a test may have replaced it."""
        return self._host.clock

    @property
    def previous(self) -> Any:
        """In an entrypoint: the value that the last run on the thread saved."""
        return self._host.previous

    @property
    def state(self) -> Mapping[str, Any]:
        """All channels as they were when the superstep began, read-only; useful in nodes whose input is from a Send."""
        return self._host.state

    def heartbeat(self) -> None:
        """Report that the node is alive, which restarts its `idle_timeout`."""
        self._host.heartbeat()

    def step(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return `function(*args, **kwargs)`; when the node is executed again, return the saved result instead.

        The result is saved in the journal of the thread before this returns, so it must be a value that can be saved.
        Await it if the function is a coroutine function. Calls with the same name in one task are identified by their
        order; steps inside the function are numbered separately. Errors of the function are raised and not saved: the
        next call with the same arguments executes it again. Raises NonDeterminismError if the arguments differ from
        those of the saved call, and InvalidUpdateError in a conditional edge of START, where nothing is saved yet.
        """
        return self._host.step(name, function, args, kwargs)

    def spend(self, *, tokens: int = 0, cost: float = 0.0) -> None:
        """Count tokens and cost against the Budget of the call."""
        self._host.spend(tokens, cost)

    def push_message(self, message: Any) -> None:
        """Send a message, or a piece of one, to readers of the stream mode `messages`. The state does not change."""
        self._host.push_message(message)

    @property
    def remaining_steps(self) -> int:
        """The number of supersteps that the recursion limit allows, this one included."""
        return self._host.remaining_steps

    def check_saveable(self, value: Any) -> None:
        """Raise SerdeError now if the run is saved and this value cannot be, instead of when it is committed."""
        self._host.check_saveable(value)

    @property
    def shows_messages(self) -> bool:
        """True if the stream mode `messages` has a reader, so that streaming a model is worthwhile."""
        return self._host.shows_messages

    @property
    def is_recorded(self) -> bool:
        """True if the run has a log or a receiver of events, so that `record` has an effect."""
        return self._host.is_recorded

    def asked(self, key: str) -> Interrupt | None:
        """Return the question that this task asked under a key in an earlier execution; None if there is none.

        A node can store its progress in the value of a question, so that it does not repeat work after the answer.
        """
        return self._host.asked(key)

    def start_run(
        self,
        graph: str,
        input: Any = None,  # noqa: A002  # the field's word
        *,
        wait: bool = True,
        key: str | None = None,
        **options: Any,
    ) -> Any:
        """Start a child run of another graph, by its name in the service that executes this run.

        With `wait` this run is suspended until the child has ended, and the call returns its output; the node is then
        executed again from its first line, as with `interrupt()`. Otherwise the id of the child is returned at once.
        However often the node is executed, the child starts once: when the work that calls it (a step, a `@task`, a
        node of a subgraph, or the node itself) is saved. So if an attempt fails, the one that succeeds starts it.
        Cancelling this run cancels the child.

        `key` identifies the child if the order of calls may change. `options` are those of starting a run: `thread_id`,
        `timeout`, `tags`, `metadata`, `concurrency_key`, `concurrency_limit`, `settings`. Raises ChildRunFailed if the
        child fails or is cancelled, NotFound for an unknown graph, InvalidConfig if no service executes this run,
        NonDeterminismError if an earlier execution of the node started the child with a different graph or input, and
        RunCancelled if the calling attempt was cancelled or timed out.
        """
        return self._host.start_run(graph, input, wait=wait, key=key, options=options)

    def record(self, kind: DurableKind, data: Mapping[str, Any]) -> None:
        """Add an event to the log of the run, and emit it to instruments at once.

        It is saved with the next journal entry of the task, or with the superstep.
        """
        self._host.record(kind, data)


@dataclass(slots=True, eq=False)
class NodeError:
    """The argument of an error handler: the failed node, the error, and the node's input."""

    node: str
    error: BaseException
    input: Any = field(repr=False)  # may be large


register_codec(51, NodeError, lambda value: [value.node, value.error, value.input], lambda fields: NodeError(*fields))


def is_subgraph(action: object) -> TypeGuard[SubgraphLike]:
    """Return True if a node's action is a compiled graph. Functions are ruled out first, which is 30 times as fast."""
    return type(action) is not FunctionType and isinstance(action, SubgraphLike)


@runtime_checkable
class SubgraphLike(Protocol):
    """The part of a compiled graph that is needed to use it as a node."""

    @property
    def graph(self) -> Any:
        """The frozen graph, for drawing."""
        ...

    def invoke(self, input: Any, config: Any = None) -> Any: ...  # noqa: A002  # the field's word
