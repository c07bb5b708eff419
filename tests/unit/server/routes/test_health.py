"""Health, liveness, readiness and metrics."""

from __future__ import annotations

import asyncio
import threading
from typing import TypedDict

import pytest
from tests.unit.server.serving import LEAD, catalog, serving

from statewright import START, StateGraph
from statewright.checkpoint import InMemorySaver
from statewright.errors import StorageFull, StorageUnavailable
from statewright.futures import LightFuture
from statewright.observe import Metrics
from statewright.runs import DEFAULT_WORKSPACE, InMemoryLedger
from statewright.server.context import server_context
from statewright.server.routes import health
from statewright.service import Catalog, Service

SECONDS = 600.0
"""How long a step waits at most for its test."""


class UnavailableLedger(InMemoryLedger):
    """A ledger whose disk can become unavailable."""

    is_unavailable = False

    def find(self, *args, **options):
        if self.is_unavailable:
            raise StorageUnavailable("The disk is gone.")
        return super().find(*args, **options)


def test_a_healthy_service_reports_ok():
    async def run() -> None:
        async with serving(auth="keys") as api:
            for path in ("/health", "/api/v1/health", "/v1/health"):
                response = (await api.call("GET", path)).json()
                assert response == {"status": "ok", "checks": {"database": "ok", "writes": "ok", "queue": "ok"}}
            assert (await api.call("GET", "/ready")).json() == {"status": "ready"}

    asyncio.run(run())


def test_an_unavailable_database_is_reported_and_requests_are_answered_with_503():
    async def run() -> None:
        ledger = UnavailableLedger()
        async with serving(service=Service(catalog(), ledger=ledger, saver=InMemorySaver())) as api:
            ledger.is_unavailable = True
            response = await api.call("GET", "/health")
            assert (response.status_code, response.json()["checks"]["database"]) == (503, "failing")
            refused = await api.call("GET", "/workflow-runs")
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "UNAVAILABLE")
            assert refused.headers["retry-after"] == "1"
            ledger.is_unavailable = False
            assert (await api.call("GET", "/health")).status_code == 200

    asyncio.run(run())


def test_liveness_does_not_depend_on_the_database():
    async def run() -> None:
        ledger = UnavailableLedger()
        async with serving(service=Service(catalog(), ledger=ledger, saver=InMemorySaver())) as api:
            ledger.is_unavailable = True
            assert (await api.call("GET", "/health")).status_code == 503
            response = await api.call("GET", "/live")
            assert (response.status_code, response.json()) == (200, {"status": "live"})
            ledger.is_unavailable = False

    asyncio.run(run())


class State(TypedDict, total=False):
    n: int


def test_a_process_is_not_live_while_a_step_blocks_its_event_loop(monkeypatch: pytest.MonkeyPatch):
    has_begun, may_end = threading.Event(), threading.Event()

    async def block(state: State) -> State:
        has_begun.set()
        may_end.wait(SECONDS)  # no `await`: the event loop stands still
        return {"n": 1}

    async def run() -> None:
        served = Catalog()
        served.serve("blocking", StateGraph(State).add_node("block", block).add_edge(START, "block"))
        async with serving(service=Service(served)) as api:
            started = await api.post("/workflow-runs", {"graph": "blocking", "input": {}}, 201)
            assert await asyncio.to_thread(has_begun.wait, SECONDS)
            with monkeypatch.context() as patch:
                patch.setattr(health, "LIVE_TIMEOUT", 0.05)
                response = await api.call("GET", "/live")
            assert (response.status_code, response.json()) == (503, {"status": "stuck"})
            may_end.set()
            assert (await api.service.wait(DEFAULT_WORKSPACE, started["id"], seconds=SECONDS)).output == {"n": 1}
            assert (await api.call("GET", "/live")).json() == {"status": "live"}

    asyncio.run(run())


