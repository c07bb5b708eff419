"""Helpers for tests of a service, in memory, on SQLite or on Postgres."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from tests.postgres_server import empty_database, schema_of, shared_url

from statewright.checkpoint import InMemorySaver
from statewright.runs import DEFAULT_WORKSPACE, InMemoryLedger, Run, RunEvent
from statewright.service import Catalog, Service, StartRun
from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver

WS = DEFAULT_WORKSPACE
PATIENCE = 600.0
"""Seconds after which a wait fails."""


class RunStorage:
    """The storage of runs during a test, on which a service may be started repeatedly.

    It is a SQLite file at `path`, or a Postgres schema with a number of its own, or else in memory.
    """

    def __init__(self, path: Path | None = None, *, postgres_schema: int | None = None) -> None:
        self.path = path
        self._schema = postgres_schema
        if postgres_schema is not None:
            empty_database(postgres_schema)
        self._memory = (InMemoryLedger(), InMemorySaver())
        self.databases: list[Any] = []

    @classmethod
    def of(cls, kind: str, path: Path, schema: int = 0) -> Self:
        """Return a storage of a kind: `memory`, `sqlite`, or `postgres`."""
        if kind == "postgres":
            return cls(postgres_schema=schema)
        return cls(path if kind == "sqlite" else None)

    @property
    def kind(self) -> str:
        return "postgres" if self._schema is not None else "memory" if self.path is None else "sqlite"

    def views(self) -> dict[str, Any]:
        """Open the storage, as a new process would, and return the arguments of a service."""
        if self._schema is not None:
            from statewright.storage.postgres import PostgresDatabase, PostgresLedger, PostgresSaver

            schema = schema_of(self._schema)
            self.databases.append(PostgresDatabase(shared_url(), schema=schema, trusts_clocks=True))
            return {"ledger": PostgresLedger(self.databases[-1]), "saver": PostgresSaver(self.databases[-1])}
        if self.path is None:
            return {"ledger": self._memory[0], "saver": self._memory[1]}
        self.databases.append(SqliteDatabase(self.path))
        return {"ledger": SqliteLedger(self.databases[-1]), "saver": SqliteSaver(self.databases[-1])}

    def close(self) -> None:
        for database in self.databases:
            database.close()


@asynccontextmanager
async def serving(run_storage: RunStorage, *graphs: Any, **options: Any) -> AsyncIterator[Service]:
    """Run a service with some graphs, registered by name; dicts are workflows in JSON."""
    catalog = Catalog(**{name: options.pop(name) for name in ("handlers", "models") if name in options})
    for graph in graphs:
        if isinstance(graph, dict):
            catalog.serve_steps(graph)
        else:
            catalog.serve(graph.name or "graph", graph)
    async with Service(catalog, **{**run_storage.views(), **options}) as service:
        yield service


async def run_until_idle(service: Service, graph: str, value: Any = None, **options: Any) -> Run:
    """Start a run, and return it once it is idle."""
    started = await service.start_and_wait(WS, StartRun(graph=graph, input=value, **options), PATIENCE)
    return started.run


async def wait_until_idle(service: Service, run: Run) -> Run:
    """Return the run once it is idle."""
    return await service.wait(WS, run.id, PATIENCE)


async def types_of(service: Service, run: Run) -> list[str]:
    """Return the types of the events of a run. Check that their numbers have no gaps."""
    events = await service.events(WS, run.id, limit=1000)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return [event.type for event in events]


async def events_of(service: Service, run: Run, kind: str) -> list[RunEvent]:
    """Return the events of one type of a run."""
    return [event for event in await service.events(WS, run.id, limit=1000) if event.type == kind]


async def wait_until(condition: Callable[[], Awaitable[Any]]) -> Any:
    """Wait until a coroutine function returns a true value, and return that."""
    for _ in range(int(PATIENCE / 0.005)):
        if value := await condition():
            return value
        await asyncio.sleep(0.005)
    raise AssertionError("The condition is still false.")


class Gates:
    """Counts the calls of some methods of a storage, and runs an action just before one of them."""

    def __init__(self, *methods: str, counts: Callable[[], bool] = lambda: True) -> None:
        self.methods = methods
        self.calls = 0
        self._at = 0
        self._action: Callable[[], object] | None = None
        self._counts = counts
        self._lock = threading.Lock()

    def arm(self, at: int, action: Callable[[], object]) -> None:
        """Restart the count, and run the action just before call number `at`, counted from 1."""
        self.calls, self._at, self._action = 0, at, action

    def count_call(self) -> None:
        if self._action is None or not self._counts():
            return
        with self._lock:
            self.calls += 1
            is_reached = self.calls == self._at
        if is_reached:
            self._action()


class GatedStorage:
    """A saver or a ledger whose calls are counted by gates."""

    def __init__(self, storage: Any, gates: Gates) -> None:
        self._storage, self._gates = storage, gates

    def for_workspace(self, workspace: str) -> GatedStorage:
        return GatedStorage(self._storage.for_workspace(workspace), self._gates)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._storage, name)
        if name not in self._gates.methods:
            return method

        def call(*args: Any, **options: Any) -> Any:
            self._gates.count_call()
            return method(*args, **options)

        return call
