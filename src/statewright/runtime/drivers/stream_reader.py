"""The reader of an async stream, whose run is driven by an asyncio task."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

from statewright.runtime.drivers.event_loop import drive_in_turn
from statewright.runtime.invocation.emitter import StreamBuffer
from statewright.runtime.invocation.run import Run

_TASKS_ATTRIBUTE: Final = "_statewright_tasks"
"""The attribute of an event loop that holds the set of tasks that drive its streams."""


class StreamReader:
    """Reads the parts of a stream while an asyncio task drives the run.

    This is not an async generator, because if two nested async generators are dropped together, the loop closes both at
    the same time, and they wait for each other.
    """

    def __init__(self, run: Run, graph_input: Any, buffer: StreamBuffer) -> None:
        loop = asyncio.get_running_loop()
        added = self._added = asyncio.Event()
        self._buffer = buffer
        buffer.wake = lambda: loop.call_soon_threadsafe(added.set)
        self._driving = loop.create_task(drive_in_turn(run, graph_input))
        self._driving.add_done_callback(lambda _: added.set())
        _keep_with_loop(loop, self._driving)

    async def read(self) -> list[Any] | None:
        """Wait for parts and return them; None at the end of the run. Raises the error that ended the run."""
        while not self._driving.done() or self._buffer.parts:
            await self._added.wait()
            self._added.clear()
            parts = self._buffer.take()
            if parts:
                return parts
        await self._driving
        return None

    async def close(self) -> None:
        """Cancel the run unless it has ended, and wait until it has ended."""
        self._driving.cancel()
        if not self._driving.done():
            await asyncio.wait([self._driving])


def _keep_with_loop(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    """Keep a task alive until it ends or its loop is dropped.

    An event loop holds only weak references to its tasks. If the reader of a stream became garbage, the task would be
    destroyed instead of cancelled. The set of tasks is stored in the loop, because a set in this module would keep the
    tasks of closed loops alive.
    """
    tasks: set[asyncio.Task[None]] = getattr(loop, _TASKS_ATTRIBUTE, set[asyncio.Task[None]]())
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    with suppress(AttributeError):  # a loop whose class has `__slots__`
        setattr(loop, _TASKS_ATTRIBUTE, tasks)
