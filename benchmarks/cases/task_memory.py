"""The memory of a task that waits, beyond its argument: in flight, and queued behind a limit on concurrency.

The arguments exist beforehand. The memory that is allocated between the start of the run and the moment when all its
tasks wait is divided by the number of tasks.
"""

import asyncio
import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.cases.fan_out import Gathered, fan_out_app
from benchmarks.engines import EngineLoader, langgraph, statewright
from benchmarks.figure import Figure, Rival, Take
from benchmarks.requirement import AtMost, Shown

IN_FLIGHT = 10_000
QUEUED = 100_000
RUNNING_BEFORE_QUEUE = 10


@dataclass
class Standstill:
    """Nodes that start, and wait until the run is cancelled."""

    tasks: int
    """The number of all tasks; the limit on concurrency decides how many of them start."""
    started_tasks: int
    """Number of started tasks at which the run stands still."""
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    _released: asyncio.Event = field(default_factory=asyncio.Event)
    _started: int = 0

    async def work(self, task: dict[str, int]) -> dict[str, list[int]]:
        self._started += 1
        if self._started == self.started_tasks:
            self.reached.set()
        await self._released.wait()
        return {"found": []}

    def planner(self, engine: Any) -> Callable[..., Any]:
        """Return a planning node that sends arguments created in advance."""
        Command, Send = engine.Command, engine.Send  # noqa: N806  classes
        arguments = [{"number": number} for number in range(self.tasks)]

        async def plan(state: Gathered) -> Any:
            return Command(goto=[Send("work", argument) for argument in arguments])

        return plan


async def bytes_per_task(load: EngineLoader, tasks: int, started_tasks: int) -> float:
    """Return the memory of one task while the run stands still."""
    standstill = Standstill(tasks, started_tasks)
    app = fan_out_app(load, standstill.work, standstill.planner)
    before = _traced()
    run = asyncio.ensure_future(app.ainvoke({"width": 0, "found": []}, {"max_concurrency": started_tasks}))
    await asyncio.wait({run, asyncio.ensure_future(standstill.reached.wait())}, return_when=asyncio.FIRST_COMPLETED)
    held = _traced() - before
    if run.done():
        run.result()
        raise RuntimeError(f"The run ended although {tasks} nodes wait")
    await _give_up(run)
    return held / tasks


async def _give_up(run: asyncio.Future[Any]) -> None:
    run.cancel()
    await asyncio.wait({run})


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def per_waiting_task(load: EngineLoader, tasks: int, started_tasks: int) -> Take:
    """Return the bytes per task, after a small run that fills all caches."""

    def take() -> float:
        asyncio.run(bytes_per_task(load, 10, 10))
        tracemalloc.start()
        try:
            return asyncio.run(bytes_per_task(load, tasks, started_tasks))
        finally:
            tracemalloc.stop()

    return take


FIGURES = (
    Figure(
        name="memory of a task in flight",
        unit="bytes",
        ours=per_waiting_task(statewright, IN_FLIGHT, IN_FLIGHT),
        rivals=(Rival(name="LangGraph", take=per_waiting_task(langgraph, IN_FLIGHT, IN_FLIGHT), requirement=Shown()),),
        limit=AtMost(2200),
        is_repeated=False,
        is_long=True,
    ),
    Figure(
        name="memory of a queued task",
        unit="bytes",
        ours=per_waiting_task(statewright, QUEUED, RUNNING_BEFORE_QUEUE),
        limit=AtMost(150),
        is_repeated=False,
    ),
)
