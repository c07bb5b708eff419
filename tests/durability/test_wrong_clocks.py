"""Workers of one Postgres database whose clocks are wrong by an hour lose nothing, and are neither early nor late."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.durability.wrong_clock import NAP, PAUSE, QUEUES, open_service
from tests.postgres_server import execute, shared_url

from statewright.async_futures import aresolve
from statewright.runs import ENDED, Condition, Insert, Run, RunStatus
from statewright.service import Service, StartRun
from statewright.service.schedules import NewSchedule, add_schedule
from statewright.service.webhooks import add_webhook
from statewright.service.webhooks.delivery import DELIVERY_HEADER
from statewright.storage.postgres import PostgresDatabase, PostgresStore

pytestmark = pytest.mark.anyio
SCHEMA = "wrong_clocks"
LONG = 60.0
"""Seconds that nothing takes, and that are far less than an hour."""
TOLERANCE = 0.1
"""Seconds by which a clock that was measured may differ, with much to spare."""


class Receiver:
    """Receives messages of webhooks, and refuses each the first time."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = {}
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                times = receiver.times.setdefault(self.headers[DELIVERY_HEADER], [])
                times.append(time.time())
                self.send_response(503 if len(times) == 1 else 200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name in the base class
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


@contextmanager
def worker(hours: int, queue: str, host: str, queues: Sequence[str]) -> Generator[None]:
    command = [
        sys.executable,
        "-m",
        "tests.durability.wrong_clock",
        shared_url(),
        SCHEMA,
        str(hours),
        queue,
        host,
        *queues,
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(command, env=environment)
    try:
        yield
    finally:
        process.kill()
        process.wait()


class Check:
    """Starts runs and checks what becomes of them, by a clock that is right."""

    def __init__(self, service: Service, database: PostgresDatabase, receiver: Receiver, log: Path) -> None:
        self.service, self.database, self.receiver, self.log = service, database, receiver, log
        self.ledger = service.context.ledger
        self.store = PostgresStore(database)
        self.schedules: dict[str, str] = {}

    async def begin(self, queues: Sequence[str]) -> None:
        now = self.database.clock.now()
        self.store.put(("items",), "lasting", {}, ttl=1800)
        self.store.put(("items",), "passing", {}, ttl=NAP)
        types, settings = ["workflow.completed"], self.service.webhooks
        url = f"http://{self.receiver.host}/"
        await add_webhook(self.ledger, "default", url, types, now=now, settings=settings)
        later = now + timedelta(minutes=30)
        crons = {"missed": "* * * * *", "later": f"{later.minute} {later.hour} * * *"}
        for name, cron in crons.items():
            schedule = NewSchedule(name=name, cron=cron, graph="quick")
            added = await add_schedule(self.ledger, "default", schedule, now - timedelta(minutes=2))
            self.schedules[name] = added.id
        self.runs = {
            (graph, queue): await self.start(graph, queue=queue)
            for queue in queues
            for graph in ("quick", "slow", "naps", "hopes")
        }
        self.overdue = await self.start("waits", timeout=NAP)
        self.patient = await self.start("waits", timeout=1800)
        self.delayed = await self.start("quick", after=later)

    async def start(self, graph: str, **options: Any) -> Run:
        options = {"queue": QUEUES[0], **options}
        request = StartRun(graph=graph, input={"log": str(self.log)}, **options)
        return (await self.service.start("default", request)).run

    async def status(self, run: Run) -> RunStatus:
        return (await self.service.run("default", run.id)).status

    async def runs_of(self, schedule: str) -> Sequence[Run]:
        source = Condition("source", "=", f"schedule:{self.schedules[schedule]}")
        return await aresolve(self.ledger.find(Run, [source]))

    async def missing(self) -> list[object]:
        """Return what has not happened yet, of all that should happen within a minute."""
        runs: Sequence[Run] = await aresolve(self.ledger.find(Run))
        may_go_on = {self.patient.id, self.delayed.id}
        unfinished = [run for run in runs if run.id not in may_go_on and run.status not in ENDED]
        attempts = self.receiver.times
        undelivered = [key for key, times in attempts.items() if len(times) < 2]
        return [
            *unfinished,
            *undelivered,
            *(["the scheduled run"] if not await self.runs_of("missed") else []),
            *(["messages"] if len(attempts) < len(self.runs) else []),
            *({"passing"} & self.stored_items()),
        ]

    def stored_items(self) -> set[str]:
        """Return the keys of all items, including those that have expired and are not removed."""
        return self.database.query(lambda c: {key for (key,) in c.execute("SELECT key FROM items").fetchall()})

    async def check(self, queues: Sequence[str]) -> None:
        for (graph, _), started in self.runs.items():
            run = await self.service.run("default", started.id)
            state = await self.service.state("default", run.id)
            assert (run.status, run.losses) == (RunStatus.COMPLETED, 0)
            if graph in ("naps", "hopes"):
                assert state["ended"] - state["began"] >= NAP - TOLERANCE
            if graph == "hopes":
                assert state["answer"] == "None"
        assert self.log.read_text().splitlines() == ["slow"] * len(queues)
        overdue = await self.service.run("default", self.overdue.id)
        assert overdue.status is RunStatus.FAILED
        assert overdue.error is not None
        assert overdue.error["code"] == "RUN_TIMEOUT"
        assert await self.status(self.patient) is RunStatus.WAITING
        assert await self.status(self.delayed) is RunStatus.PENDING
        assert not await self.runs_of("later")
        attempts = [times for times in self.receiver.times.values() if len(times) > 1]
        assert all(times[1] - times[0] >= PAUSE - TOLERANCE for times in attempts)
        assert self.stored_items() == {"lasting", *queues}
        now = self.database.clock.now()
        runs: Sequence[Run] = await aresolve(self.ledger.find(Run))
        assert all(abs(now - at) < timedelta(minutes=2) for run in runs for at in (run.created_at, run.updated_at))


@pytest.mark.parametrize(
    "hours",
    [
        pytest.param((-1,), id="behind", marks=pytest.mark.full),
        pytest.param((1,), id="ahead", marks=pytest.mark.full),
        pytest.param((-1, 1), id="behind and ahead"),
    ],
)
async def test_workers_with_wrong_clocks_are_neither_early_nor_late(
    hours: tuple[int, ...], receiver: Receiver, tmp_path: Path
) -> None:
    execute(shared_url(), "SET client_min_messages TO warning", f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
    queues = QUEUES[: len(hours)]
    service, database = open_service(shared_url(), SCHEMA, receiver.host)
    with database, ExitStack() as workers:
        for definition in service.context.catalog.to_records(database.clock.now()):
            await aresolve(service.context.ledger.write([Insert(definition)]))
        check = Check(service, database, receiver, tmp_path / "log")
        await check.begin(queues)
        for error, queue in zip(hours, queues, strict=True):
            workers.enter_context(worker(error, queue, receiver.host, queues))
        deadline = time.monotonic() + LONG
        while missing := await check.missing():
            assert time.monotonic() < deadline, missing
            await asyncio.sleep(0.1)
        await check.check(queues)
    execute(shared_url(), f"DROP SCHEMA {SCHEMA} CASCADE")
