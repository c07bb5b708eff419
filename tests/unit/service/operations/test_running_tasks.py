"""Which tasks of a fan-out have begun, while a limit holds others back and after they have ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypedDict

import pytest

from statewright import Send, StateGraph
from statewright.checkpoint import Checkpointer
from statewright.runs import Ledger, StepRun
from statewright.service import Catalog, Service, ServiceSettings, StartRun

WORKSPACE = "ws_default"
COUNT, LIMIT = 6, 2


class State(TypedDict, total=False):
    number: int


class Gates:
    """One gate for each task, which it waits at."""

    def __init__(self) -> None:
        self._gates = [threading.Event() for _ in range(COUNT)]

    def plain(self, state: State) -> None:
        assert self._gates[state["number"]].wait(60)

    async def coroutine(self, state: State) -> None:
        while not self._gates[state["number"]].is_set():
            await asyncio.sleep(0.001)

    def open(self, *numbers: int) -> None:
        for number in numbers:
            self._gates[number].set()


def fan_out(node: Callable[..., Any], limit: int | None = None) -> StateGraph:
    graph = StateGraph(State).add_node("split", lambda _: None).add_node("work", node, max_concurrency=limit)
    graph.add_edge("__start__", "split")
    return graph.add_conditional_edges("split", lambda _: [Send("work", {"number": i}) for i in range(COUNT)], ["work"])


def statuses(steps: Sequence[StepRun]) -> list[str]:
    return [str(step.status.value) for step in steps if step.name == "work"]


@pytest.mark.parametrize("limits", ["run", "node"])
@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_tasks_that_wait_for_their_turn_are_pending_and_those_that_ended_say_when_they_began(
    kind: str, limits: str, storage: tuple[Ledger, Checkpointer]
) -> None:
    ledger, saver = storage
    gates, catalog = Gates(), Catalog()
    catalog.serve("g", fan_out(getattr(gates, kind), LIMIT if limits == "node" else None))

    async def run() -> None:
        reader = Service(catalog, ledger=ledger, saver=saver, settings=ServiceSettings(works=False))
        async with Service(catalog, ledger=ledger, saver=saver) as service, reader:
            request = StartRun(graph="g", input={}, settings={"maxConcurrency": LIMIT} if limits == "run" else {})
            # Another process than the worker's does not know the limits of nodes.
            sources = (service, reader) if limits == "run" else (service,)
            run_id = (await service.start(WORKSPACE, request)).run.id

            async def wait_for(expected: list[str], source: Service) -> Sequence[StepRun]:
                async with asyncio.timeout(30):
                    while statuses(steps := await source.steps(WORKSPACE, run_id)) != expected:
                        await asyncio.sleep(0.02)
                return steps

            first = ["running"] * LIMIT + ["pending"] * (COUNT - LIMIT)
            for source in sources:
                steps = await wait_for(first, source)
                assert [step.started_at is None for step in steps[1:]] == [step == "pending" for step in first]
                trace = await source.trace(WORKSPACE, run_id)
                assert [len(each.attempts) for each in trace.steps] == [1, 1, 1, 0, 0, 0, 0]
            gates.open(0)
            second = ["completed", "running", "running", "pending", "pending", "pending"]
            for source in sources:
                await wait_for(second, source)
            gates.open(*range(1, COUNT))
            await service.wait(WORKSPACE, run_id, 60)
            steps = (await service.steps(WORKSPACE, run_id))[1:]
            assert all(step.started_at is not None and step.completed_at is not None for step in steps)
            began = [step.started_at for step in steps if step.started_at is not None]
            ended = [step.completed_at for step in steps if step.completed_at is not None]
            assert began[2] >= ended[0]  # it had to wait for a place
            assert all(began[number] >= sorted(ended)[number - LIMIT] for number in range(LIMIT, COUNT))
            traced = await service.trace(WORKSPACE, run_id)
            assert [each.attempts[0].started_at for each in traced.steps[1:]] == began
            durations = [
                timedelta(milliseconds=event.payload["durationMs"])
                for event in await service.events(WORKSPACE, run_id)
                if event.type == "STEP_COMPLETED" and event.step_id != traced.steps[0].step.id
            ]
            measured = sorted(end - start for start, end in zip(began, ended, strict=True))
            near = timedelta(milliseconds=1)
            assert all(abs(one - other) < near for one, other in zip(sorted(durations), measured, strict=True))

    asyncio.run(run())
