"""Who is told of what happens, and what waits for the reader of a stream."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from statewright.events import Event
from statewright.runtime.core.events import emit_task_event, emit_task_finished, emit_task_started, run_event
from statewright.runtime.instrument import METHOD_BY_KIND, Instrument
from statewright.runtime.invocation.emitter import MAX_UNREAD_PARTS, EventEmitter, StreamBuffer, instrument_listeners


def test_an_event_goes_to_those_who_want_its_kind_in_their_order() -> None:
    told: list[tuple[str, str]] = []
    watch = EventEmitter([("custom", lambda event: told.append(("first", event.kind)))])
    watch.add("message", lambda event: told.append(("other", event.kind)))
    watch.add("custom", lambda event: told.append(("second", event.kind)))
    watch.emit(Event("custom"))
    watch.emit(Event("committed"))
    assert told == [("first", "custom"), ("second", "custom")]


def test_a_watch_wants_what_somebody_wants() -> None:
    watch = EventEmitter([("custom", print)])
    assert (watch.wants("custom"), watch.wants("message")) == (True, False)
    assert not EventEmitter().wants("custom")


def test_a_joined_watch_tells_both_and_leaves_the_first_as_it_was() -> None:
    told: list[str] = []
    watch = EventEmitter([("custom", lambda event: told.append("own"))])
    watch.buffer = StreamBuffer(live=True)
    joined = watch.with_listeners([("custom", lambda event: told.append("theirs")), ("message", print)])
    joined.emit(Event("custom"))
    watch.emit(Event("custom"))
    assert told == ["own", "theirs", "own"]
    assert (joined.wants("message"), watch.wants("message")) == (True, False)
    assert joined.buffer is watch.buffer


TASK_EVENTS = ("task_started", "task_finished", "attempt_failed", "call_finished", "message", "custom")


def emit(kind: Any, scope: Any) -> None:
    """Emit an event of a task in the way its kind is emitted."""
    if kind == "task_started":
        emit_task_started(scope.run.emitter, scope, {"x": 1})
    elif kind == "task_finished":
        emit_task_finished(scope.run.emitter, scope, "outcome")
    else:
        emit_task_event(kind, scope, "data")


@pytest.mark.parametrize("kind", TASK_EVENTS)
def test_events_of_a_task_say_where_they_happened(make: Any, kind: Any) -> None:
    events: list[Event] = []
    program = make.program(make.graph("a").add_edge("__start__", "a"))
    scope = make.scope(make.run(program, watched=[kind], seen=events), make.task("a"), make.checkpoint({}, step=3))
    emit(kind, scope)
    (event,) = events
    assert (event.kind, event.node, event.step, event.run_id, event.attempt) == (kind, "a", 4, "run", 1)


@pytest.mark.parametrize("kind", TASK_EVENTS)
def test_an_event_without_a_receiver_is_not_made(make: Any, kind: str) -> None:
    events: list[Event] = []
    program = make.program(make.graph("a").add_edge("__start__", "a"))
    emit(kind, make.scope(make.run(program, watched=["committed"], seen=events), make.task("a"), make.checkpoint()))
    assert events == []


def test_an_event_of_a_run_names_the_run_and_its_program(make: Any) -> None:
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


def test_only_methods_that_are_overridden_listen() -> None:
    class Some(Instrument):
        def on_run_started(self, event: Event) -> None: ...
        def on_commit(self, event: Event) -> None: ...

    class More(Some):
        def on_superstep(self, event: Event) -> None: ...

    assert [kind for kind, _ in instrument_listeners([Instrument()])] == []
    assert {kind for kind, _ in instrument_listeners([Some()])} == {"run_started", "committed"}
    assert {kind for kind, _ in instrument_listeners([More()])} == {"run_started", "committed", "superstep_started"}


def test_every_method_listens_to_a_kind_of_its_own() -> None:
    told: list[str] = []
    every = type("Every", (Instrument,), {name: _telling(name, told) for name in METHOD_BY_KIND.values()})
    for kind, listener in instrument_listeners([every()]):
        listener(Event(kind))
    assert sorted(told) == sorted(METHOD_BY_KIND.values())


def _telling(name: str, told: list[str]) -> Any:
    return lambda self, event: told.append(name)


# -- the buffer


def test_parts_are_taken_once_in_their_order() -> None:
    buffer = StreamBuffer(live=False)
    for part in range(3):
        buffer.add(part)
    assert (buffer.take(), buffer.take()) == ([0, 1, 2], [])


def test_whoever_waits_for_a_part_is_woken() -> None:
    buffer, woken = StreamBuffer(live=True), list[list[Any]]()
    buffer.add("before")
    buffer.wake = lambda: woken.append(list(buffer.parts))
    buffer.add("after")
    assert woken == [["before", "after"]]


@pytest.mark.parametrize(("may_drop", "kept", "dropped"), [(True, 0, 5), (False, 5, 0)])
def test_live_parts_are_dropped_when_the_reader_is_far_behind(may_drop: bool, kept: int, dropped: int) -> None:
    buffer = StreamBuffer(live=True)
    buffer.parts = ["waits"] * MAX_UNREAD_PARTS
    for _ in range(5):
        buffer.add("new", may_drop=may_drop)
    assert (len(buffer.parts) - MAX_UNREAD_PARTS, buffer.dropped) == (kept, dropped)


def test_a_reader_that_has_caught_up_misses_nothing_more() -> None:
    buffer = StreamBuffer(live=True)
    buffer.parts = ["waits"] * MAX_UNREAD_PARTS
    buffer.add("dropped", may_drop=True)
    buffer.take()
    buffer.add("kept", may_drop=True)
    assert (buffer.take(), buffer.dropped) == (["kept"], 1)


def test_room_is_waited_for_until_the_reader_takes() -> None:
    async def main() -> tuple[bool, bool]:
        buffer = StreamBuffer(live=False)
        buffer.add("part")
        waiting = asyncio.ensure_future(buffer.wait_until_read())
        for _ in range(5):
            await asyncio.sleep(0)
        before = waiting.done()
        buffer.take()
        await asyncio.wait_for(waiting, 600)
        return before, waiting.done()

    assert asyncio.run(main()) == (False, True)


def test_there_is_room_where_nothing_waits() -> None:
    async def main() -> None:
        await asyncio.wait_for(StreamBuffer(live=False).wait_until_read(), 600)

    asyncio.run(main())


def test_parts_that_are_added_from_many_threads_all_arrive() -> None:
    buffer, together = StreamBuffer(live=True), threading.Barrier(4)

    def add(number: int) -> None:
        together.wait(600)
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
