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


class Swept:
    """A part that notes when it is swept."""

    def __init__(self, due: Callable[[datetime], datetime | None]) -> None:
        self.at: list[datetime] = []
        self.closed = 0
        self._due = due

    async def sweep(self, now: datetime) -> datetime | None:
        self.at.append(now)
        return self._due(now)

    async def close(self) -> None:
        self.closed += 1


class Broken(Swept):
    async def sweep(self, now: datetime) -> datetime | None:
        await super().sweep(now)
        raise ValueError("no luck")


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_task_sweeps_at_once_and_then_when_it_is_due() -> None:
    clock, part = FakeClock(), Swept(lambda now: now + timedelta(seconds=2))
    background = Background([part], clock)
    await background.start()
    await turns()
    began = clock.now()
    for seconds in (1, 1, 2):
        clock.advance(timedelta(seconds=seconds))
        await turns()
    assert [(at - began).total_seconds() for at in part.at] == [0, 2, 4]
    await background.stop()
    clock.advance(timedelta(seconds=60))
    await turns()
    assert (len(part.at), part.closed) == (3, 1)


async def test_an_idle_task_sweeps_regularly_and_when_woken() -> None:
    clock, part, other = FakeClock(), Swept(lambda _: None), Swept(lambda now: now + timedelta(days=1))
    background = Background([part, other], clock)
    await background.start()
    await turns()
    background.wake()
    await turns()
    clock.advance(timedelta(seconds=MAX_INTERVAL))
    await turns()
    assert (len(part.at), len(other.at)) == (3, 3)
    await background.stop()
    background.wake()


async def test_a_failed_task_is_retried_and_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    clock, broken, part = FakeClock(), Broken(lambda _: None), Swept(lambda _: None)
    background = Background([broken, part], clock)
    with caplog.at_level(logging.ERROR, logger="statewright.service"):
        await background.start()
        await turns()
        clock.advance(timedelta(seconds=RETRY_AFTER))
        await turns()
        await background.stop()
    assert (len(broken.at), len(part.at)) == (2, 2)
    assert "Background task Broken has failed. It will be retried." in caplog.text
