"""The options of a call of a graph, and the types of its results."""

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
"""The settings of a call, as other libraries pass them: `{"configurable": {"thread_id": "1"}}`."""
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeParameter  # slow to import; see graph/generics.py

    ValueT = TypeParameter("ValueT", default=Any, covariant=True)
else:
    ValueT = TypeVar("ValueT", covariant=True)


class CallOptionsApart(TypedDict, Generic[ContextT], total=False):
    """The keywords of `CallOptions` but for `output_keys`, on which the type of a result depends."""

    context: ContextT | Mapping[str, Any] | None
    """The caller's dependencies, for nodes that ask for `runtime`; never saved."""
    thread_id: str | None
    """The thread to go on with; needs a checkpointer."""
    checkpoint_id: str | None
    """The checkpoint to start from instead of the head."""
    branch: str | None
    namespace: str | None
    """Of the methods that look at threads and change them: the subgraph to look into, as a config in a snapshot names
    it."""
    run_id: str | None
    recursion_limit: int | None
    """How many supersteps the call may take; 1000 if not given."""
    max_concurrency: int | None
    """How many tasks may be in flight; 1000 coroutines and a few threads per core if not given."""
    durability: Durability | None
    """When supersteps are saved: `sync`, `async`, or `exit` for only at rest."""
    interrupt_before: Names
    interrupt_after: Names
    call_key: str | None
    """Inside a node: what tells this call from the others of its task, where their order may change."""
    print_mode: StreamMode | Sequence[StreamMode] | None
    """Stream modes whose parts are printed, for debugging, whatever else is done with them."""
    memory: Memory | None
    """Inside a node: what the called graph remembers; `call` if not given."""
    control: RunControl | None
    budget: Budget | None
    """The limits on what the call may spend; it replaces the budget that the graph was compiled with."""
    on_busy: OnBusy | None
    """The reaction if another run holds the thread: `reject` (the default), `enqueue`, `interrupt`, `rollback`."""
    sibling_grace: Duration | None
    """For how long plain functions are waited for when a task beside them fails; wins over that of the graph."""
    on_unfinished: OnUnfinished | None
    """The effect of fresh input on unfinished work: `discard` it with its questions, or `finish` it first."""


class CallOptions(CallOptionsApart[ContextT], Generic[ContextT], total=False):
    """The keywords of every call that runs a graph. A keyword wins over the same key in `config`."""

    output_keys: Names
    """The fields of the state that the caller wants, instead of those of the output schema; the bare value of one
    that is given as text."""


class StreamPart(TypedDict):
    """One part of a stream with `version="v2"`."""

    type: StreamMode
    ns: tuple[str, ...]
    """The namespace of the subgraph that the part comes from."""
    data: Any
    interrupts: NotRequired[tuple[Interrupt, ...]]


class GraphOutput(Generic[ValueT]):
    """The result of a call with `version="v2"`."""

    __slots__ = ("interrupts", "value")

    def __init__(self, value: ValueT, interrupts: tuple[Interrupt, ...]) -> None:
        self.value = value
        self.interrupts = interrupts
