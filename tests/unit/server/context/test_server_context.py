"""Long waits end when the server is about to stop."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.server.serving import serving

from statewright.server.context.server_context import Shutdown


def test_work_is_awaited_until_the_shutdown_begins():
    async def run() -> None:
        shutdown = Shutdown()
        assert await shutdown.race(asyncio.sleep(0, "done")) == "done"
        waiting = asyncio.ensure_future(shutdown.race(asyncio.sleep(100, "late")))
        await asyncio.sleep(0)
        shutdown.begin()
        assert await waiting is None
        assert await shutdown.race(asyncio.sleep(100, "later")) is None

    asyncio.run(run())


def test_a_cancelled_request_stays_cancelled():
    async def run() -> None:
        shutdown = Shutdown()
        work = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(shutdown.race(work))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert work.cancelled()

    asyncio.run(run())


def test_failures_of_the_work_are_passed_on():
    async def failing() -> None:
        raise OSError("gone")

    async def run() -> None:
        with pytest.raises(OSError, match="gone"):
            await Shutdown().race(failing())

    asyncio.run(run())


def test_a_long_wait_for_a_run_ends_at_the_shutdown():
    async def run() -> None:
        async with serving() as api:
            body = {"graph": "greeter", "after": "2999-01-01T00:00:00Z", "input": {}}
            for more in ({}, {"idempotencyKey": "k"}):
                waiting = asyncio.ensure_future(api.call("POST", "/workflow-runs?wait=300", json=body | more))
                await asyncio.sleep(0.05)
                assert not waiting.done()
                api.app.state.context.shutdown.begin()
                async with asyncio.timeout(600):
                    answer = await waiting
                assert answer.json()["data"]["status"] == "pending"
                api.app.state.context.shutdown.has_begun = False
            assert len(await api.get("/workflow-runs")) == 2

    asyncio.run(run())
