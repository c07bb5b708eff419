"""Plain functions awaited: what they give, where they run, and what becomes of them when nobody waits."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest

from statewright.runtime.concurrency.worker_threads import call_in_thread

LONG = 600.0
WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


def called(function: Any, *args: Any, **kwargs: Any) -> Any:
    return asyncio.run(call_in_thread(function, *args, **kwargs))


def test_a_function_is_called_with_its_arguments_for_its_answer() -> None:
    assert called(lambda *args, **kwargs: (args, kwargs), 1, 2, key="k") == ((1, 2), {"key": "k"})


def test_it_runs_on_a_daemon_thread_beside_the_loop() -> None:
    thread = called(threading.current_thread)
    assert thread.daemon
    assert thread is not threading.current_thread()


def test_the_loop_goes_on_meanwhile() -> None:
    async def main() -> bool:
        go_on = threading.Event()
        waiting = asyncio.ensure_future(call_in_thread(go_on.wait, LONG))
        await asyncio.sleep(0)
        go_on.set()
        return await waiting

    assert asyncio.run(main())


def test_it_sees_the_context_of_its_caller_and_leaves_it_alone() -> None:
    def look() -> str:
        seen = WHO.get()
        WHO.set("the function")
        return seen

    async def main() -> tuple[str, str]:
        WHO.set("the caller")
        return await call_in_thread(look), WHO.get()

    assert asyncio.run(main()) == ("the caller", "the caller")


class Odd(BaseException):
    """Neither an Exception nor known to asyncio."""


@pytest.mark.parametrize("error", [LookupError("no luck"), Odd("odd")], ids=["Exception", "BaseException"])
def test_what_it_raises_is_raised(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        called(fail)
    assert caught.value is error


def test_the_end_of_an_iterator_is_an_error_and_ends_no_coroutine() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        called(next, iter(()))


def test_a_function_that_nobody_waits_for_goes_on_unheard(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", reported.append)
    go_on, ended = threading.Event(), threading.Event()

    def work() -> None:
        go_on.wait(LONG)
        ended.set()
        raise LookupError("nobody hears this")

    async def main() -> None:
        waiting = asyncio.ensure_future(call_in_thread(work))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        go_on.set()
        while not ended.is_set():
            await asyncio.sleep(0)
        await asyncio.sleep(0.002)  # its answer arrives, and is dropped

    asyncio.run(main())
    assert reported == []


def test_a_function_that_outlives_the_loop_hurts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", reported.append)
    go_on, threads = threading.Event(), list[threading.Thread]()

    def work() -> None:
        threads.append(threading.current_thread())
        go_on.wait(LONG)

    async def main() -> None:
        asyncio.ensure_future(call_in_thread(work))  # noqa: RUF006  # it is to be abandoned
        while not threads:
            await asyncio.sleep(0)

    asyncio.run(main())
    go_on.set()
    assert called(threading.current_thread).daemon  # the thread, or another one, is there for the next call
    assert reported == []


def test_many_calls_run_beside_each_other() -> None:
    together = threading.Barrier(20)

    async def main() -> list[Any]:
        return await asyncio.gather(*(call_in_thread(together.wait, LONG) for _ in range(20)))

    assert sorted(asyncio.run(main())) == list(range(20))
