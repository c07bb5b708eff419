"""Reading and editing the threads of a workspace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, TypedDict

import pytest
from tests.unit.service.conftest import NOW

from statewright import END, START, StateGraph, interrupt
from statewright.async_futures import aresolve
from statewright.checkpoint import Checkpointer
from statewright.errors import Forbidden, InvalidRequest, NotFound, RequestConflict
from statewright.runs import Advance, ApiKey, Approval, Insert, Ledger, Run, RunStatus, StoredDefinition
from statewright.service.catalog.catalog import Catalog
from statewright.service.context.requests import StartRun
from statewright.service.operations.thread_edits import ResumableRun
from statewright.service.service import Service

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class State(TypedDict, total=False):
    n: int
    answer: str


def one(state: State) -> State:
    return {"n": 1}


def two(state: State) -> State:
    return {"n": 2}


def asks(state: State) -> State:
    return {"answer": interrupt("go on?")}


@asynccontextmanager
async def waiting_service(storage: tuple[Ledger, Checkpointer]) -> AsyncIterator[tuple[Service, Any]]:
    """Yield a service with a waiting run on the thread `t`."""
    graph, last = StateGraph(State, name="g"), START
    for node in (one, two, asks):
        graph.add_node(node.__name__, node)
        graph.add_edge(last, node.__name__)
        last = node.__name__
    graph.add_edge(last, END)
    catalog = Catalog()
    catalog.serve("g", graph)
    async with Service(catalog, ledger=storage[0], saver=storage[1]) as service:
        started = await service.start_and_wait("default", StartRun(graph="g", input={"n": 0}, thread_id="t"), 600)
        yield service, started.run


async def test_a_thread_is_read_at_its_head_and_at_checkpoints(storage: tuple[Ledger, Checkpointer]) -> None:
    async with waiting_service(storage) as (service, run):
        threads = service.threads
        now = await threads.state("default", "t")
        assert (now["values"], now["next"], now["threadId"], now["branch"]) == ({"n": 2}, ["asks"], "t", "main")
        assert [task["interrupts"][0]["value"] for task in now["tasks"]] == ["go on?"]
        history = await threads.history("default", "t")
        assert [item["values"].get("n") for item in history] == [2, 1, 0]
        parents = [item["parentCheckpointId"] for item in history]
        assert parents[:-1] == [item["checkpointId"] for item in history[1:]]
        earlier = await threads.state("default", "t", history[1]["checkpointId"])
        assert (earlier["values"], earlier["next"]) == ({"n": 1}, ["two"])
        assert len(await threads.history("default", "t", limit=1)) == 1
        result = await threads.diff("default", "t", history[2]["checkpointId"], history[0]["checkpointId"])
        assert result == {"n": {"before": 0, "after": 2}}
        assert [run.id for run in await threads.runs("default", "t")] == [run.id]


async def test_missing_and_foreign_threads_are_not_found(storage: tuple[Ledger, Checkpointer]) -> None:
    async with waiting_service(storage) as (service, _):
        threads = service.threads
        for call in (
            threads.state("other", "t"),
            threads.state("default", "nothing"),
            threads.state("default", "t", "nothing"),
            threads.history("other", "t"),
            threads.fork("default", "t", "nothing"),
            threads.update("other", "t", {"n": 5}),
        ):
            with pytest.raises(NotFound):
                await call


async def test_a_thread_is_forked_and_updated(storage: tuple[Ledger, Checkpointer]) -> None:
    async with waiting_service(storage) as (service, _):
        threads = service.threads
        history = await threads.history("default", "t")
        forked = await threads.fork("default", "t", history[1]["checkpointId"], "other")
        assert (forked["values"], forked["branch"]) == ({"n": 1}, "other")
        assert {item["branch"] for item in await threads.history("default", "t")} == {"main", "other"}
        assert (await threads.state("default", "t"))["values"] == {"n": 2}
        changed = await threads.update("default", "t", {"n": 7}, as_node="two")
        assert (changed["values"]["n"], changed["next"]) == (7, ["asks"])
        with pytest.raises(InvalidRequest):
            await threads.update("default", "t", {"m": "unknown"})


async def test_a_busy_thread_is_not_changed(storage: tuple[Ledger, Checkpointer]) -> None:
    async with waiting_service(storage) as (service, run):
        await service.context.write([Advance(run.id, service.clock.now(), {"status": RunStatus.RUNNING, "claim": "c"})])
        history = await service.threads.history("default", "t")
        for call in (
            service.threads.update("default", "t", {"n": 7}),
            service.threads.fork("default", "t", history[1]["checkpointId"]),
        ):
            with pytest.raises(RequestConflict, match=run.id):
                await call


# -- scopes needed to change a thread whose runs ask for approvals


def edits(service: Service, key: ApiKey | None, checkpoint_id: str) -> list[Callable[[], Any]]:
    """Return one call of each operation that changes the thread."""
    return [
        lambda: service.threads.update("default", "t", {"n": 7}, key=key),
        lambda: service.threads.fork("default", "t", checkpoint_id, key=key),
    ]


def key_with(*scopes: str) -> ApiKey:
    return ApiKey(
        id="key_1", workspace_id="default", name="w", prefix="stw_", digest="", scopes=list(scopes), created_at=NOW
    )


async def is_forbidden(service: Service) -> bool:
    """Return whether only keys that may decide approvals can change the thread."""
    history = await service.threads.history("default", "t")
    refused = 0
    for call in edits(service, key_with("threads:write"), history[-1]["checkpointId"]):
        try:
            await call()
        except Forbidden:
            refused += 1
    if refused:
        assert await service.threads.history("default", "t") == history
        for call in edits(service, key_with("threads:write", "approvals:decide"), history[0]["checkpointId"]):
            await call()
    assert refused in (0, 2)
    return refused == 2


def new_approval(run_id: str, service: Service) -> Approval:
    named = {"id": f"a-{run_id}", "run_id": run_id, "workspace_id": "default", "step_id": "s", "step_name": "s"}
    return Approval(**named, created_at=service.clock.now())


async def test_without_approvals_the_scope_threads_write_is_enough(storage: tuple[Ledger, Checkpointer]) -> None:
    async with waiting_service(storage) as (service, _):
        assert not await is_forbidden(service)


async def test_a_change_takes_the_place_of_a_node_in_python_only_with_the_scope_to_decide(
    storage: tuple[Ledger, Checkpointer],
) -> None:
    async with waiting_service(storage) as (service, _):
        with pytest.raises(Forbidden):
            await service.threads.update("default", "t", {"n": 7}, as_node="two", key=key_with("threads:write"))
        may_decide = key_with("threads:write", "approvals:decide")
        assert (await service.threads.update("default", "t", {"n": 7}, as_node="two", key=may_decide))["values"][
            "n"
        ] == 7


async def test_an_approval_of_any_run_protects_the_thread(
    storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run]
) -> None:
    async with waiting_service(storage) as (service, run):
        later = {"thread_id": "t", "definition_id": run.definition_id, "status": RunStatus.CANCELLED}
        runs = [new_run(**later, created_at=run.created_at + timedelta(seconds=n)) for n in range(120)]
        await service.context.write([*map(Insert, runs), Insert(new_approval(run.id, service))])
        assert await is_forbidden(service)


async def test_an_approval_step_in_the_definition_of_any_run_protects_the_thread(
    storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run]
) -> None:
    async with waiting_service(storage) as (service, run):
        definition = StoredDefinition(
            id="def_1", workspace_id="default", name="agrees", version="1", kind="steps",
            body={"steps": [{"type": "approval", "name": "agree"}]}, digest="", created_at=run.created_at,
        )  # fmt: skip
        previous = new_run(
            thread_id="t", definition_id="def_1", status=RunStatus.CANCELLED, created_at=run.created_at - timedelta(1)
        )
        await service.context.write([Insert(definition), Insert(previous)])
        assert await is_forbidden(service)


@pytest.mark.parametrize(("status", "is_counted"), [(RunStatus.WAITING, True), (RunStatus.COMPLETED, False)])
async def test_approvals_of_unfinished_descendants_protect_the_thread(
    storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run], status: RunStatus, is_counted: bool
) -> None:
    async with waiting_service(storage) as (service, run):
        child = new_run(parent_id=run.id, definition_id=run.definition_id, status=RunStatus.WAITING)
        grandchild = new_run(parent_id=child.id, definition_id=run.definition_id, status=status)
        await service.context.write([Insert(child), Insert(grandchild), Insert(new_approval(grandchild.id, service))])
        assert await is_forbidden(service) is is_counted


async def test_an_approval_requested_concurrently_protects_the_thread(
    storage: tuple[Ledger, Checkpointer], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with waiting_service(storage) as (service, run):
        find = ResumableRun.find

        async def find_and_write(*args: Any) -> Any:
            result = await find(*args)
            await service.context.write([Insert(new_approval(run.id, service))])
            return result

        monkeypatch.setattr(ResumableRun, "find", find_and_write)
        with pytest.raises(Forbidden):
            await service.threads.update("default", "t", {"n": 7}, as_node="two", key=key_with("threads:write"))


@pytest.mark.parametrize("status", [RunStatus.PENDING, RunStatus.WAITING])
async def test_a_run_that_takes_an_idle_thread_concurrently_is_a_conflict(
    storage: tuple[Ledger, Checkpointer],
    new_run: Callable[..., Run],
    monkeypatch: pytest.MonkeyPatch,
    status: RunStatus,
) -> None:
    async with waiting_service(storage) as (service, run):
        await service.context.write([Advance(run.id, service.clock.now(), {"status": RunStatus.FAILED})])
        find = ResumableRun.find

        async def find_and_write(*args: Any) -> Any:
            result = await find(*args)
            begun = status is RunStatus.WAITING
            await service.context.write([Insert(new_run(thread_id="t", status=status, begun=begun))])
            return result

        monkeypatch.setattr(ResumableRun, "find", find_and_write)
        head = await service.threads.state("default", "t")
        with pytest.raises(RequestConflict, match="Another run on thread"):
            await service.threads.update("default", "t", {"n": 7}, as_node="two")
        monkeypatch.undo()
        after = await aresolve(storage[1].load("t"))
        assert after is not None
        assert after.checkpoint.id == head["checkpointId"]


async def test_a_thread_is_read_with_the_graph_of_the_run_that_began_on_it(
    storage: tuple[Ledger, Checkpointer], new_run: Callable[..., Run]
) -> None:
    async with waiting_service(storage) as (service, run):
        later = run.created_at + timedelta(seconds=1)
        other = new_run(thread_id="t", definition_id="gone", status=RunStatus.CANCELLED, created_at=later)
        await service.context.write([Insert(other)])
        assert (await service.threads.state("default", "t"))["next"] == ["asks"]
