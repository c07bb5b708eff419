"""Supersteps, journalled steps and claims on a Postgres server of its own, with its defaults and `fsync` on.

The server is started by the first process that needs it, and ends with the benchmarks. Bare inserts write the bytes of
a superstep, one row and one transaction each: by the calls of libpq, or by `execute` of psycopg.
"""

import atexit
import itertools
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.cases.durable import STEPS, _add, _config, _loop
from benchmarks.engines import langgraph, statewright
from benchmarks.figure import Figure, Rival
from benchmarks.requirement import AtLeast, AtMost, Within
from benchmarks.timing import per_call

ROW_BYTES = 500
"""About what a superstep of the loop stores."""
CLAIMS = 500
BACKLOG = 100_000
NOW = datetime(2026, 1, 1, tzinfo=UTC)
_numbers = itertools.count()


@cache
def _server() -> Any:
    """Start a server for this process; other processes of the benchmarks have their own, one at a time."""
    from tests.postgres_programs import Server

    folder = Path(tempfile.mkdtemp(prefix="statewright-bench-"))
    folder.chmod(0o755)
    server = Server(folder / "postgres", fsync="on", shared_buffers="256MB")
    server.create()
    server.start()
    atexit.register(server.stop)
    return server


def _connect() -> Any:
    import psycopg

    return psycopg.connect(_server().url, autocommit=True)


# -- supersteps


def bare_inserts() -> Callable[[], object]:
    """Insert rows by `execute` of psycopg."""
    connection = _connect()
    connection.execute("CREATE TABLE bare (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body BYTEA)")

    def insert() -> None:
        for _ in range(STEPS):
            connection.execute("INSERT INTO bare (body) VALUES (%s)", (b"x" * ROW_BYTES,))

    return insert


def bare_inserts_by_libpq() -> Callable[[], object]:
    connection = _connect()
    connection.execute("CREATE TABLE bare_libpq (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body BYTEA)")
    pg = connection.pgconn
    pg.prepare(b"insert_row", b"INSERT INTO bare_libpq (body) VALUES ($1)", [17])

    def insert() -> None:
        for _ in range(STEPS):
            pg.exec_prepared(b"insert_row", [b"x" * ROW_BYTES], [1])

    return insert


def run_saved() -> Callable[[], object]:
    from statewright.storage.postgres import PostgresSaver

    app = _loop(statewright, _add, STEPS, PostgresSaver(_server().url))
    return lambda: app.invoke({"n": 0}, _config(), durability="sync")


def run_saved_by_langgraph() -> Callable[[], object]:
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg.rows import dict_row

    connection = _connect()
    connection.row_factory = dict_row
    saver = PostgresSaver(connection)
    saver.setup()
    app = _loop(langgraph, _add, STEPS, saver)
    return lambda: app.invoke({"n": 0}, _config(), durability="sync")


# -- side effects done once


def journalled() -> Callable[[], object]:
    from statewright import START, StateGraph
    from statewright.storage.postgres import PostgresSaver

    def node(state: dict[str, Any], runtime: Any) -> None:
        for number in range(STEPS):
            runtime.step("effect", abs, number)

    graph = StateGraph({"n": int}).add_node("node", node).add_edge(START, "node")
    app = graph.compile(PostgresSaver(_server().url))
    return lambda: app.invoke({"n": 0}, _config(), durability="sync")


def journalled_by_dbos() -> Callable[[], object]:
    from dbos import DBOS

    url = f"postgresql://postgres@/postgres?host={_server().folder}"
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "CRITICAL"})

    @DBOS.step()
    def effect(number: int) -> int:
        return abs(number)

    @DBOS.workflow()
    def flow() -> None:
        for number in range(STEPS):
            effect(number)

    DBOS.launch()
    return flow


# -- claims


def claims(backlog: int) -> Callable[[], object]:
    """Claim due runs in batches of ten, behind a number of others that are due later."""
    from statewright.runs import Insert, Run, RunStatus
    from statewright.storage.postgres import PostgresDatabase, PostgresLedger

    database = PostgresDatabase(_server().url, schema=f"claims_{backlog}", trusts_clocks=True)
    ledger: Any = PostgresLedger(database)

    def due(number: int, at: datetime) -> Run:
        name = f"run_{number:09}"
        return Run(
            id=name, workspace_id="w", graph="g", thread_id=name, status=RunStatus.PENDING, due_at=at, created_at=NOW,
            updated_at=NOW,
        )  # fmt: skip

    def write(count: int, at: datetime) -> None:
        for _ in range(0, count, 1000):
            ledger.write([Insert(due(next(_numbers), at)) for _ in range(min(1000, count))])

    write(backlog, NOW + timedelta(days=1))

    def claim() -> None:
        write(CLAIMS, NOW)
        taken = 0
        while taken < CLAIMS:
            taken += len(ledger.claim("worker", NOW, 10))

    return claim


FIGURES = (
    Figure(
        name="Postgres, a commit each superstep, sync",
        unit="us a step",
        ours=per_call(run_saved, STEPS),
        rivals=(
            Rival(name="a bare insert by libpq", take=per_call(bare_inserts_by_libpq, STEPS), requirement=Within(1.5)),
            Rival(name="a bare insert by psycopg", take=per_call(bare_inserts, STEPS), requirement=Within(1.1)),
            Rival(name="LangGraph", take=per_call(run_saved_by_langgraph, STEPS), requirement=AtLeast(8)),
        ),
    ),
    Figure(
        name="a journalled step on Postgres",
        unit="us",
        ours=per_call(journalled, STEPS),
        rivals=(Rival(name="DBOS", take=per_call(journalled_by_dbos, STEPS), requirement=AtLeast(3)),),
    ),
    *(
        Figure(
            name=f"writing and claiming a run, {backlog} others due later",
            unit="us",
            ours=per_call(lambda backlog=backlog: claims(backlog), CLAIMS),
            limit=AtMost(1_000_000 / 1500),
        )
        for backlog in (0, BACKLOG)
    ),
)
