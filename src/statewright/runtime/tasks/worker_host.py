"""The runtime that a node receives in a worker process.

A worker has no run: no saver, no readers of streams, no other tasks. So everything that a node may ask of its runtime
is one of three things. *Data* that does not change while a superstep runs is sent along: ids, context, config, the
state. *Effects* that need no answer are returned with the result, and performed by the run when it arrives: values for
streams, spending, events of the run's log. Everything else needs the run during the call, and raises RemoteCallError at
once. A node must never get a wrong answer because it was moved to another process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from statewright.checkpoint import Interrupt
from statewright.clock import Clock, SystemClock
from statewright.errors import RemoteCallError
from statewright.events import DurableKind
from statewright.executors.port import SharedValue
from statewright.graph import ExecutionInfo, StreamWriter
from statewright.store import Store

Effect = tuple[Any, ...]
"""A side effect of a node: ("custom", value) for a value that it has streamed, ("message",
message), ("spend", tokens, cost), or ("record", kind, data) for an event of the log. Plain tuples, because they are
pickled with each result. `remote_node.perform_effects` performs them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuperstepData:
    """The data of a superstep that one node may ask of its runtime."""

    context: Any
    """The context of the run; None if the node does not take a runtime. In a worker, the calls of the node in one
    superstep normally share one copy."""
    config: Mapping[str, Any] | None
    """The config of nodes; None if the node does not take it."""
    state: Mapping[str, SharedValue]
    """The fields of the state; empty if the node does not take a runtime."""
    has_listener: bool
    """True if a stream or an instrument receives events, so that stream writes have an effect."""
    shows_messages: bool
    """True if the stream mode `messages` has a reader, so that messages are worth streaming."""
    is_recorded: bool
    """True if there is a log or a listener for durable events."""
    remaining_steps: int
    """The number of supersteps before the recursion limit."""
    has_system_clock: bool
    """False if the run has a clock of its own, which a worker cannot have."""


class WorkerHost:
    """Implements the operations of a `Runtime` in a worker process: the protocol `graph.context.Host`."""

    __slots__ = ("_data", "_effects", "_info")

    def __init__(self, data: SuperstepData, info: ExecutionInfo, effects: list[Effect]) -> None:
        self._data = data
        self._info = info
        self._effects = effects

    # -- data

    @property
    def context(self) -> Any:
        return self._data.context

    @property
    def state(self) -> Mapping[str, Any]:
        return RemoteState(self._data.state)

    @property
    def execution_info(self) -> ExecutionInfo:
        return self._info

    @property
    def remaining_steps(self) -> int:
        return self._data.remaining_steps

    @property
    def shows_messages(self) -> bool:
        return self._data.shows_messages

    @property
    def is_recorded(self) -> bool:
        return self._data.is_recorded

    @property
    def cancel_requested(self) -> bool:
        return False  # a call is not asked to stop: if its result is no longer needed, its process is killed

    @property
    def clock(self) -> Clock:
        if not self._data.has_system_clock:
            self._refuse("runtime.clock, because the run has a clock of its own")
        return SystemClock()

    # -- effects

    @property
    def stream_writer(self) -> StreamWriter:
        return recording_writer(self._effects, self._data)

    def push_message(self, message: Any) -> None:
        if self._data.has_listener:
            self._effects.append(("message", message))

    def spend(self, tokens: int, cost: float) -> None:
        self._effects.append(("spend", tokens, cost))

    def record(self, kind: DurableKind, data: Mapping[str, Any]) -> None:
        if self._data.is_recorded:
            self._effects.append(("record", kind, data))

    # -- what needs the run

    @property
    def store(self) -> Store | None:
        self._refuse("runtime.store")

    @property
    def control(self) -> Any:
        self._refuse("runtime.control and runtime.drain_requested")

    @property
    def previous(self) -> Any:
        self._refuse("runtime.previous")

    def heartbeat(self) -> None:
        self._refuse("runtime.heartbeat()")

    def step(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._refuse("runtime.step()")

    def asked(self, key: str) -> Interrupt | None:
        self._refuse("runtime.asked()")

    def start_run(self, graph: str, input: Any, *, wait: bool, key: str | None, options: Mapping[str, Any]) -> Any:  # noqa: A002
        self._refuse("runtime.start_run()")

    def check_saveable(self, value: Any) -> None:
        self._refuse("runtime.check_saveable()")

    def _refuse(self, what: str) -> NoReturn:
        raise _unavailable(self._info.node, what)


def recording_writer(effects: list[Effect], data: SuperstepData) -> StreamWriter:
    """Return a stream writer whose values are returned with the result of the node."""
    return (lambda value: effects.append(("custom", value))) if data.has_listener else _discard


def _discard(value: Any) -> None:
    """Discard a value, because the stream has no reader."""


class RemoteState(Mapping[str, Any]):
    """The state at the start of the superstep. A field is fetched when it is looked up, as a copy."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, SharedValue]) -> None:
        self._fields = fields

    def __getitem__(self, name: str) -> Any:
        return self._fields[name].get()

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


class WorkerScope:
    """A stand-in for the scope of the current task in a worker process. Any use of it raises RemoteCallError.

    `interrupt()`, `get_runtime()`, and calls of `@task` functions and graphs begin with the current scope. Without one
    they would behave as outside a run: a graph, for example, would run on its own, without the thread, the budget and
    the streams of its caller. Logs and traces use `scope.observed_scope` instead.
    """

    def __init__(self, node: str) -> None:
        self._node = node

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") or name == "_node":  # by copy and pickle, also in a copy that has no node yet
            raise AttributeError(name)
        raise _unavailable(self._node, _NEEDS_RUN)


_NEEDS_RUN: Final = (
    "interrupt(), sleep(), wait_for_event(), get_runtime(), get_config(), get_store(), get_stream_writer(), and calls "
    "of graphs and @task functions"
)


def _unavailable(node: str, what: str) -> RemoteCallError:
    return RemoteCallError(
        f"Node {node!r} runs in a worker process, which has no access to its run. Not available there: {what}. Use a "
        f"node without executor= for that, or take what a worker has from the parameters of the node: `runtime` (with "
        f"the context, the state and the stream writer), `config` and `writer`."
    )
