"""Threads of runs looked at and changed, by the workspace whose runs are on them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypedDict

import pytest

from statewright import END, START, StateGraph, interrupt
from statewright.checkpoint import Checkpointer
from statewright.errors import InvalidRequest, NotFound, RequestConflict
from statewright.runs import Advance, Ledger, RunStatus
from statewright.service.catalog import Catalog
from statewright.service.request import StartRun
from statewright.service.service import Service

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class State(TypedDict, total=False):
    n: int
    said: str


def one(state: State) -> State:
    return {"n": 1}


def two(state: State) -> State:
    return {"n": 2}


def asks(state: State) -> State:
    return {"said": interrupt("go on?")}


@asynccontextmanager
async def asked(storage: tuple[Ledger, Checkpointer]) -> AsyncIterator[tuple[Service, Any]]:
    """A service with a run that waits, on the thread `t`."""
    graph, before = StateGraph(State, name="g"), START
    for node in (one, two, asks):
        graph.add_node(node.__name__, node)
        graph.add_edge(before, node.__name__)
        before = node.__name__
    graph.add_edge(before, END)
    catalog = Catalog()
    catalog.serve("g", graph)
    async with Service(catalog, ledger=storage[0], saver=storage[1]) as service:
        started = await service.start_and_wait("default", StartRun(graph="g", input={"n": 0}, thread_id="t"), 10)
        yield service, started.run


async def test_a_thread_is_shown_as_it_stands_and_stood(storage: tuple[Ledger, Checkpointer]) -> None:
    async with asked(storage) as (service, run):
        threads = service.threads
        now = await threads.state("default", "t")
        assert (now["values"], now["next"], now["threadId"], now["branch"]) == ({"n": 2}, ["asks"], "t", "main")
        assert [task["interrupts"][0]["value"] for task in now["tasks"]] == ["go on?"]
        history = await threads.history("default", "t")
        assert [one["values"].get("n") for one in history] == [2, 1, 0]
        parents = [one["parentCheckpointId"] for one in history]
        assert parents[:-1] == [one["checkpointId"] for one in history[1:]]
        then = await threads.state("default", "t", history[1]["checkpointId"])
        assert (then["values"], then["next"]) == ({"n": 1}, ["two"])
        assert len(await threads.history("default", "t", limit=1)) == 1
        found = await threads.diff("default", "t", history[2]["checkpointId"], history[0]["checkpointId"])
        assert found == {"n": {"before": 0, "after": 2}}
        assert [one.id for one in await threads.runs("default", "t")] == [run.id]


async def test_what_is_not_there_or_somebody_elses_is_not_found(storage: tuple[Ledger, Checkpointer]) -> None:
    async with asked(storage) as (service, _):
        threads = service.threads
        for act in (
            threads.state("other", "t"),
            threads.state("default", "nothing"),
            threads.state("default", "t", "nothing"),
            threads.history("other", "t"),
            threads.fork("default", "t", "nothing"),
            threads.update("other", "t", {"n": 5}),
        ):
            with pytest.raises(NotFound):
                await act


async def test_a_thread_forks_and_is_repaired(storage: tuple[Ledger, Checkpointer]) -> None:
    async with asked(storage) as (service, _):
        threads = service.threads
        history = await threads.history("default", "t")
        forked = await threads.fork("default", "t", history[1]["checkpointId"], "other")
        assert (forked["values"], forked["branch"]) == ({"n": 1}, "other")
        assert {one["branch"] for one in await threads.history("default", "t")} == {"main", "other"}
        assert (await threads.state("default", "t"))["values"] == {"n": 2}
        changed = await threads.update("default", "t", {"n": 7}, as_node="two")
        assert (changed["values"]["n"], changed["next"]) == (7, ["asks"])
        with pytest.raises(InvalidRequest):
            await threads.update("default", "t", {"m": "unknown"})


async def test_a_thread_at_work_is_not_changed(storage: tuple[Ledger, Checkpointer]) -> None:
    async with asked(storage) as (service, run):
        await service.desk.write([Advance(run.id, service.clock.now(), {"status": RunStatus.RUNNING, "claim": "c"})])
        history = await service.threads.history("default", "t")
        for act in (
            service.threads.update("default", "t", {"n": 7}),
            service.threads.fork("default", "t", history[1]["checkpointId"]),
        ):
            with pytest.raises(RequestConflict, match=run.id):
                await act
