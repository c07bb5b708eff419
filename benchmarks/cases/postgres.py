"""Supersteps and journalled steps on a Postgres server of its own, with its defaults and `fsync` on.

Bare inserts write the bytes of a superstep, one row and one transaction each: by the calls of libpq, or by `execute` of
psycopg.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from benchmarks.cases.durable import RUNS, STEPS, STEPS_EACH, _add, _config, _loop, run_at_once, time_at_once
from benchmarks.engines import langgraph, statewright
from benchmarks.figure import Figure, Rival, Take
from benchmarks.own_postgres import own_database
from benchmarks.requirement import AtLeast, Within
from benchmarks.timing import per_await, per_call

POOL = 10
ROW_BYTES = 340
"""The bytes that a superstep of the loop writes, without the headers of rows: 205 for its checkpoint with 100 bytes of
state, and some 70 and 65 for the new versions of the rows of its branch and of its log."""


def _connect() -> Any:
    import psycopg

    return psycopg.connect(own_database().url, autocommit=True)


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

    app = _loop(statewright, _add, STEPS, PostgresSaver(own_database().url))
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


# -- many runs at once


def many(durability: str) -> Callable[[], Awaitable[object]]:
    from statewright.storage.postgres import PostgresSaver

    return run_at_once(PostgresSaver(own_database().url), durability)


def many_by_langgraph(durability: str) -> Take:
    """Return a pass with LangGraph's saver on a pool of sessions, as a server has it."""

    async def run_all() -> float:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg.rows import dict_row
        from psycopg_pool import AsyncConnectionPool

        options: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        async with AsyncConnectionPool(own_database().url, kwargs=options, min_size=POOL, max_size=POOL) as pool:
            saver = AsyncPostgresSaver(pool)
            await saver.setup()
            return await time_at_once(saver, durability)

    return lambda: asyncio.run(run_all())


# -- side effects done once


def journalled() -> Callable[[], object]:
    from statewright import START, StateGraph
    from statewright.storage.postgres import PostgresSaver

    def node(state: dict[str, Any], runtime: Any) -> None:
        for number in range(STEPS):
            runtime.step("effect", abs, number)

    graph = StateGraph({"n": int}).add_node("node", node).add_edge(START, "node")
    app = graph.compile(PostgresSaver(own_database().url))
    return lambda: app.invoke({"n": 0}, _config(), durability="sync")


def journalled_by_dbos() -> Callable[[], object]:
    from dbos import DBOS

    url = f"postgresql://postgres@/postgres?host={own_database().folder}"
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
    *(
        Figure(
            name=f"Postgres, {RUNS} runs at once, durability {durability}",
            unit="us a step",
            ours=per_await(partial(many, durability), RUNS * STEPS_EACH),
            rivals=(Rival(name="LangGraph", take=many_by_langgraph(durability), requirement=AtLeast(8)),),
        )
        for durability in ("sync", "async")
    ),
    Figure(
        name="a journalled step on Postgres",
        unit="us",
        ours=per_call(journalled, STEPS),
        rivals=(Rival(name="DBOS", take=per_call(journalled_by_dbos, STEPS), requirement=AtLeast(3)),),
    ),
)
