"""Whether it works is told to everybody."""

from __future__ import annotations

import asyncio

from tests.unit.server.serving import LEAD, catalog, serving

from statewright.checkpoint import InMemorySaver
from statewright.errors import StorageFull, StorageUnavailable
from statewright.observe import Metrics
from statewright.runs import InMemoryLedger
from statewright.service import Service


class Unplugged(InMemoryLedger):
    """A ledger whose disk can be taken away."""

    gone = False

    def find(self, *args, **options):
        if self.gone:
            raise StorageUnavailable("The disk is gone.")
        return super().find(*args, **options)


def test_everything_works():
    async def run() -> None:
        async with serving(auth="keys") as api:
            for path in ("/health", "/api/v1/health", "/v1/health"):
                told = (await api.call("GET", path)).json()
                assert told == {"status": "ok", "checks": {"database": "ok", "writes": "ok", "queue": "ok"}}
            assert (await api.call("GET", "/ready")).json() == {"status": "ready"}

    asyncio.run(run())


def test_a_database_that_is_gone_is_told_and_answers_are_503():
    async def run() -> None:
        ledger = Unplugged()
        async with serving(service=Service(catalog(), ledger=ledger, saver=InMemorySaver())) as api:
            ledger.gone = True
            told = await api.call("GET", "/health")
            assert (told.status_code, told.json()["checks"]["database"]) == (503, "failing")
            refused = await api.call("GET", "/workflow-runs")
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "UNAVAILABLE")
            assert refused.headers["retry-after"] == "1"
            ledger.gone = False
            assert (await api.call("GET", "/health")).status_code == 200

    asyncio.run(run())


def test_who_is_about_to_stop_is_not_ready():
    async def run() -> None:
        async with serving() as api:
            api.app.state.context.closing.begin()
            told = await api.call("GET", "/ready")
            assert (told.status_code, told.json()) == (503, {"status": "stopping"})

    asyncio.run(run())


def test_who_does_not_work_yet_is_not_ready():
    async def run() -> None:
        async with serving() as api:
            await api.service.stop()
            told = await api.call("GET", "/ready")
            assert (told.status_code, told.json()) == (503, {"status": "starting"})
            assert (await api.call("GET", "/health")).json()["checks"]["queue"] == "failing"

    asyncio.run(run())


def test_numbers_for_prometheus():
    async def run() -> None:
        async with serving(metrics=Metrics()) as api:
            run = await api.start(LEAD)
            await api.get(f"/workflow-runs/{run['id']}")
            told = await api.call("GET", "/metrics")
            assert told.headers["content-type"].startswith("text/plain")
            expected = (
                'statewright_http_requests_total{method="GET",route="/api/v1/workflow-runs/{id}",status="200"} 1.0'
            )
            assert expected in told.text
            assert "statewright_sse_clients 0.0" in told.text

    asyncio.run(run())


class Full(InMemoryLedger):
    """A ledger that can be read, and takes no writes any more."""

    full = False

    def write(self, changes):
        if self.full:
            raise StorageFull("There is no room left for /var/lib/runs.db.")
        return super().write(changes)


def test_a_database_that_takes_no_writes_is_told_though_it_can_be_read():
    async def run() -> None:
        ledger = Full()
        async with serving(service=Service(catalog(), ledger=ledger, saver=InMemorySaver())) as api:
            ledger.full = True
            told = await api.call("GET", "/health")
            assert told.status_code == 503
            assert told.json()["checks"] == {"database": "ok", "writes": "failing", "queue": "ok"}
            refused = await api.post("/workflow-runs", {"graph": "greeter", "input": {}}, 503)
            assert "no room left" in refused["message"]
            assert "/var/lib" not in str(refused)
            ledger.full = False

    asyncio.run(run())
