"""The events of a run, sent to its instruments and to the reader of its stream.

A run without an emitter makes no events, and an emitter makes only the kinds that have a receiver.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

from statewright.checkpoint import TaskResult
from statewright.errors import HiddenMessagesWarning, NoCheckpointerWarning, UnfinishedJoinWarning, UnknownKeyWarning
from statewright.events import Event, EventKind
from statewright.graph import JoinEdge
from statewright.runtime.core.program import Program
from statewright.runtime.core.run import Run
from statewright.runtime.instrument import METHOD_BY_KIND, Instrument
from statewright.runtime.tasks.scope import Scope

Listener = Callable[[Event], None]


class EventEmitter:
    """Sends each event to the receivers of its kind."""

    def __init__(self, listeners: Iterable[tuple[EventKind, Listener]] = ()) -> None:
        self._by_kind: dict[str, list[Listener]] = {}
        for kind, listener in listeners:
            self.add(kind, listener)
        self.buffer: StreamBuffer | None = None
        """Stream parts that the reader has not taken yet; None without a reader."""

    def add(self, kind: EventKind, listener: Listener) -> None:
        self._by_kind.setdefault(kind, []).append(listener)

    def listeners(self) -> list[tuple[Any, Listener]]:
        """The receivers by kind of event."""
        return [(kind, one) for kind, known in self._by_kind.items() for one in known]

    def joined(self, listeners: Iterable[tuple[EventKind, Listener]]) -> EventEmitter:
        """Return an emitter that also sends to these listeners: those of a subgraph."""
        joined = EventEmitter([*self.listeners(), *listeners])
        joined.buffer = self.buffer
        return joined

    def wants(self, kind: EventKind) -> bool:
        if kind != "message":
            return kind in self._by_kind
        return any(getattr(one, "wanted", _always)() for one in self._by_kind.get(kind, ()))

    def emit(self, event: Event) -> None:
        for listener in self._by_kind.get(event.kind, ()):
            listener(event)

    def task_started(self, scope: Scope, state: Any) -> None:
        if "task_started" in self._by_kind:
            self.emit(_of_task("task_started", scope, (scope.task, state)))

    def task_finished(self, scope: Scope, outcome: Any) -> None:
        if "task_ended" in self._by_kind:
            self.emit(_of_task("task_ended", scope, outcome))
        if "task_finished" not in self._by_kind:
            return
        event, run = _of_task("task_finished", scope, outcome), scope.run
        if type(outcome) is TaskResult and run.emits_after_commit:
            run.unpublished_events[outcome.task.id] = event
        else:
            self.emit(event)

    def attempt_failed(self, scope: Scope, error: BaseException, delay: float) -> None:
        if "attempt_failed" in self._by_kind:
            self.emit(_of_task("attempt_failed", scope, (error, delay)))

    def step_started(self, scope: Scope, name: str, ordinal: int) -> None:
        if "step_started" in self._by_kind:
            self.emit(_of_task("step_started", scope, (name, ordinal)))

    def step_finished(self, scope: Scope, name: str, ordinal: int, error: BaseException | None = None) -> None:
        if "step_finished" in self._by_kind:
            self.emit(_of_task("step_finished", scope, (name, ordinal, error)))

    def call_finished(self, scope: Scope, name: str, value: Any) -> None:
        if "call_finished" in self._by_kind:
            self.emit(_of_task("call_finished", scope, (name, value)))

    def message(self, scope: Scope, message: Any) -> None:
        if self.wants("message"):
            self.emit(_of_task("message", scope, message))

    def noted(self, scope: Scope, kind: EventKind, data: Any) -> None:
        if kind in self._by_kind:
            self.emit(_of_task(kind, scope, data))

    def custom(self, scope: Scope, value: Any) -> None:
        if "custom" in self._by_kind:
            self.emit(_of_task("custom", scope, value))


def _always() -> bool:
    return True


LIVE_PARTS: Final = 10_000
"""How many parts may wait for the reader before live ones are dropped."""


class StreamBuffer:
    """Parts on their way to the reader. Filled from any thread, emptied by one; the lists are swapped, not locked."""

    def __init__(self, *, live: bool, prompt: bool = False) -> None:
        self.live = live
        """True if parts should reach the reader while tasks run, even a task that runs alone."""
        self.prompt = live or prompt
        """True if they should while several tasks run concurrently."""
        self.parts: list[Any] = []
        self.dropped = 0
        """The number of live parts that were dropped because the reader was too slow."""
        self.wake: Callable[[], object] | None = None
        """Called after each added part, to wake a waiting reader."""
        self._waiters: list[Callable[[], object]] = []

    def add(self, part: Any, *, may_drop: bool = False) -> None:
        """Keep a part for the reader. One that `may_drop` is dropped if the reader is far behind."""
        if may_drop and len(self.parts) >= LIVE_PARTS:
            self.dropped += 1
            return
        self.parts.append(part)
        wake = self.wake
        if wake is not None:
            wake()

    def take(self) -> list[Any]:
        """Remove and return all waiting parts."""
        taken, self.parts = self.parts, []
        for waiter in self._waiters:
            waiter()
        self._waiters.clear()
        return taken

    async def room(self) -> None:
        """Wait until the reader has taken the waiting parts."""
        import asyncio

        taken = asyncio.get_running_loop().create_future()
        self._waiters.append(lambda: taken.done() or taken.set_result(None))
        if self.parts:
            await taken


class Printed(StreamBuffer):
    """Prints parts instead of keeping them for a reader."""

    def __init__(self) -> None:
        super().__init__(live=False)

    def add(self, part: Any, *, may_drop: bool = False) -> None:
        mode, shown = part
        print(f"[{mode}] {shown}")


def instrument_listeners(instruments: Sequence[Instrument]) -> list[tuple[Any, Listener]]:
    """Return the methods that instruments override, by kind of event."""
    return [
        (kind, _harmless(instrument, method))
        for instrument in instruments
        for kind, method in METHOD_BY_KIND.items()
        if getattr(type(instrument), method, getattr(Instrument, method)) is not getattr(Instrument, method)
    ]


def _harmless(instrument: Instrument, method: str) -> Listener:
    """Wrap a method of an instrument so that it cannot affect the run: its exceptions are logged."""
    call: Listener = getattr(instrument, method)

    def listen(event: Event) -> None:
        try:
            call(event)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            _log_failure(instrument, method, event)

    def wants() -> bool:
        try:
            return instrument.wants_messages()
        except Exception:
            _log_failure(instrument, "wants_messages", None)
            return False

    if method == "on_message":
        listen.wanted = wants  # pyright: ignore[reportFunctionMemberAccess]  # see Watch.wants
    return listen


def _log_failure(instrument: Instrument, method: str, event: Event | None) -> None:
    import logging  # few runs need it

    name = f"{type(instrument).__name__}.{method}"
    logging.getLogger("statewright").exception("An instrument failed: %s, told of %r.", name, event)


def tell_broken_off(run: Run, error: BaseException) -> None:
    """Emit the event of a run that was aborted."""
    if run.rest is None and run.watch is not None and run.watch.wants("run_broken_off"):
        run.watch.emit(run_event("run_broken_off", run, error))


def run_event(kind: EventKind, run: Run, data: Any, step: int = 0) -> Event:
    """Make an event that concerns a run as a whole."""
    return Event(
        kind,
        data,
        run_id=run.run_id,
        thread_id=run.settings.thread_id,
        namespace=run.namespace,
        step=step,
        program=run.program,
    )


def _of_task(kind: EventKind, scope: Scope, data: Any) -> Event:
    event = run_event(kind, scope.run, data, scope.checkpoint.step + 1 if scope.checkpoint else 0)
    event.node = scope.task.node if scope.task else None
    event.task = scope.task
    event.attempt = scope.attempt.number if scope.attempt is not None else 1
    return event


# -- warnings about a run as a whole: joins that were never completed, questions that nobody can answer
#
# They are raised when the run is idle and everything is saved, so a program that turns warnings into errors loses
# nothing.

_unresumable: Final[WeakSet[Program]] = WeakSet()
"""The graphs whose warning about questions that cannot be answered was already raised."""
_unknown_fields: Final[WeakKeyDictionary[Program, set[str]]] = WeakKeyDictionary()
"""The saved fields whose warning about being unknown to a graph was already raised."""


def describe_unfinished(join: JoinEdge, arrived: Iterable[str]) -> str:
    """Describe an incomplete join edge: the sources that have run, and those that have not."""
    came = [start for start in join.starts if start in set(arrived)]
    missing = [start for start in join.starts if start not in came]
    return f"{list(join.starts)} -> {join.end!r}: {_named(came)} arrived, {_named(missing)} did not"


def warn_unfinished(program: Program, joins: Iterable[str]) -> None:
    """Warn of joins that a run left incomplete, in the log too."""
    import logging  # few runs need it

    graph = program.graph.name
    for join in joins:
        logging.getLogger("statewright").warning("Graph %r ended with an unfinished join edge %s.", graph, join)
        warnings.warn(
            f"Graph {graph!r} ended before a join edge was complete, so that edge led nowhere: {join}. Lead every path "
            f"to the join, or use plain edges and join='reachable', which waits only for what can still come.",
            UnfinishedJoinWarning,
            stacklevel=2,
        )


def warn_unresumable(program: Program) -> None:
    """Warn, once for each graph, that a run which waits cannot be resumed as nothing is saved."""
    if program in _unresumable:
        return
    _unresumable.add(program)
    warnings.warn(
        f"Graph {program.graph.name!r} waits for an answer, and has no checkpointer: the run cannot be resumed. "
        f"Compile it with one, e.g. compile(checkpointer=InMemorySaver()), and call it with a thread_id.",
        NoCheckpointerWarning,
        stacklevel=2,
    )


def warn_unknown_field(program: Program, name: str, problem: str) -> None:
    """Warn, once for each graph and field, that what a thread has saved is not read any more."""
    warned = _unknown_fields.setdefault(program, set())
    if name in warned:
        return
    warned.add(name)
    warnings.warn(
        f"A saved thread does not fit graph {program.graph.name!r}: {problem} Its value stays saved, and no node "
        f"sees it. If the field was renamed, give the graph a version and a migration; if it was removed, pass "
        f"unknown_keys='drop' to compile().",
        UnknownKeyWarning,
        stacklevel=2,
    )


def warn_hidden_messages(program: Program, node: str) -> None:
    """Warn a reader of the stream mode `messages` that a model in a subgraph spoke, and that nothing was shown."""
    warnings.warn(
        f"The stream of graph {program.graph.name!r} showed no message, though a model in the subgraph {node!r} spoke. "
        f"Stream with subgraphs=True to see messages of subgraphs, or give the node "
        f"metadata={{'transparent': True}}, which shows them as its own.",
        HiddenMessagesWarning,
        stacklevel=4,
    )


def _named(names: Iterable[str]) -> str:
    return " and ".join(map(repr, names))
