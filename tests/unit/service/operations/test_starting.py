"""Creation of runs: validation of requests, and records with labels."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from statewright import END, START, StateGraph
from statewright.async_futures import aresolve
from statewright.checkpoint import InMemorySaver
from statewright.errors import InvalidRequest, NotFound, PayloadTooLarge, RequestConflict
from statewright.runs import Absent, Advance, Insert, Ledger, Run, RunLabel, RunStatus
from statewright.service.catalog.catalog import Catalog
from statewright.service.context.requests import StartRun
from statewright.service.context.service_context import ServiceContext, ServiceSettings
from statewright.service.operations.control import Cancellation
from statewright.service.operations.starting import Starter, ThreadSlot, check_start, claimed, size_of
from statewright.testing import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def starter(ledger: Ledger, queue: str | None = None, **settings: Any) -> Starter:
    graph = StateGraph(dict, name="report")
    graph.add_node("one", lambda state: {})
    graph.add_edge(START, "one")
    graph.add_edge("one", END)
    catalog, clock = Catalog(), FakeClock()
    catalog.serve("report", graph, queue=queue)
    await aresolve(ledger.write([Insert(item) for item in catalog.to_records(clock.now())]))
    return Starter(ServiceContext(ledger, InMemorySaver(), catalog, clock, ServiceSettings(**settings)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"on_busy": "interupt"}, "Did you mean 'interrupt'"),
        ({"idempotency_key": ""}, "idempotencyKey must have 1 to 255 characters; it has 0"),
        ({"idempotency_key": "k" * 256}, "256"),
        ({"thread_id": "t" * 256}, "threadId must have 1 to 255 characters; it has 256"),
        ({"tags": ["fine", ""]}, "tag must have 1 to 200"),
        ({"tags": [str(number) for number in range(51)]}, "51 tags"),
        ({"tags": ["t" * 201]}, "201"),
        ({"timeout": 0}, "must be above 0"),
        ({"timeout": -1}, "must be above 0"),
        ({"timeout": float("nan")}, "must be above 0"),
        ({"timeout": float("inf")}, "ten years"),
        ({"queue": "a b"}, "The queue 'a b' is not valid"),
        ({"priority": 1001}, "from -1000 to 1000; it is 1001"),
        ({"concurrency_limit": 1}, "needs a concurrencyKey"),
        ({"concurrency_limit": 0, "concurrency_key": "k"}, "at least 1"),
        ({"input": {"a": object()}}, "represented as JSON"),
        ({"after": datetime(2030, 1, 1)}, "has no time zone"),
    ],
)
def test_invalid_requests_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        check_start(StartRun(graph="report", **options), ServiceSettings())


def test_values_larger_than_the_limits_are_refused() -> None:
    settings = ServiceSettings(max_input=10, max_payload=20)
    check_start(StartRun(graph="g", input="12345678"), settings)
    with pytest.raises(PayloadTooLarge, match="11 bytes"):
        check_start(StartRun(graph="g", input="123456789"), settings)
    with pytest.raises(PayloadTooLarge, match="Metadata and settings"):
        check_start(StartRun(graph="g", metadata={"a": "x" * 20}), settings)


def test_the_size_of_a_value_is_the_size_of_its_json_in_bytes() -> None:
    assert (size_of(None), size_of("ä"), size_of({"a": [1]})) == (4, 4, 9)


async def test_a_run_has_the_requested_values(ledger: Ledger, now: datetime) -> None:
    request = StartRun(
        graph="report", input={"a": 1}, tags=["red", "red"], metadata={"n": 1}, timeout=60,
        settings={"recursionLimit": 3}, source="api", thread_id="t", on_busy="enqueue",
    )  # fmt: skip
    run, changes = await (await starter(ledger)).prepare("default", request, now)
    assert (run.status, run.version, run.due_at, run.thread_id) == (RunStatus.PENDING, 1, now, "t")
    assert (run.deadline_at, run.input, run.on_busy) == (now + timedelta(minutes=1), {"a": 1}, "enqueue")
    assert run.definition_id is not None
    assert run.definition_id.startswith("def_")
    assert [type(change.record) for change in changes if isinstance(change, Insert)] == [Run, RunLabel, RunLabel]
    assert {(change.record.name, change.record.value) for change in changes[1:]} == {("", "red"), ("n", "1")}  # type: ignore[union-attr]


async def test_a_run_has_the_queue_of_its_request_else_of_its_tags_else_of_its_graph(
    ledger: Ledger, now: datetime
) -> None:
    starting = await starter(ledger, queue="reports", queues_by_tag={"video": "gpu", "mail": "slow"})

    async def queue_of(**options: Any) -> str:
        return (await starting.prepare("default", StartRun(graph="report", **options), now))[0].queue

    assert await queue_of(queue="mine", tags=["video"]) == "mine"
    assert await queue_of(tags=["other", "mail", "video"]) == "slow"
    assert await queue_of(tags=["other"]) == "reports"


async def test_a_run_has_its_own_thread_and_begins_no_earlier_than_now(ledger: Ledger, now: datetime) -> None:
    start = await starter(ledger)
    run, _ = await start.prepare("default", StartRun(graph="report", after=now - timedelta(days=1)), now)
    assert (run.thread_id, run.due_at) == (run.id, now)
    later, _ = await start.prepare("default", StartRun(graph="report", after=now + timedelta(days=1)), now)
    assert later.due_at == now + timedelta(days=1)
    assert later.id > run.id
    with pytest.raises(NotFound, match="Did you mean 'report'"):
        await start.prepare("default", StartRun(graph="reprot"), now)


class Cancellations:
    """Records requested cancellations."""

    def __init__(self) -> None:
        self.run_ids: list[str] = []
        self.published = 0

    async def cancel_runs(self, runs: Sequence[Run], reason: str) -> Cancellation:
        self.run_ids += [run.id for run in runs]
        return Cancellation([Advance(run.id, run.created_at) for run in runs], self.publish)

    def publish(self) -> None:
        self.published += 1


async def find_slot(start: Starter, run: Run, cancellations: Cancellations) -> ThreadSlot:
    slot = await start.find_slot(run, cancellations.cancel_runs)
    assert isinstance(slot, ThreadSlot)
    return slot


async def test_a_thread_is_busy_only_in_its_own_workspace(ledger: Ledger, new_run: Any) -> None:
    start, cancellations = await starter(ledger), Cancellations()
    await aresolve(ledger.write([Insert(new_run(id="run_1", thread_id="t"))]))
    await aresolve(ledger.write([Insert(new_run(id="run_0", thread_id="u", status=RunStatus.COMPLETED))]))
    for free in (new_run(thread_id="u"), new_run(thread_id="t", workspace_id="other", on_busy="interrupt")):
        slot = await find_slot(start, free, cancellations)
        assert (slot.run, [type(change) for change in slot.changes]) == (free, [Absent])
    with pytest.raises(RequestConflict, match="run_1, which is pending") as caught:
        await start.find_slot(new_run(thread_id="t"), cancellations.cancel_runs)
    assert caught.value.details == {"runs": ["run_1"]}
    assert cancellations.run_ids == []
    slot = await find_slot(start, new_run(thread_id="t", on_busy="rollback"), cancellations)
    assert slot.run.settings == {"takesOver": ["run_1"], "rollsBack": True}
    assert [type(change) for change in slot.changes] == [Advance, Absent]
    assert (cancellations.run_ids, cancellations.published) == (["run_1"], 0)
    slot.publish()
    assert cancellations.published == 1


async def test_queued_runs_and_runs_on_their_own_thread_need_no_slot(ledger: Ledger, new_run: Any) -> None:
    start = await starter(ledger)
    await aresolve(ledger.write([Insert(new_run(thread_id="t"))]))
    for run in (new_run(thread_id="t", on_busy="enqueue"), new_run(), new_run(on_busy="interrupt")):
        assert (await find_slot(start, run, Cancellations())).changes == ()


async def test_a_used_idempotency_key_returns_the_run_on_the_thread(ledger: Ledger, new_run: Any) -> None:
    start = await starter(ledger)
    run = new_run(id="run_1", thread_id="t", idempotency_key="k")
    await aresolve(ledger.write([Insert(run)]))

    cancellations = Cancellations()
    for on_busy in ("reject", "enqueue", "interrupt", "rollback"):
        again = new_run(thread_id="t", on_busy=on_busy, idempotency_key="k")
        slot = await start.find_slot(again, cancellations.cancel_runs)
        assert isinstance(slot, Run)
        assert slot.id == "run_1"
    assert cancellations.run_ids == []


@pytest.mark.parametrize(("begun", "rolls_back"), [(False, True), (True, False)])
async def test_a_takeover_inherits_the_takeovers_of_cancelled_runs(
    ledger: Ledger, new_run: Any, begun: bool, rolls_back: bool
) -> None:
    start = await starter(ledger)
    settings = {"takesOver": ["run_1"], "rollsBack": True}
    await aresolve(ledger.write([Insert(new_run(id="run_2", thread_id="t", begun=begun, settings=settings))]))
    slot = await find_slot(start, new_run(thread_id="t", on_busy="interrupt"), Cancellations())
    assert slot.run.settings == {"takesOver": ["run_2", "run_1"], "rollsBack": rolls_back}


def test_a_claimed_run_belongs_to_the_worker(new_run: Any, now: datetime) -> None:
    run = new_run(due_at=now)
    first, other = claimed(run, "wrk_1"), claimed(run, "wrk_1")
    assert (first.worker_id, first.due_at, first.version) == ("wrk_1", None, run.version)
    assert first.claim not in (None, other.claim)
    assert run.claim is None
