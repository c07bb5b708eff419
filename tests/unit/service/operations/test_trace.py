"""What the pages of a trace read: in all, little more than the logs, however many pages there are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypedDict

import pytest

from statewright import Send, StateGraph
from statewright.async_futures import aresolve
from statewright.checkpoint import Checkpointer, InMemorySaver, PrunePolicy
from statewright.errors import InvalidRequest
from statewright.events import Event
from statewright.runs import InMemoryLedger, Ledger, RunEvent, RunStatus
from statewright.service import Catalog, Service, StartRun
from statewright.service.operations.trace import Trace
from statewright.testing import FakeClock

WORKSPACE = "ws_default"


class State(TypedDict, total=False):
    count: int


class CountingLedger(InMemoryLedger):
    """A ledger that counts the events that it returns."""

    read = 0

    def events(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[RunEvent]:
        events = super().events(run_id, after=after, limit=limit)
        self.read += len(events)
        return events


class CountingSaver(InMemorySaver):
    """A saver that counts the entries of logs that it returns."""

    counts: dict[str, int]

    def events(self, thread_id: str, **options: Any) -> list[Event]:
        events = super().events(thread_id, **options)
        self.counts["read"] += len(events)
        return events


def increase(state: State) -> State:
    return {"count": state.get("count", 0) + 1}


def loop(count: int, *, fails_at: int = 0) -> StateGraph:
    """Return a graph that runs a node a number of times, and fails once after another number of times."""
    failures = [fails_at] if fails_at else []

    def work(state: State) -> State:
        if state.get("count", 0) in failures:
            failures.clear()
            raise ConnectionError("once")
        return increase(state)

    graph = StateGraph(State).add_node("work", work).add_edge("__start__", "work")
    return graph.add_conditional_edges("work", lambda state: "work" if state["count"] < count else "__end__")


async def pages_of(service: Service, run_id: str, limit: int) -> list[Trace]:
    """Return all pages of a trace."""
    pages = [await service.trace(WORKSPACE, run_id, limit=limit)]
    while pages[-1].next_cursor is not None:
        pages.append(await service.trace(WORKSPACE, run_id, cursor=pages[-1].next_cursor, limit=limit))
    return pages


def summary(pages: Sequence[Trace]) -> list[Any]:
    return [
        (each.step.id, each.attempts, each.waits, each.calls, each.inner_steps) for page in pages for each in page.steps
    ]


def test_all_pages_together_read_little_more_than_the_logs_once() -> None:
    async def run() -> None:
        catalog, ledger, saver = Catalog(), CountingLedger(), CountingSaver()
        saver.counts = {"read": 0}
        catalog.serve("loop", loop(1200))
        async with Service(catalog, ledger=ledger, saver=saver) as service:
            request = StartRun(graph="loop", input={}, settings={"recursionLimit": 2000})
            started = await service.start_and_wait(WORKSPACE, request, 60)
            assert started.run.status is RunStatus.COMPLETED
            ledger.read = saver.counts["read"] = 0
            (whole,) = [await service.trace(WORKSPACE, started.run.id, limit=1000)]
            assert whole.next_cursor is not None
            ledger.read = saver.counts["read"] = 0
            pages = await pages_of(service, started.run.id, 100)
            assert len(pages) == 12
            entries = 2 * 1200 + 2
            batches = (500 + 5, 1000 + 5)  # a page may read up to a batch too much, and the end of the page before
            assert ledger.read <= entries + 12 * batches[0]
            assert saver.counts["read"] <= entries + 12 * batches[1]
            assert all(page.is_complete for page in pages)
            assert {each.attempts[0].ended_at is None for page in pages for each in page.steps} == {False}
            assert [page.queued != () for page in pages] == [True] + [False] * 11

    asyncio.run(run())


@pytest.mark.parametrize("limit", [1, 3, 7])
def test_pages_of_any_size_show_the_same(limit: int, storage: tuple[Ledger, Checkpointer]) -> None:
    async def run() -> None:
        catalog = Catalog()
        inner = loop(3).compile()
        graph = StateGraph(State).add_node("first", increase).add_node("item", inner).add_node("last", increase)
        graph.add_edge("__start__", "first").add_edge("item", "last")
        graph.add_conditional_edges("first", lambda _: [Send("item", {"count": 0}) for _ in range(5)], ["item"])
        graph.add_edge("last", "loop").add_node("loop", loop(40).compile())
        catalog.serve("g", graph)
        catalog.serve("failing", loop(30, fails_at=20))
        async with Service(catalog, ledger=storage[0], saver=storage[1]) as service:
            for name in ("g", "failing"):
                started = await service.start_and_wait(WORKSPACE, StartRun(graph=name, input={}), 60)
                if name == "failing":
                    await service.retry(WORKSPACE, started.run.id)
                    await service.wait(WORKSPACE, started.run.id, 60)
                whole = await pages_of(service, started.run.id, 1000)
                pages = await pages_of(service, started.run.id, limit)
                assert sorted(summary(pages), key=str) == sorted(summary(whole), key=str)
                assert pages[0].queued == whole[0].queued
                assert len(whole[0].queued) == (2 if name == "failing" else 1)

    asyncio.run(run())


def test_pages_that_are_read_while_the_run_goes_on_miss_no_step() -> None:
    async def run() -> None:
        catalog = Catalog()
        catalog.serve("loop", loop(300))
        async with Service(catalog) as service:
            started = await service.start(WORKSPACE, StartRun(graph="loop", input={}, settings={"recursionLimit": 999}))
            seen: list[str] = []
            cursor = None
            while len(seen) < 300:
                page = await service.trace(WORKSPACE, started.run.id, cursor=cursor, limit=7)
                if page.next_cursor is None:
                    await asyncio.sleep(0.01)  # the run has not come further, so the page is read again
                    if page.total_steps < 300:
                        continue
                seen += [each.step.id for each in page.steps]
                cursor = page.next_cursor
            assert len(set(seen)) == 300

    asyncio.run(run())


def test_a_trace_is_complete_without_the_checkpoints_of_its_thread(storage: tuple[Ledger, Checkpointer]) -> None:
    async def run() -> None:
        catalog = Catalog()
        catalog.serve("g", StateGraph(State).add_node("box", loop(20).compile()).add_edge("__start__", "box"))
        async with Service(catalog, ledger=storage[0], saver=storage[1]) as service:
            started = await service.start_and_wait(WORKSPACE, StartRun(graph="g", input={}), 60)
            saver = service.context.saver_of(WORKSPACE)
            before = summary(await pages_of(service, started.run.id, 100))
            assert len(before[0][-1]) == 20
            await aresolve(saver.prune(PrunePolicy(keep_last=1), thread_id=started.run.thread_id))
            assert summary(await pages_of(service, started.run.id, 100)) == before
            assert len(await service.threads.checkpoints(WORKSPACE, started.run.thread_id, limit=10)) == 1
            await aresolve(saver.delete_thread(started.run.thread_id))
            ((step,),) = [page.steps for page in await pages_of(service, started.run.id, 100)]
            assert (step.inner_steps, len(step.attempts)) == ([], 1)
            assert await service.threads.checkpoints(WORKSPACE, started.run.thread_id, limit=10) == []

    asyncio.run(run())


def test_each_task_of_a_fan_out_ends_at_its_own_time() -> None:
    async def run() -> None:
        clock, catalog = FakeClock(), Catalog()
        graph = StateGraph(State).add_node("item", lambda _: clock.advance(1))
        graph.add_conditional_edges("__start__", lambda _: [Send("item", {"count": n}) for n in range(3)], ["item"])
        catalog.serve("fan", graph)
        async with Service(catalog, clock=clock) as service:
            request = StartRun(graph="fan", input={}, settings={"maxConcurrency": 1})
            started = await service.start_and_wait(WORKSPACE, request, 60)
            page = await service.trace(WORKSPACE, started.run.id)
            steps = sorted((each.step for each in page.steps), key=lambda step: step.position)
            begun, *_ = (step.started_at for step in steps)
            ends = [step.completed_at - begun for step in steps if step.completed_at is not None and begun is not None]
            assert ends == [timedelta(seconds=seconds) for seconds in (1, 2, 3)]
            assert [each.attempts[-1].ended_at for each in page.steps] == [
                each.step.completed_at for each in page.steps
            ]

    asyncio.run(run())


@pytest.mark.parametrize("cursor", ["", "x", "1.2.3", "1.a.-1.0", "1.a.1.1.1", "1.a." + "9" * 30 + ".0", "²1.a.1.1"])
def test_a_cursor_that_no_page_has_returned_is_refused(cursor: str) -> None:
    async def run() -> None:
        catalog = Catalog()
        catalog.serve("loop", loop(3))
        async with Service(catalog) as service:
            started = await service.start_and_wait(WORKSPACE, StartRun(graph="loop", input={}), 60)
            with pytest.raises(InvalidRequest, match="nextCursor"):
                await service.trace(WORKSPACE, started.run.id, cursor=cursor)

    asyncio.run(run())
