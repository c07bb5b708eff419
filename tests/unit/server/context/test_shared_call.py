"""Requests share a call, and none waits long for one that does not end."""

from __future__ import annotations

import asyncio

import pytest

from statewright.server.context.shared_call import SharedCall


def test_requests_share_a_call_until_it_ends_and_stop_waiting_in_time():
    async def run() -> None:
        calls, may_end = [], asyncio.Event()

        async def call() -> int:
            calls.append(len(calls) + 1)
            await may_end.wait()
            return calls[-1]

        shared = SharedCall(call, timeout=0.05)
        results = await asyncio.gather(shared.result(), shared.result(), return_exceptions=True)
        assert [type(result) for result in results] == [TimeoutError, TimeoutError]
        late = asyncio.create_task(shared.result())
        await asyncio.sleep(0)
        may_end.set()
        assert await late == 1
        assert calls == [1]
        assert await shared.result() == 2

    asyncio.run(run())


def test_an_error_is_raised_for_each_request_and_not_kept():
    async def run() -> None:
        errors: list[Exception] = [ValueError("first"), OSError("second")]

        async def call() -> None:
            raise errors.pop(0)

        shared = SharedCall(call, timeout=60)
        results = await asyncio.gather(shared.result(), shared.result(), return_exceptions=True)
        assert [repr(result) for result in results] == ["ValueError('first')"] * 2
        with pytest.raises(OSError, match="second"):
            await shared.result()

    asyncio.run(run())
