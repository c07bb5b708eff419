"""Emitting events to listeners, and the buffer of a stream."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from statewright.events import Event
from statewright.runtime.core.events import emit_task_event, emit_task_finished, emit_task_started, run_event
from statewright.runtime.instrument import METHOD_BY_KIND, Instrument
from statewright.runtime.invocation.emitter import MAX_UNREAD_PARTS, EventEmitter, StreamBuffer, instrument_listeners


def test_an_event_is_emitted_to_the_listeners_of_its_kind_in_order() -> None:
    received: list[tuple[str, str]] = []
    emitter = EventEmitter([("custom", lambda event: received.append(("first", event.kind)))])
    emitter.add("message", lambda event: received.append(("other", event.kind)))
    emitter.add("custom", lambda event: received.append(("second", event.kind)))
    emitter.emit(Event("custom"))
    emitter.emit(Event("committed"))
    assert received == [("first", "custom"), ("second", "custom")]


def test_an_emitter_wants_the_kinds_of_its_listeners() -> None:
    emitter = EventEmitter([("custom", print)])
    assert (emitter.wants("custom"), emitter.wants("message")) == (True, False)
    assert not EventEmitter().wants("custom")


def test_with_listeners_returns_an_emitter_with_both_listeners() -> None:
    received: list[str] = []
    emitter = EventEmitter([("custom", lambda event: received.append("own"))])
    emitter.buffer = StreamBuffer(during_tasks=True)
    extended = emitter.with_listeners([("custom", lambda event: received.append("other")), ("message", print)])
    extended.emit(Event("custom"))
    emitter.emit(Event("custom"))
    assert received == ["own", "other", "own"]
    assert (extended.wants("message"), emitter.wants("message")) == (True, False)
    assert extended.buffer is emitter.buffer


TASK_EVENTS = ("task_started", "task_finished", "attempt_failed", "call_finished", "message", "custom")


def emit(kind: Any, scope: Any) -> None:
    """Emit an event of a task by the function of its kind."""
    if kind == "task_started":
        emit_task_started(scope.run.emitter, scope, {"x": 1})
    elif kind == "task_finished":
        emit_task_finished(scope.run.emitter, scope, "outcome")
    else:
        emit_task_event(kind, scope, "data")


@pytest.mark.parametrize("kind", TASK_EVENTS)
def test_events_of_a_task_have_its_node_step_run_and_attempt(make: Any, kind: Any) -> None:
    events: list[Event] = []
    program = make.program(make.graph("a").add_edge("__start__", "a"))
    scope = make.scope(make.run(program, watched=[kind], seen=events), make.task("a"), make.checkpoint({}, step=3))
    emit(kind, scope)
    (event,) = events
    assert (event.kind, event.node, event.step, event.run_id, event.attempt) == (kind, "a", 4, "run", 1)


@pytest.mark.parametrize("kind", TASK_EVENTS)
def test_events_of_a_task_are_not_emitted_to_listeners_of_other_kinds(make: Any, kind: str) -> None:
    events: list[Event] = []
    program = make.program(make.graph("a").add_edge("__start__", "a"))
    emit(kind, make.scope(make.run(program, watched=["committed"], seen=events), make.task("a"), make.checkpoint()))
    assert events == []


def test_an_event_of_a_run_has_the_run_and_its_program(make: Any) -> None:
    run = make.run(make.program(make.graph("a").add_edge("__start__", "a")), namespace="outer:1")
    event = run_event("run_started", run, {"x": 1}, 2)
    assert (event.kind, event.data, event.run_id, event.namespace, event.step) == (
        "run_started",
        {"x": 1},
        "run",
        "outer:1",
        2,
    )
    assert event.program is run.program
    assert event.node is None


# -- instruments


def test_an_instrument_listens_with_its_overridden_methods() -> None:
    class Some(Instrument):
        def on_run_started(self, event: Event) -> None: ...
        def on_commit(self, event: Event) -> None: ...

    class More(Some):
        def on_superstep(self, event: Event) -> None: ...

    assert [kind for kind, _ in instrument_listeners([Instrument()])] == []
    assert {kind for kind, _ in instrument_listeners([Some()])} == {"run_started", "committed"}
    assert {kind for kind, _ in instrument_listeners([More()])} == {"run_started", "committed", "superstep_started"}


def test_every_method_of_an_instrument_listens_to_its_own_kind() -> None:
    received: list[str] = []
    instrument = type(
        "Complete", (Instrument,), {name: recording_method(name, received) for name in METHOD_BY_KIND.values()}
    )
    for kind, listener in instrument_listeners([instrument()]):
        listener(Event(kind))
    assert sorted(received) == sorted(METHOD_BY_KIND.values())


def recording_method(name: str, received: list[str]) -> Any:
    return lambda self, event: received.append(name)


# -- the buffer


def test_parts_are_taken_once_in_order() -> None:
    buffer = StreamBuffer(during_tasks=False)
    for part in range(3):
        buffer.add(part)
    assert (buffer.take(), buffer.take()) == ([0, 1, 2], [])


def test_adding_a_part_wakes_the_reader() -> None:
    buffer, woken = StreamBuffer(during_tasks=True), list[list[Any]]()
    buffer.add("before")
    buffer.wake = lambda: woken.append(list(buffer.parts))
    buffer.add("after")
    assert woken == [["before", "after"]]


@pytest.mark.parametrize(("may_drop", "kept", "dropped"), [(True, 0, 5), (False, 5, 0)])
def test_droppable_parts_are_dropped_if_the_reader_is_too_slow(may_drop: bool, kept: int, dropped: int) -> None:
    buffer = StreamBuffer(during_tasks=True)
    buffer.parts = ["waits"] * MAX_UNREAD_PARTS
    for _ in range(5):
        buffer.add("new", may_drop=may_drop)
    assert (len(buffer.parts) - MAX_UNREAD_PARTS, buffer.dropped) == (kept, dropped)


def test_no_part_is_dropped_after_the_reader_has_caught_up() -> None:
    buffer = StreamBuffer(during_tasks=True)
    buffer.parts = ["waits"] * MAX_UNREAD_PARTS
    buffer.add("dropped", may_drop=True)
    buffer.take()
    buffer.add("kept", may_drop=True)
    assert (buffer.take(), buffer.dropped) == (["kept"], 1)


def test_wait_until_read_waits_for_the_reader() -> None:
    async def main() -> tuple[bool, bool]:
        buffer = StreamBuffer(during_tasks=False)
        buffer.add("part")
        waiting = asyncio.ensure_future(buffer.wait_until_read())
        for _ in range(5):
            await asyncio.sleep(0)
        before = waiting.done()
        buffer.take()
        await asyncio.wait_for(waiting, 600)
        return before, waiting.done()

    assert asyncio.run(main()) == (False, True)


def test_wait_until_read_returns_at_once_for_an_empty_buffer() -> None:
    async def main() -> None:
        await asyncio.wait_for(StreamBuffer(during_tasks=False).wait_until_read(), 600)

    asyncio.run(main())


def test_parts_added_by_several_threads_are_all_taken() -> None:
    buffer, barrier = StreamBuffer(during_tasks=True), threading.Barrier(4)

    def add(number: int) -> None:
        barrier.wait(600)
        for part in range(500):
            buffer.add((number, part))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    taken: list[Any] = []
    while any(thread.is_alive() for thread in threads):
        taken += buffer.take()
    for thread in threads:
        thread.join()
    taken += buffer.take()
    assert sorted(taken) == [(number, part) for number in range(4) for part in range(500)]
