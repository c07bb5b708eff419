"""The options with which a graph can be called, and the types of the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NotRequired, TypedDict, TypeVar

from statewright.checkpoint import Interrupt
from statewright.clock import Duration
from statewright.graph import Budget, ContextT, Memory
from statewright.runtime.concurrency.control import RunControl
from statewright.runtime.config import Durability, OnBusy, OnUnfinished
from statewright.runtime.streaming.modes import StreamMode

Names = Sequence[str] | str | None
Config = Mapping[str, Any] | None
"""The settings of a call in the form of other libraries: `{"configurable": {"thread_id": "1"}}`."""
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeParameter  # slow to import; see graph/generics.py

    ValueT = TypeParameter("ValueT", default=Any, covariant=True)
else:
    ValueT = TypeVar("ValueT", covariant=True)


class BaseCallOptions(TypedDict, Generic[ContextT], total=False):
    """The keywords of `CallOptions` without `output_keys`, on which the type of the result depends."""

    context: ContextT | Mapping[str, Any] | None
    """Dependencies, which nodes access as `runtime.context`. They are never saved."""
    thread_id: str | None
    """The thread to continue. Needs a checkpointer."""
    checkpoint_id: str | None
    """The checkpoint to start from instead of the head."""
    branch: str | None
    namespace: str | None
    """For methods that inspect or change threads: the namespace of a subgraph, as the config of its snapshot has it."""
    run_id: str | None
    recursion_limit: int | None
    """Maximum number of supersteps of the call; 1000 by default."""
    max_concurrency: int | None
    """Maximum number of concurrent tasks. The default is 1000 coroutines, and 4 more plain functions than cores."""
    durability: Durability | None
    """When supersteps are saved: `sync` before the next one, `async` during it, `exit` only when the run stops."""
    interrupt_before: Names
    interrupt_after: Names
    """Breakpoints: nodes before or after which the run pauses; "*" for all nodes. They add to those of `compile`."""
    call_key: str | None
    """Inside a node: identifies this call among the calls of the task, if their order may change."""
    print_mode: StreamMode | Sequence[StreamMode] | None
    """Stream modes whose parts are printed, for debugging."""
    memory: Memory | None
    """Inside a node: how long the called graph's checkpoints are kept. `call` (the default): until the calling task has
    ended; `thread`: across runs; `none`: they are not saved."""
    control: RunControl | None
    """The object with which the caller can stop the run."""
    budget: Budget | None
    """The limits on the spending of the call; by default the budget that was passed to `compile`."""
    on_busy: OnBusy | None
    """What to do if another run holds the thread: `reject` this call (the default), `enqueue` it, or stop the other run
    by `interrupt` or `rollback`, which also undoes its effects."""
    sibling_grace: Duration | None
    """How long to wait for running plain functions after a concurrent task has failed; by default as in `compile`."""
    on_unfinished: OnUnfinished | None
    """What to do with unfinished work before new input is applied: `discard` it with its questions, or `finish` it."""


class CallOptions(BaseCallOptions[ContextT], Generic[ContextT], total=False):
    """The keywords of every call that runs a graph. They take precedence over the same keys in `config`."""

    output_keys: Names
    """The fields that the result has, instead of the output schema's. A single name makes the result a bare value."""


class StreamPart(TypedDict):
    """A part of a stream with `version="v2"`."""

    type: StreamMode
    ns: tuple[str, ...]
    """The namespace of the subgraph that the part comes from, as a path of segments; empty at the root."""
    data: Any
    interrupts: NotRequired[tuple[Interrupt, ...]]


class GraphOutput(Generic[ValueT]):
    """The result of a call with `version="v2"`."""

    __slots__ = ("interrupts", "value")

    def __init__(self, value: ValueT, interrupts: tuple[Interrupt, ...]) -> None:
        self.value = value
        self.interrupts = interrupts
