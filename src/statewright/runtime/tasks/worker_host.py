"""The runtime that a node receives in a worker process.

A worker has no run: no saver, no readers of streams, no other tasks. So everything that a node may ask of its runtime
is one of three things. *Data* that does not change while a superstep runs is sent along: ids, context, config, the
state. *Effects* that need no answer are returned with the result, and performed by the run when it arrives: values for
streams, spending, log entries. Everything else needs the run during the call, and raises RemoteCallError at once. A
node must never get a wrong answer because it was moved to another process.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """What the nodes of one superstep may ask of the runtime, as data."""

    context: Any
    """The context of the call. A worker has one copy of it in a superstep, which calls share like the original."""
    config: Mapping[str, Any] | None
    """The config of nodes; None if the node does not take it."""
    state: Mapping[str, SharedValue]
    """The fields of the state."""
    has_reader: bool
    """True if somebody listens to events, so that stream writes have an effect."""
    shows_messages: bool
    is_recorded: bool
    remaining_steps: int
    has_system_clock: bool


class WorkerHost:
    """Implements the operations of a `Runtime` in a worker process."""

    __slots__ = ("_effects", "_facts", "_info")

    def __init__(self, facts: StepFacts, info: ExecutionInfo, effects: list[Any]) -> None:
        self._facts = facts
        self._info = info
        self._effects = effects

    # -- data

    @property
    def context(self) -> Any:
        return self._facts.context

    @property
    def state(self) -> Mapping[str, Any]:
        return RemoteState(self._facts.state)

    @property
    def execution_info(self) -> ExecutionInfo:
        return self._info

    @property
    def remaining_steps(self) -> int:
        return self._facts.remaining_steps

    @property
    def shows_messages(self) -> bool:
        return self._facts.shows_messages

    @property
    def is_recorded(self) -> bool:
        return self._facts.is_recorded

    @property
    def cancel_requested(self) -> bool:
        return False  # a call that is pointless is not asked to end: its process is killed

    @property
    def clock(self) -> Clock:
        if not self._facts.has_system_clock:
            self._refuse("runtime.clock, since the run has a clock of its own,")
        return SystemClock()

    # -- effects

    @property
    def stream_writer(self) -> StreamWriter:
        return writer_into(self._effects, self._facts)

    def push_message(self, message: Any) -> None:
        if self._facts.has_reader:
            self._effects.append(("message", message))

    def spend(self, tokens: int, cost: float) -> None:
        self._effects.append(("spend", tokens, cost))

    def record(self, kind: DurableKind, data: Mapping[str, Any]) -> None:
        if self._facts.is_recorded:
            self._effects.append(("record", kind, data))

    # -- what needs the run

    @property
    def store(self) -> Store | None:
        self._refuse("runtime.store")

    @property
    def control(self) -> Any:
        self._refuse("runtime.control, or runtime.drain_requested,")

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


def writer_into(effects: list[Any], facts: StepFacts) -> StreamWriter:
    """Return a stream writer whose values are returned with the result of the node."""
    return (lambda value: effects.append(("custom", value))) if facts.has_reader else _discard


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
    """Stands for the current task in a worker process, and refuses whatever code wants of it.

    `interrupt()`, `get_runtime()`, calls of `@task` functions and of graphs begin with the current task. Without one
    they would believe that they are outside a run: a graph, for example, would run on its own, without the thread, the
    budget and the streams of its caller.
    """

    def __init__(self, node: str) -> None:
        self.__dict__["node"] = node

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)  # of protocols such as copy and pickle
        raise _unavailable(self.__dict__["node"], _USES)


_USES: Final = (
    "this function, like interrupt(), sleep(), wait_for_event(), get_runtime(), get_config(), get_store(), "
    "get_stream_writer() and calls of graphs and @task functions,"
)


def _unavailable(node: str, what: str) -> RemoteCallError:
    return RemoteCallError(
        f"Node {node!r} runs in a worker process, where {what} is not available. Do that in a node without executor=, "
        f"or take what the worker does have (context, config, state, stream writer) from the parameter `runtime`."
    )