def test_a_process_that_advances_no_runs_any_more_is_still_live():
    async def run() -> None:
        async with serving() as api:
            await api.service.stop()
            assert (await api.call("GET", "/live")).status_code == 200

    asyncio.run(run())


def test_a_stopping_server_is_not_ready():
    async def run() -> None:
        async with serving() as api:
            api.app.state.context.shutdown.begin()
            response = await api.call("GET", "/ready")
            assert (response.status_code, response.json()) == (503, {"status": "stopping"})

    asyncio.run(run())


def test_a_starting_server_is_not_ready():
    async def run() -> None:
        async with serving() as api:
            await api.service.stop()
            response = await api.call("GET", "/ready")
            assert (response.status_code, response.json()) == (503, {"status": "starting"})
            assert (await api.call("GET", "/health")).json()["checks"]["queue"] == "failing"

    asyncio.run(run())


def test_metrics_are_served_for_prometheus():
    async def run() -> None:
        async with serving(metrics=Metrics()) as api:
            run = await api.start(LEAD)
            await api.get(f"/workflow-runs/{run['id']}")
            response = await api.call("GET", "/metrics")
            assert response.headers["content-type"].startswith("text/plain")
            expected = (
                'statewright_http_requests_total{method="GET",route="/api/v1/workflow-runs/{id}",status="200"} 1.0'
            )
            assert expected in response.text
            assert "statewright_sse_clients 0.0" in response.text

    asyncio.run(run())


def test_a_server_answers_while_the_database_does_not_answer_its_metrics_and_its_health(
    monkeypatch: pytest.MonkeyPatch,
):
    """The metrics that a server reads from its ledger wait for it as those of `statewright serve` do."""
    may_answer = threading.Event()
    reads: list[str] = []

    class SilentLedger(InMemoryLedger):
        def find(self, *args, **options):
            return LightFuture() if reads else super().find(*args, **options)

    def count_runs() -> dict[str, int]:
        reads.append("runs")
        may_answer.wait(SECONDS)
        return {"completed": 3}

    async def run() -> None:
        metrics = Metrics()
        metrics.count_runs_by(count_runs)
        ledger = SilentLedger()
        monkeypatch.setattr(server_context, "READ_TIMEOUT", 0.05)
        async with serving(metrics=metrics, service=Service(catalog(), ledger=ledger, saver=InMemorySaver())) as api:
            for _ in range(3):
                response = await api.call("GET", "/metrics")
                assert (response.status_code, response.json()["error"]["code"]) == (503, "UNAVAILABLE")
            assert reads == ["runs"]
            assert (await api.call("GET", "/ready")).status_code == 200
            response = await api.call("GET", "/health")
            assert (response.status_code, response.json()["checks"]["database"]) == (503, "failing")
            monkeypatch.setattr(api.app.state.context.metrics_page, "_timeout", SECONDS)
            may_answer.set()
            assert 'statewright_runs{status="completed"} 3.0' in (await api.call("GET", "/metrics")).text
            reads.clear()

    try:
        asyncio.run(run())
    finally:
        may_answer.set()


class FullLedger(InMemoryLedger):
    """A ledger that can be read, but may refuse writes."""

    is_full = False

    def write(self, changes):
        if self.is_full:
            raise StorageFull("There is no room left for /var/lib/runs.db.")
        return super().write(changes)


def test_a_database_that_refuses_writes_is_reported():
    async def run() -> None:
        ledger = FullLedger()
        async with serving(service=Service(catalog(), ledger=ledger, saver=InMemorySaver())) as api:
            ledger.is_full = True
            response = await api.call("GET", "/health")
            assert response.status_code == 503
            assert response.json()["checks"] == {"database": "ok", "writes": "failing", "queue": "ok"}
            refused = await api.post("/workflow-runs", {"graph": "greeter", "input": {}}, 503)
            assert "database is full" in refused["message"]
            assert "/var/lib" not in str(refused)
            ledger.is_full = False

    asyncio.run(run())
