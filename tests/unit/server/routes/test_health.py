"""Health, readiness and metrics."""

from __future__ import annotations

import asyncio

from tests.unit.server.serving import LEAD, catalog, serving

from statewright.checkpoint import InMemorySaver
from statewright.errors import StorageFull, StorageUnavailable
from statewright.observe import Metrics
from statewright.runs import InMemoryLedger
from statewright.service import Service


class UnavailableLedger(InMemoryLedger):
    """A ledger whose disk can become unavailable."""

    is_gone = False

    def find(self, *args, **options):
        if self.is_gone:
            raise StorageUnavailable("The disk is gone.")
        return super().find(*args, **options)


def test_a_healthy_service():
    async def run() -> None:
        async with serving(auth="keys") as api:
            for path in ("/health", "/api/v1/health", "/v1/health"):
                response = (await api.call("GET", path)).json()
                assert response == {"status": "ok", "checks": {"database": "ok", "writes": "ok", "queue": "ok"}}
            assert (await api.call("GET", "/ready")).json() == {"status": "ready"}

    asyncio.run(run())


def test_an_unavailable_database_is_reported_and_requests_get_503():
    async def run() -> None:
        ledger = UnavailableLedger()
        async with serving(service=Service(catalog(), ledger=ledger, saver=InMemorySaver())) as api:
            ledger.is_gone = True
            response = await api.call("GET", "/health")
            assert (response.status_code, response.json()["checks"]["database"]) == (503, "failing")
            refused = await api.call("GET", "/workflow-runs")
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "UNAVAILABLE")
            assert refused.headers["retry-after"] == "1"
            ledger.is_gone = False
            assert (await api.call("GET", "/health")).status_code == 200

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


def test_metrics_for_prometheus():
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
