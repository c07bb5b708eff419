"""Promises: one answer, given on one thread and waited for on others."""

import asyncio
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from tests.interruptions import LONG, interruptions

from statewright.async_futures import adrive, await_future
from statewright.futures import LightFuture, SafeEvent, drive, is_future

LATER_OR_NOT: list[tuple[object, bool]] = [(LightFuture(), True), (Future(), True), (None, False), ("id", False)]


def test_the_answer_is_there_once_it_was_given():
    promise: LightFuture[int] = LightFuture()
    assert not promise.done()
    promise.set_result(7)
    assert promise.done()
    assert promise.result() == 7


def test_none_is_an_answer():
    promise: LightFuture[None] = LightFuture()
    promise.set_result(None)
    assert promise.result() is None


def test_an_error_is_raised_at_whoever_asks():
    promise: LightFuture[int] = LightFuture()
    promise.set_exception(KeyError("gone"))
    promise.wait()
    for _ in range(2):
        with pytest.raises(KeyError, match="gone"):
            promise.result()


def test_many_threads_wait_for_one_answer():
    promise: LightFuture[str] = LightFuture()
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(promise.result) for _ in range(4)]
        threading.Timer(0.02, promise.set_result, ["yes"]).start()
        assert [one.result(timeout=600) for one in waiting] == ["yes"] * 4


def test_nobody_has_to_wait_for_ever():
    promise: LightFuture[int] = LightFuture()
    assert not promise.wait(0.01)
    with pytest.raises(TimeoutError, match=r"0\.01 seconds"):
        promise.result(0.01)
    promise.set_result(1)
    assert promise.wait(0)


def test_callbacks_are_called_in_their_order_and_at_once_if_they_come_late():
    promise: LightFuture[int] = LightFuture()
    heard: list[str] = []
    promise.add_done_callback(lambda _: heard.append("first"))
    promise.add_done_callback(lambda told: heard.append(f"second {told.result()}"))
    assert heard == []
    promise.set_result(1)
    promise.add_done_callback(lambda _: heard.append("late"))
    assert heard == ["first", "second 1", "late"]


def test_a_callback_that_is_added_while_the_answer_is_given_is_called_once():
    for _ in range(300):
        promise: LightFuture[int] = LightFuture()
        heard: list[int] = []
        ready = threading.Barrier(2)

        def give(promise: LightFuture[int] = promise, ready: threading.Barrier = ready) -> None:
            ready.wait()
            promise.set_result(1)

        giver = threading.Thread(target=give)
        giver.start()
        ready.wait()
        for number in range(20):
            promise.add_done_callback(partial(_note, heard, number))
        giver.join()
        assert sorted(heard) == list(range(20))


def _note(heard: list[int], number: int, _: object) -> None:
    heard.append(number)


def test_a_coroutine_awaits_what_another_thread_gives():
    async def wait() -> str:
        promise: LightFuture[str] = LightFuture()
        threading.Timer(0.01, promise.set_result, ["given"]).start()
        return await await_future(promise)

    assert asyncio.run(wait()) == "given"


@pytest.mark.parametrize(("answer", "later"), LATER_OR_NOT)
def test_what_comes_later(answer: object, later: bool):
    assert is_future(answer) is later


# -- events that are set anywhere


def test_an_event_wakes_everybody_who_waits() -> None:
    event, woken = SafeEvent(), list[bool]()
    threads = [threading.Thread(target=lambda: woken.append(event.wait())) for _ in range(5)]
    for thread in threads:
        thread.start()
    event.set()
    for thread in threads:
        thread.join()
    assert woken == [True] * 5
    assert event.is_set()
    assert event.wait(0)
    event.clear()
    assert not event.wait(0.001)
    assert not event.is_set()


def test_an_event_may_be_set_wherever_a_thread_that_waits_for_it_is() -> None:
    """At each line of `wait`, as a signal handler or a finaliser would."""
    for line in range(1, 30):
        event = SafeEvent()
        lines = iter(range(1, 100))

        def trace(frame: Any, kind: str, _: Any, event: SafeEvent = event, lines: Any = lines, at: int = line) -> Any:
            if frame.f_code is SafeEvent.wait.__code__ and kind == "line" and next(lines) == at:
                event.set()
            return trace

        sys.settrace(trace)
        try:
            was_set = event.wait(0.001)
        finally:
            sys.settrace(None)
        assert was_set == event.is_set()


def test_who_adds_a_callback_calls_only_that() -> None:
    promise, begun, go_on = LightFuture[int](), threading.Event(), threading.Event()
    called: list[tuple[str, threading.Thread]] = []
    promise.add_done_callback(lambda _: (begun.set(), go_on.wait(LONG)))
    promise.add_done_callback(lambda _: called.append(("another", threading.current_thread())))
    answering = threading.Thread(target=promise.set_result, args=[1])
    answering.start()
    assert begun.wait(LONG)
    promise.add_done_callback(lambda _: called.append(("own", threading.current_thread())))
    go_on.set()
    answering.join(LONG)
    assert called == [("own", threading.current_thread()), ("another", answering)]


def test_all_who_sleep_are_woken_however_the_one_who_wakes_them_is_interrupted() -> None:
    sleeping: list[tuple[SafeEvent, list[threading.Thread]]] = []

    def sleep() -> None:
        event = SafeEvent()
        threads = [threading.Thread(target=event.wait, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        while len(event._sleepers) < len(threads):
            time.sleep(0.001)
        sleeping.append((event, threads))

    for _ in interruptions(lambda: sleeping[-1][0].set(), sleep):
        event, threads = sleeping[-1]
        if not event.is_set():  # it was interrupted before it began
            event.set()
        for thread in threads:
            thread.join(LONG)
            assert not thread.is_alive()


# -- generators that yield futures


def _sum_of(*answers: Any):
    total = 0
    for answer in answers:
        try:
            total += yield answer
        except KeyError:
            total += 100
    return total


def _later(value: int | None) -> LightFuture[int]:
    future: LightFuture[int] = LightFuture()
    if value is None:
        future.set_exception(KeyError())
    else:
        threading.Timer(0.01, future.set_result, [value]).start()
    return future


def test_a_generator_is_sent_values_and_errors():
    assert drive(_sum_of(1, _later(2), _later(None))) == 103
    assert asyncio.run(adrive(_sum_of(1, _later(2), _later(None)))) == 103


def test_a_generator_raises_what_it_does_not_handle():
    for run in (drive, lambda generator: asyncio.run(adrive(generator))):
        with pytest.raises(TypeError):
            run(_sum_of("text"))


def test_a_signal_closes_the_generator():
    closed: list[bool] = []

    def generator():
        try:
            yield 1
        finally:
            closed.append(True)

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive(generator(), interrupted)
    assert closed == [True]
