"""Workers and queues over HTTP, and the permissions that they need."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.server.serving import ADMIN_TOKEN, BROKEN, LEAD, PAYMENT, catalog, serving

from statewright.async_futures import aresolve
from statewright.runs import DEFAULT_WORKSPACE, Change, Delete, Insert, Queue, Run, RunStatus, Update, Worker, where
from statewright.service import Service, ServiceSettings
from statewright.service.access import create_key
from statewright.service.context.records import release_values

OPERATOR = {"headers": {"x-admin-token": ADMIN_TOKEN}}


def http_only() -> Service:
    """A service that leaves its runs to the workers of other processes."""
    return Service(catalog(), settings=ServiceSettings(works=False))


async def write(service: Service, *changes: Change) -> None:
    await aresolve(service.context.ledger.write(changes))


def worker(service: Service, name: str, seconds: float, **values: Any) -> Insert:
    now = service.clock.now()
    until = now + timedelta(seconds=seconds)
    values = {"place": "here", "pid": 7, "process_started": "", "capacity": 3, "host": "pod-1", **values}
    return Insert(Worker(id=name, until=until, started_at=now, **values))


def test_workers_are_listed_with_their_status_and_their_runs():
    async def run() -> None:
        async with serving(service=http_only()) as api:
            service = api.service
            await write(
                service,
                worker(service, "wrk_a", 60, queues=["gpu"], versions=["def_1"]),
                worker(service, "wrk_b", 60, draining=True),
                worker(service, "wrk_c", -1),
            )
            run_id = (await api.start(LEAD, wait=0))["id"]
            await aresolve(service.context.ledger.claim("wrk_a", service.clock.now(), 1))
            listed = {entry["id"]: entry for entry in await api.get("/workers")}
            assert {name: (entry["status"], entry["claimed"]) for name, entry in listed.items()} == {
                "wrk_a": ("live", 1),
                "wrk_b": ("draining", 0),
                "wrk_c": ("lost", 0),
            }
            first = listed["wrk_a"]
            assert (first["queues"], first["versions"], first["host"]) == (["gpu"], ["def_1"], "pod-1")
            assert (listed["wrk_b"]["queues"], first["capacity"], first["pid"]) == (None, 3, 7)
            assert (await api.get(f"/workflow-runs/{run_id}"))["status"] == "pending"

    asyncio.run(run())


def test_a_worker_is_asked_to_drain():
    async def run() -> None:
        async with serving() as api:
            (entry,) = await api.get("/workers")
            drained = await api.post(f"/workers/{entry['id']}/drain", None, 202)
            assert (drained["id"], drained["status"]) == (entry["id"], "draining")
            problem = await api.post("/workers/wrk_none/drain", None, 404)
            assert entry["id"] in problem["message"]

    asyncio.run(run())


class VanishingRecords:
    """A ledger whose records of workers and queues are deleted by another process after each write."""

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def write(self, changes: Sequence[Change]) -> None:
        self._ledger.write(changes)
        if any(isinstance(change, Update) or isinstance(getattr(change, "record", None), Queue) for change in changes):
            self._ledger.write([Delete(Worker, where(id="wrk_a")), Delete(Queue, ())])


def test_a_worker_or_queue_that_is_removed_meanwhile_is_no_failure():
    async def run() -> None:
        async with serving(service=http_only()) as api:
            service = api.service
            await write(service, worker(service, "wrk_a", 60))
            vanishing: Any = VanishingRecords(service.context.ledger)
            service.context.ledger = vanishing
            problem = await api.post("/workers/wrk_a/drain", None, 404)
            assert "wrk_a" in problem["message"]
            limits = {"maxRunning": 2, "startsPerMinute": 60}
            answer = await api.call("PUT", "/queues/gpu", json=limits)
            queue = answer.json()["data"]
            assert (queue["name"], queue["maxRunning"], queue["depth"], queue["dead"]) == ("gpu", 2, 0, 0)

    asyncio.run(run())


def test_a_run_names_its_worker_and_the_machine_of_it_while_it_is_claimed():
    async def run() -> None:
        async with serving(service=http_only()) as api:
            ledger = api.service.context.ledger
            await write(api.service, worker(api.service, "wrk_a", 60))
            run_id = (await api.start(LEAD, wait=0))["id"]
            details = await api.get(f"/workflow-runs/{run_id}")
            assert (details["workerId"], details["workerHost"]) == (None, None)
            (claimed,) = await aresolve(ledger.claim("wrk_a", api.service.clock.now(), 1))
            details = await api.get(f"/workflow-runs/{run_id}")
            assert (details["workerId"], details["workerHost"]) == ("wrk_a", "pod-1")
            assert [entry["workerId"] for entry in await api.get("/workflow-runs")] == ["wrk_a"]
            await write(api.service, Delete(Worker, where(id="wrk_a")))  # it is lost, and its runs not yet released
            details = await api.get(f"/workflow-runs/{run_id}")
            assert (details["workerId"], details["workerHost"]) == ("wrk_a", None)
            await write(api.service, Update(Run, claimed.id, release_values(None)))
            assert (await api.get(f"/workflow-runs/{run_id}"))["workerId"] is None

    asyncio.run(run())


def test_the_machine_of_a_worker_is_only_shown_to_keys_that_may_read_workers():
    async def run() -> None:
        async with serving(service=http_only(), auth="keys", admin_token=ADMIN_TOKEN) as api:
            ledger, now = api.service.context.ledger, api.service.clock.now()
            await write(api.service, worker(api.service, "wrk_a", 60))
            keys = [
                (await create_key(ledger, DEFAULT_WORKSPACE, "key", scopes, now=now))[1]
                for scopes in (["admin"], ["runs:read"], ["runs:read", "workers:read"])
            ]
            owners = [api.as_owner_of(key) for key in keys]
            run_id = (await owners[0].start(LEAD, wait=0))["id"]
            await aresolve(ledger.claim("wrk_a", api.service.clock.now(), 1))
            shown = [await owner.get(f"/workflow-runs/{run_id}") for owner in owners]
            assert [details["workerId"] for details in shown] == ["wrk_a"] * 3
            assert [details["workerHost"] for details in shown] == [None, None, "pod-1"]

    asyncio.run(run())


def test_a_run_has_the_queue_and_the_priority_of_its_request():
    async def run() -> None:
        async with serving(service=http_only()) as api:
            started = await api.start(LEAD, wait=0, queue="gpu", priority=-5)
            assert (started["queue"], started["priority"], started["losses"]) == ("gpu", -5, 0)
            assert (await api.start(LEAD, wait=0))["queue"] == "default"
            for wrong in ({"queue": "a b"}, {"queue": ""}, {"priority": 1001}, {"priority": "1"}):
                await api.post("/workflow-runs", {"graph": "greeter", **wrong}, 400)

    asyncio.run(run())


def test_queues_are_listed_with_their_limits_and_the_runs_that_wait():
    async def run() -> None:
        async with serving(service=http_only()) as api:
            for _ in range(3):
                await api.start(LEAD, wait=0, queue="gpu")
            later = (api.service.clock.now() + timedelta(hours=1)).isoformat()
            await api.start(LEAD, wait=0, queue="gpu", after=later)
            await api.start(LEAD, wait=0, queue="night", after=later)
            await aresolve(api.service.context.ledger.claim("wrk_a", api.service.clock.now(), 1))
            limits = {"maxRunning": 2, "startsPerMinute": 60}
            changed = (await api.call("PUT", "/queues/gpu", json=limits)).json()["data"]
            assert (changed["maxRunning"], changed["startsPerMinute"]) == (2, 60)
            default, gpu, night = await api.get("/queues")
            assert (night["name"], night["depth"], night["claimed"]) == ("night", 0, 0)
            assert (gpu["name"], gpu["depth"], gpu["claimed"]) == ("gpu", 2, 1)
            assert gpu["oldestDueSeconds"] >= 0
            assert default == {
                "name": "default",
                "maxRunning": None,
                "startsPerMinute": None,
                "depth": 0,
                "oldestDueSeconds": None,
                "claimed": 0,
                "dead": 0,
                "workers": 0,
            }

    asyncio.run(run())


def test_limits_are_replaced_and_removed():
    async def run() -> None:
        async with serving(service=http_only()) as api:
            await api.call("PUT", "/queues/mail", json={"maxRunning": 2})
            changed = (await api.call("PUT", "/queues/mail", json={"startsPerMinute": 30})).json()["data"]
            assert (changed["maxRunning"], changed["startsPerMinute"]) == (None, 30)
            await api.delete("/queues/mail")
            assert [entry["name"] for entry in await api.get("/queues")] == ["default"]
            await api.delete("/queues/mail", 404)
            for name, body in (("a b", {}), ("mail", {"maxRunning": 0}), ("mail", {"limit": 1})):
                assert (await api.call("PUT", f"/queues/{name}", json=body)).status_code == 400

    asyncio.run(run())


ROUTES = (("GET", "/workers"), ("POST", "/workers/wrk_x/drain"), ("GET", "/queues"), ("DELETE", "/queues/x"))


@pytest.mark.parametrize(
    ("scopes", "statuses"),
    [
        (["admin"], (403, 403, 403, 403)),
        (["workers:read"], (200, 403, 200, 403)),
        (["workers:manage"], (403, 404, 403, 404)),
        (["metrics:read"], (403, 403, 403, 403)),
    ],
)
def test_keys_need_a_scope_that_admin_does_not_include(scopes: Sequence[str], statuses: tuple[int, ...]) -> None:
    async def run() -> None:
        async with serving(auth="keys", admin_token=ADMIN_TOKEN) as api:
            ledger, now = api.service.context.ledger, api.service.clock.now()
            _, key = await create_key(ledger, DEFAULT_WORKSPACE, "key", scopes, now=now)
            owner = api.as_owner_of(key)
            assert tuple([(await owner.call(*route)).status_code for route in ROUTES]) == statuses
            assert tuple([(await api.call(*route)).status_code for route in ROUTES]) == (401, 401, 401, 401)
            operator = tuple([(await api.call(*route, **OPERATOR)).status_code for route in ROUTES])
            assert operator == (200, 404, 200, 404)

    asyncio.run(run())


def test_an_admin_key_cannot_create_a_key_for_workers():
    async def run() -> None:
        async with serving(auth="keys") as api:
            ledger, now = api.service.context.ledger, api.service.clock.now()
            _, key = await create_key(ledger, DEFAULT_WORKSPACE, "key", ["admin"], now=now)
            await api.as_owner_of(key).post("/api-keys", {"name": "more", "scopes": ["workers:manage"]}, 403)

    asyncio.run(run())


def test_runs_that_were_set_aside_are_listed_and_retried():
    async def run() -> None:
        async with serving() as api:
            lost, failed = (await api.start(BROKEN))["id"], (await api.start(BROKEN))["id"]
            await api.start(PAYMENT)
            await write(api.service, Update(Run, lost, {"losses": 10}))
            assert [entry["id"] for entry in await api.get("/workflow-runs?dead=true")] == [lost]
            assert len(await api.get("/workflow-runs")) == 3
            assert [(entry["name"], entry["dead"]) for entry in await api.get("/queues")] == [("default", 1)]
            retried = await api.post("/workflow-runs/retry", {"dead": True})
            assert retried["runIds"] == [lost]
            assert (await api.get(f"/workflow-runs/{lost}?wait=10"))["losses"] == 0
            assert await api.get("/workflow-runs?dead=true") == []
            (other,) = await aresolve(api.service.context.ledger.find(Run, where(id=failed)))
            assert other.status is RunStatus.FAILED
            await api.post("/workflow-runs/retry", {"dead": False}, 400)

    asyncio.run(run())


def test_a_service_without_a_worker_is_healthy_and_leaves_its_runs_alone():
    async def run() -> None:
        async with serving(service=http_only()) as api:
            assert (await api.call("GET", "/health")).json()["checks"]["queue"] == "ok"
            assert (await api.call("GET", "/ready")).status_code == 200
            started = await api.start(LEAD, wait=0.05)
            assert (started["status"], await api.get("/workers")) == ("pending", [])

    asyncio.run(run())
