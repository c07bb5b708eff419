"""Objects that a node may ask for besides the state. The types are here; `runtime/` fills them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeGuard, TypeVar, runtime_checkable

from statewright.checkpoint import Interrupt, stored_as
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
"""Sends one value to readers of the stream mode `custom`; does nothing where there are none."""


class ExecutionInfo:
    """Identifies an execution: for logs, and as an idempotency key."""

    __slots__ = ("attempt", "checkpoint_id", "namespace", "node", "run_id", "step", "task_id", "thread_id", "workspace")

    def __init__(
        self,
        *,
        thread_id: str | None,
        run_id: str,
        namespace: str,
        checkpoint_id: str | None,
        step: int,
        node: str,
        task_id: str,
        attempt: int = 1,
        workspace: str = DEFAULT_WORKSPACE,
    ) -> None:
        self.thread_id = thread_id
        self.run_id = run_id
        self.namespace = namespace
        self.checkpoint_id = checkpoint_id
        self.step = step
        self.node = node
        self.task_id = task_id
        self.attempt = attempt
        self.workspace = workspace
        """To which the thread belongs. What is kept by thread outside of it needs both in its key."""

    def __repr__(self) -> str:
        return f"ExecutionInfo({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


class Host(Protocol):
    """Fills a `Runtime`: see there."""

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
    """Starts child runs: a service, if one keeps the run."""

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
        """Start a run in the transaction that saves the first result of `work`: task ids, the innermost first.

        If the run exists, none is started; if it is `awaited`, its outcome is signalled again.
        """
        ...

    def differs(self, run_id: str, graph: str, input: Any) -> bool:  # noqa: A002
        """Return whether a run with this id exists and has a different graph or input."""
        ...


class Runtime(Generic[Ctx]):
    """The services of the runtime for one execution of a node.

    Ask for it with a parameter named `runtime`, or annotated `Runtime[YourContext]`.
    """

    __slots__ = ("__orig_class__", "_host")

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def context(self) -> Ctx:
        """The caller's dependencies, as given to `invoke(context=...)`; never saved."""
        return self._host.context

    @property
    def store(self) -> Store | None:
        """Memory across threads, if the graph was compiled with one."""
        return self._host.store

    @property
    def stream_writer(self) -> StreamWriter:
        """Sends a value to readers of the stream mode `custom`."""
        return self._host.stream_writer

    @property
    def execution_info(self) -> ExecutionInfo:
        """Identify this execution; computed on access."""
        return self._host.execution_info

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this task, also after a crash: give it to services that know such keys."""
        return self._host.execution_info.task_id

    @property
    def control(self) -> Any:
        """The `RunControl` of the run, by which it can be asked to stop; None if the caller gave none."""
        return self._host.control

    @property
    def drain_requested(self) -> bool:
        """True if the run was asked to stop, so that a long node can end early."""
        control = self._host.control
        return control is not None and control.drain_requested

    @property
    def cancel_requested(self) -> bool:
        """True once this execution is of no use: its run was cancelled or has ended, or its attempt has timed out.

        A plain function cannot be stopped. In a long loop, check this and return.
        """
        return self._host.cancel_requested

    @property
    def clock(self) -> Clock:
        """The clock of the run; a test may have replaced it."""
        return self._host.clock

    @property
    def previous(self) -> Any:
        """In an entrypoint: what its last run on the thread saved."""
        return self._host.previous

    @property
    def state(self) -> Mapping[str, Any]:
        """All channels as they were when the superstep began, read-only: for nodes with an input from a Send."""
        return self._host.state

    def heartbeat(self) -> None:
        """Report that the node is alive: its `idle_timeout` starts again."""
        self._host.heartbeat()

    def step(self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return `function(*args, **kwargs)`, called once however often the node is executed again.

        The result is in the journal of the thread before this returns, so it must be a value that can be saved. Of a
        coroutine function the result is to be awaited. Calls of one name in one task are told apart by their order, and
        what the function does itself is counted apart. Raises NonDeterminismError if the arguments differ from those of
        the call that was done, InvalidUpdateError in a conditional edge of START, where nothing is saved yet. What the
        function raises is raised: the call is not done, and the next one with the same arguments takes its place.
        """
        return self._host.step(name, function, args, kwargs)

    def spend(self, *, tokens: int = 0, cost: float = 0.0) -> None:
        """Count what was used up against the Budget of the call."""
        self._host.spend(tokens, cost)

    def push_message(self, message: Any) -> None:
        """Show a message, or a piece of one, to readers of the stream mode `messages`. The state is not changed."""
        self._host.push_message(message)

    @property
    def remaining_steps(self) -> int:
        """The number of supersteps that the recursion limit allows, this one included."""
        return self._host.remaining_steps

    def check_saveable(self, value: Any) -> None:
        """Raise SerdeError if the run is saved and this value could not be: before it does harm in an update."""
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

        A node whose work ends in a question can keep in the question's value what it must not do again.
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
        """Start a run of another graph, which the service that keeps this run serves under a name.

        With `wait` this run waits for its end, holding nothing meanwhile, and the call returns its output; the node is
        executed again from its first line then, as with `interrupt()`. Else the id of the run is returned at once. The
        run starts once, however often the node is executed, when the work that has called this is saved: a step, a
        `@task`, a node of a subgraph, or the node itself. If an attempt fails, what it has started begins with the
        attempt that succeeds. Cancelling this run cancels it.

        `key` tells runs apart where their order may change; `options` are those of a start: `thread_id`, `timeout`,
        `tags`, `metadata`, `concurrency_key`, `concurrency_limit`, `settings`. Raises ChildRunFailed if the run fails
        or is cancelled, NotFound for a graph there is not, InvalidConfig where no service keeps the run,
        NonDeterminismError if an earlier execution of the node started the run with a different graph or input,
        RunCancelled if the calling attempt was cancelled or timed out.
        """
        return self._host.start_run(graph, input, wait=wait, key=key, options=options)

    def record(self, kind: DurableKind, data: Mapping[str, Any]) -> None:
        """Add an event to the log of the run, told to instruments at once.

        It is saved with the superstep, or before, with the next result of the task that goes into the journal.
        """
        self._host.record(kind, data)


class NodeError:
    """The argument of an error handler: the failed node, its input, and the error."""

    __slots__ = ("error", "input", "node")

    def __init__(self, node: str, error: BaseException, input: Any) -> None:  # noqa: A002  # the field's word
        self.node = node
        self.error = error
        self.input = input

    def __repr__(self) -> str:
        return f"NodeError(node={self.node!r}, error={self.error!r})"


stored_as(51, NodeError, lambda told: [told.node, told.error, told.input], lambda parts: NodeError(*parts))


def is_subgraph(action: object) -> TypeGuard[SubgraphLike]:
    """True if a node's action is a compiled graph. Functions are checked first: that is 30 times faster."""
    return type(action) is not FunctionType and isinstance(action, SubgraphLike)


@runtime_checkable
class SubgraphLike(Protocol):
    """A compiled graph, as far as a graph that holds it as a node needs to know."""

    @property
    def graph(self) -> Any:
        """The frozen graph, for drawing."""
        ...

    def invoke(self, input: Any, config: Any = None) -> Any: ...  # noqa: A002  # the field's word
