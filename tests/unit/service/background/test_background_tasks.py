"""Background tasks sweep when they are due or woken, also after failures."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from statewright.service.background.background_tasks import MAX_INTERVAL, RETRY_AFTER, Background
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class RecordingTask:
    """A task that records the times of its sweeps."""

    def __init__(self, due: Callable[[datetime], datetime | None]) -> None:
        self.at: list[datetime] = []
        self.closed = 0
        self._due = due

    async def sweep(self, now: datetime) -> datetime | None:
        self.at.append(now)
        return self._due(now)

    async def close(self) -> None:
        self.closed += 1


class FailingTask(RecordingTask):
    async def sweep(self, now: datetime) -> datetime | None:
        await super().sweep(now)
        raise ValueError("no luck")


async def run_pending() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_task_sweeps_at_once_and_then_when_it_is_due() -> None:
    clock, task = FakeClock(), RecordingTask(lambda now: now + timedelta(seconds=2))
    background = Background([task], clock)
    await background.start()
    await run_pending()
    began = clock.now()
    for seconds in (1, 1, 2):
        clock.advance(timedelta(seconds=seconds))
        await run_pending()
    assert [(at - began).total_seconds() for at in task.at] == [0, 2, 4]
    await background.stop()
    clock.advance(timedelta(seconds=60))
    await run_pending()
    assert (len(task.at), task.closed) == (3, 1)


async def test_an_idle_task_sweeps_regularly_and_when_woken() -> None:
    clock, task, other = FakeClock(), RecordingTask(lambda _: None), RecordingTask(lambda now: now + timedelta(days=1))
    background = Background([task, other], clock)
    await background.start()
    await run_pending()
    background.wake()
    await run_pending()
    clock.advance(timedelta(seconds=MAX_INTERVAL))
    await run_pending()
    assert (len(task.at), len(other.at)) == (3, 3)
    await background.stop()
    background.wake()


async def test_a_failed_task_is_retried_and_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    clock, failing, task = FakeClock(), FailingTask(lambda _: None), RecordingTask(lambda _: None)
    background = Background([failing, task], clock)
    with caplog.at_level(logging.ERROR, logger="statewright.service"):
        await background.start()
        await run_pending()
        clock.advance(timedelta(seconds=RETRY_AFTER))
        await run_pending()
        await background.stop()
    assert (len(failing.at), len(task.at)) == (2, 2)
    assert "Background task FailingTask has failed. It will be retried." in caplog.text
