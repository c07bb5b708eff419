"""Promises: one answer, given on one thread and waited for on others."""

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial

import pytest

from statewright.promise import Promise, comes_later
from statewright.runtime.awaiting import awaited

LATER_OR_NOT: list[tuple[object, bool]] = [(Promise(), True), (Future(), True), (None, False), ("id", False)]


def test_the_answer_is_there_once_it_was_given():
    promise: Promise[int] = Promise()
    assert not promise.done()
    promise.set_result(7)
    assert promise.done()
    assert promise.result() == 7


def test_none_is_an_answer():
    promise: Promise[None] = Promise()
    promise.set_result(None)
    assert promise.result() is None


def test_an_error_is_raised_at_whoever_asks():
    promise: Promise[int] = Promise()
    promise.set_exception(KeyError("gone"))
    promise.wait()
    for _ in range(2):
        with pytest.raises(KeyError, match="gone"):
            promise.result()


def test_many_threads_wait_for_one_answer():
    promise: Promise[str] = Promise()
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(promise.result) for _ in range(4)]
        threading.Timer(0.02, promise.set_result, ["yes"]).start()
        assert [one.result(timeout=60) for one in waiting] == ["yes"] * 4


def test_nobody_has_to_wait_for_ever():
    promise: Promise[int] = Promise()
    assert not promise.wait(0.01)
    with pytest.raises(TimeoutError, match=r"0\.01 seconds"):
        promise.result(0.01)
    promise.set_result(1)
    assert promise.wait(0)


def test_callbacks_are_called_in_their_order_and_at_once_if_they_come_late():
    promise: Promise[int] = Promise()
    heard: list[str] = []
    promise.add_done_callback(lambda _: heard.append("first"))
    promise.add_done_callback(lambda told: heard.append(f"second {told.result()}"))
    assert heard == []
    promise.set_result(1)
    promise.add_done_callback(lambda _: heard.append("late"))
    assert heard == ["first", "second 1", "late"]


def test_a_callback_that_is_added_while_the_answer_is_given_is_called_once():
    for _ in range(300):
        promise: Promise[int] = Promise()
        heard: list[int] = []
        ready = threading.Barrier(2)

        def give(promise: Promise[int] = promise, ready: threading.Barrier = ready) -> None:
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
        promise: Promise[str] = Promise()
        threading.Timer(0.01, promise.set_result, ["given"]).start()
        return await awaited(promise)

    assert asyncio.run(wait()) == "given"


@pytest.mark.parametrize(("answer", "later"), LATER_OR_NOT)
def test_what_comes_later(answer: object, later: bool):
    assert comes_later(answer) is later
