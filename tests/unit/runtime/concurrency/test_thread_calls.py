"""Awaiting plain functions: results, errors, threads and abandoned calls."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest

from statewright.runtime.concurrency.thread_calls import call_in_thread

TIMEOUT = 600.0
CURRENT: contextvars.ContextVar[str] = contextvars.ContextVar("current", default="none")


def call(function: Any, *args: Any, **kwargs: Any) -> Any:
    return asyncio.run(call_in_thread(function, *args, **kwargs))


def test_call_in_thread_returns_the_result_of_the_function() -> None:
    assert call(lambda *args, **kwargs: (args, kwargs), 1, 2, key="k") == ((1, 2), {"key": "k"})


def test_the_function_runs_in_another_daemon_thread() -> None:
    thread = call(threading.current_thread)
    assert thread.daemon
    assert thread is not threading.current_thread()


def test_the_loop_continues_during_the_call() -> None:
    async def main() -> bool:
        proceed = threading.Event()
        waiting = asyncio.ensure_future(call_in_thread(proceed.wait, TIMEOUT))
        await asyncio.sleep(0)
        proceed.set()
        return await waiting

    assert asyncio.run(main())


def test_the_function_sees_a_copy_of_the_callers_context() -> None:
    def read_context() -> str:
        seen = CURRENT.get()
        CURRENT.set("the function")
        return seen

    async def main() -> tuple[str, str]:
        CURRENT.set("the caller")
        return await call_in_thread(read_context), CURRENT.get()

    assert asyncio.run(main()) == ("the caller", "the caller")


class CustomBaseException(BaseException):
    """Neither an Exception nor handled specially by asyncio."""


@pytest.mark.parametrize(
    "error", [LookupError("no luck"), CustomBaseException("unusual")], ids=["Exception", "BaseException"]
)
def test_an_error_of_the_function_is_raised(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        call(fail)
    assert caught.value is error


def test_a_stop_iteration_of_the_function_is_a_runtime_error() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        call(next, iter(()))


def test_a_cancelled_call_continues_and_its_error_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", reported.append)
    proceed, ended = threading.Event(), threading.Event()

    def work() -> None:
        proceed.wait(TIMEOUT)
        ended.set()
        raise LookupError("ignored")

    async def main() -> None:
        waiting = asyncio.ensure_future(call_in_thread(work))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        proceed.set()
        while not ended.is_set():
            await asyncio.sleep(0)
        await asyncio.sleep(0.002)  # its result arrives and is dropped

    asyncio.run(main())
    assert reported == []


def test_a_function_that_outlives_the_loop_causes_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", reported.append)
    proceed, threads = threading.Event(), list[threading.Thread]()

    def work() -> None:
        threads.append(threading.current_thread())
        proceed.wait(TIMEOUT)

    async def main() -> None:
        asyncio.ensure_future(call_in_thread(work))  # noqa: RUF006  # it is abandoned
        while not threads:
            await asyncio.sleep(0)

    asyncio.run(main())
    proceed.set()
    assert call(threading.current_thread).daemon  # a thread is available for the next call
    assert reported == []


def test_several_calls_run_concurrently() -> None:
    barrier = threading.Barrier(20)

    async def main() -> list[Any]:
        return await asyncio.gather(*(call_in_thread(barrier.wait, TIMEOUT) for _ in range(20)))

    assert sorted(asyncio.run(main())) == list(range(20))
