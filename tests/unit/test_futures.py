"""Futures: a result set on one thread and awaited on others."""

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

VALUES_AND_WHETHER_FUTURES: list[tuple[object, bool]] = [
    (LightFuture(), True),
    (Future(), True),
    (None, False),
    ("id", False),
]


def test_a_future_is_done_once_its_result_is_set():
    future: LightFuture[int] = LightFuture()
    assert not future.done()
    future.set_result(7)
    assert future.done()
    assert future.result() == 7


def test_none_is_a_valid_result():
    future: LightFuture[None] = LightFuture()
    future.set_result(None)
    assert future.result() is None


def test_every_call_of_result_raises_the_exception():
    future: LightFuture[int] = LightFuture()
    future.set_exception(KeyError("gone"))
    future.wait()
    for _ in range(2):
        with pytest.raises(KeyError, match="gone"):
            future.result()


def test_many_threads_can_wait_for_one_result():
    future: LightFuture[str] = LightFuture()
    with ThreadPoolExecutor(4) as pool:
        waiters = [pool.submit(future.result) for _ in range(4)]
        threading.Timer(0.02, future.set_result, ["yes"]).start()
        assert [waiter.result(timeout=600) for waiter in waiters] == ["yes"] * 4


def test_a_wait_can_have_a_timeout():
    future: LightFuture[int] = LightFuture()
    assert not future.wait(0.01)
    with pytest.raises(TimeoutError, match=r"0\.01 seconds"):
        future.result(0.01)
    future.set_result(1)
    assert future.wait(0)


def test_callbacks_run_in_order_and_immediately_if_the_future_is_done():
    future: LightFuture[int] = LightFuture()
    calls: list[str] = []
    future.add_done_callback(lambda _: calls.append("first"))
    future.add_done_callback(lambda done: calls.append(f"second {done.result()}"))
    assert calls == []
    future.set_result(1)
    future.add_done_callback(lambda _: calls.append("late"))
    assert calls == ["first", "second 1", "late"]


def test_a_callback_added_while_the_result_is_set_is_called_once():
    for _ in range(300):
        future: LightFuture[int] = LightFuture()
        calls: list[int] = []
        ready = threading.Barrier(2)

        def set_result(future: LightFuture[int] = future, ready: threading.Barrier = ready) -> None:
            ready.wait()
            future.set_result(1)

        setter = threading.Thread(target=set_result)
        setter.start()
        ready.wait()
        for number in range(20):
            future.add_done_callback(partial(_record, calls, number))
        setter.join()
        assert sorted(calls) == list(range(20))


def _record(calls: list[int], number: int, _: object) -> None:
    calls.append(number)


def test_a_coroutine_can_await_a_result_set_by_another_thread():
    async def wait() -> str:
        future: LightFuture[str] = LightFuture()
        threading.Timer(0.01, future.set_result, ["done"]).start()
        return await await_future(future)

    assert asyncio.run(wait()) == "done"


@pytest.mark.parametrize(("value", "expected"), VALUES_AND_WHETHER_FUTURES)
def test_is_future_recognizes_every_kind_of_future(value: object, expected: bool):
    assert is_future(value) is expected


# -- events that can be set from anywhere


def test_setting_an_event_wakes_every_waiting_thread() -> None:
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


def test_an_event_can_be_set_at_any_line_of_a_wait() -> None:
    """As a signal handler or a finaliser would."""
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


def test_adding_a_callback_runs_only_that_callback() -> None:
    future, started, proceed = LightFuture[int](), threading.Event(), threading.Event()
    called: list[tuple[str, threading.Thread]] = []
    future.add_done_callback(lambda _: (started.set(), proceed.wait(LONG)))
    future.add_done_callback(lambda _: called.append(("other", threading.current_thread())))
    answering = threading.Thread(target=future.set_result, args=[1])
    answering.start()
    assert started.wait(LONG)
    future.add_done_callback(lambda _: called.append(("own", threading.current_thread())))
    proceed.set()
    answering.join(LONG)
    assert called == [("own", threading.current_thread()), ("other", answering)]


def test_an_interrupted_set_still_wakes_every_waiting_thread() -> None:
    sleeping: list[tuple[SafeEvent, list[threading.Thread]]] = []

    def start_waiting() -> None:
        event = SafeEvent()
        threads = [threading.Thread(target=event.wait, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        while len(event._sleepers) < len(threads):
            time.sleep(0.001)
        sleeping.append((event, threads))

    for _ in interruptions(lambda: sleeping[-1][0].set(), start_waiting):
        event, threads = sleeping[-1]
        if not event.is_set():  # the interruption came before it started
            event.set()
        for thread in threads:
            thread.join(LONG)
            assert not thread.is_alive()


# -- generators that yield futures


def _sum(*values: Any):
    total = 0
    for value in values:
        try:
            total += yield value
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


def test_a_generator_receives_results_and_exceptions():
    assert drive(_sum(1, _later(2), _later(None))) == 103
    assert asyncio.run(adrive(_sum(1, _later(2), _later(None)))) == 103


def test_an_exception_that_a_generator_does_not_handle_is_raised():
    for run in (drive, lambda generator: asyncio.run(adrive(generator))):
        with pytest.raises(TypeError):
            run(_sum("text"))


def test_an_interruption_closes_the_generator():
    closed: list[bool] = []

    def generator():
        try:
            yield 1
        finally:
            closed.append(True)

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive(generator(), interrupt)
    assert closed == [True]
