"""Supersteps saved to SQLite, one commit each: time compared with a raw commit, bytes compared with the content.

A loop of one node that counts and adds to a list. Every engine commits each superstep with `synchronous=FULL` before
the next one starts; the raw commit is one small row in one transaction of the same kind of file.
"""

import asyncio
import itertools
import operator
import os
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

from benchmarks.engines import EngineLoader, langgraph, statewright
from benchmarks.figure import Figure, Rival, Take
from benchmarks.requirement import AtLeast, AtMost, NoMoreThan, Shown, Within
from benchmarks.timing import MICROSECONDS, per_await, per_call

STEPS = 200
RUNS = 50
STEPS_EACH = 20
MESSAGE = "w" * 216
"""The content of a message of the conversation that grows."""
LONG = 10_000
_folder = Path(tempfile.mkdtemp(prefix="statewright-bench-"))
_numbers = itertools.count()


class Count(TypedDict, total=False):
    n: int
    log: Annotated[list[str], operator.add]


def _file() -> str:
    return str(_folder / f"{os.getpid()}-{next(_numbers)}.db")


def _add(state: Count) -> dict[str, Any]:
    return {"n": state["n"] + 1, "log": ["x" * 100]}


async def _add_async(state: Count) -> dict[str, Any]:
    return _add(state)


def _loop(load: EngineLoader, node: Any, steps: int, saver: Any) -> Any:
    engine = load()
    graph = engine.StateGraph(Count)
    graph.add_node("add", node)
    graph.add_edge(engine.START, "add")
    graph.add_conditional_edges("add", lambda state: "add" if state["n"] < steps else engine.END, ["add", engine.END])
    return graph.compile(checkpointer=saver)


def _config(steps: int = STEPS) -> dict[str, Any]:
    """Return the config of a new thread."""
    return {"configurable": {"thread_id": str(next(_numbers))}, "recursion_limit": steps + 10}


# -- one run


def raw_commits() -> Callable[[], object]:
    connection = sqlite3.connect(_file(), isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, body BLOB)")

    def commit() -> None:
        for _ in range(STEPS):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO rows (body) VALUES (?)", (b"x" * 200,))
            connection.execute("COMMIT")

    return commit


def run_saved() -> Callable[[], object]:
    from statewright.storage.sqlite import SqliteSaver

    app = _loop(statewright, _add, STEPS, SqliteSaver(_file()))
    return lambda: app.invoke({"n": 0}, _config(), durability="sync")


def run_saved_async() -> Callable[[], Awaitable[object]]:
    from statewright.storage.sqlite import SqliteSaver

    app = _loop(statewright, _add_async, STEPS, SqliteSaver(_file()))
    return lambda: app.ainvoke({"n": 0}, _config(), durability="sync")


def run_saved_by_langgraph() -> Callable[[], object]:
    from langgraph.checkpoint.sqlite import SqliteSaver

    saver = SqliteSaver(sqlite3.connect(_file(), check_same_thread=False))
    app = _loop(langgraph, _add, STEPS, saver)
    return lambda: app.invoke({"n": 0}, _config(), durability="sync")


# -- many runs at once


def run_at_once(saver: Any, durability: str, load: EngineLoader = statewright) -> Callable[[], Awaitable[object]]:
    """Return all runs of the loop of an engine, in one event loop."""
    app = _loop(load, _add_async, STEPS_EACH, saver)

    async def run_all() -> None:
        await asyncio.gather(*(app.ainvoke({"n": 0}, _config(), durability=durability) for _ in range(RUNS)))

    return run_all


async def time_at_once(saver: Any, durability: str) -> float:
    """Return the microseconds of a step in LangGraph, whose savers belong to the running event loop."""
    run_all = run_at_once(saver, durability, langgraph)
    started_at = time.perf_counter()
    await run_all()
    return (time.perf_counter() - started_at) * MICROSECONDS / (RUNS * STEPS_EACH)


def many(durability: str) -> Callable[[], Awaitable[object]]:
    from statewright.storage.sqlite import SqliteSaver

    return run_at_once(SqliteSaver(_file()), durability)


def many_by_langgraph(durability: str) -> Take:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    async def run_all() -> float:
        async with AsyncSqliteSaver.from_conn_string(_file()) as saver:
            await saver.setup()
            return await time_at_once(saver, durability)

    return lambda: asyncio.run(run_all())


def _many_by_langgraph(durability: str) -> Take:
    return lambda: many_by_langgraph(durability)()


# -- in memory


def run_in_memory() -> Callable[[], object]:
    from statewright import InMemorySaver

    app = _loop(statewright, _add, STEPS, InMemorySaver())
    return lambda: app.invoke({"n": 0}, _config())


def run_without_saver() -> Callable[[], object]:
    app = _loop(statewright, _add, STEPS, None)
    return lambda: app.invoke({"n": 0}, {"recursion_limit": STEPS + 10})


# -- growing conversations


def _conversation(count: int) -> tuple[Any, Any, str]:
    """Return the saver of a thread with one message per superstep, its app, and the path of its file."""
    from statewright import END, START, MessagesState, StateGraph
    from statewright.storage.sqlite import SqliteSaver

    path = _file()
    saver = SqliteSaver(path)
    graph = StateGraph(MessagesState)
    graph.add_node("say", lambda state: {"messages": [("assistant", MESSAGE)]})
    graph.add_edge(START, "say")
    graph.add_conditional_edges("say", lambda state: "say" if len(state["messages"]) < count else END, ["say", END])
    app = graph.compile(saver)
    app.invoke({"messages": []}, thread_id="t", recursion_limit=count + 10)
    return saver, app, path


def bytes_a_payload(count: int) -> Take:
    """Return the bytes of the file per byte of content."""

    def take() -> float:
        saver, _, path = _conversation(count)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = os.path.getsize(path)
        saver.close()
        return size / (count * len(MESSAGE))

    return take


def langgraph_bytes(count: int) -> Take:
    def take() -> float:
        from langgraph.checkpoint.sqlite import SqliteSaver
        from langgraph.graph import END, START, MessagesState, StateGraph

        path = _file()
        graph = StateGraph(MessagesState)
        graph.add_node("say", lambda state: {"messages": [("assistant", MESSAGE)]})
        graph.add_edge(START, "say")
        graph.add_conditional_edges("say", lambda state: "say" if len(state["messages"]) < count else END, ["say", END])
        with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
            app = graph.compile(checkpointer=SqliteSaver(connection))
            app.invoke({"messages": []}, _config(count))
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return os.path.getsize(path) / (count * len(MESSAGE))

    return take


def load_items(count: int) -> Callable[[], object]:
    saver, _, _ = _conversation(count)
    return lambda: saver.load("t")


# -- long threads of a bounded state


class Bounded(TypedDict):
    n: int
    word: str
    table: dict[str, int]


def _long_thread() -> tuple[Any, Any]:
    from statewright import END, START, StateGraph
    from statewright.storage.sqlite import SqliteSaver

    saver = SqliteSaver(_file())
    graph = StateGraph(Bounded)
    graph.add_node("step", lambda state: {"n": state["n"] + 1, "word": "y" * 50})
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: "step" if state["n"] < LONG else END, ["step", END])
    app = graph.compile(saver)
    state = {"n": 0, "word": "", "table": {str(number): number for number in range(100)}}
    app.invoke(state, thread_id="t", recursion_limit=LONG + 10)
    return saver, app


def load_head() -> Callable[[], object]:
    saver, _ = _long_thread()
    return lambda: saver.load("t")


def read_history() -> Callable[[], object]:
    _, app = _long_thread()
    return lambda: list(app.get_state_history(thread_id="t", limit=100))


def fork_anywhere() -> Callable[[], object]:
    saver, app = _long_thread()
    checkpoint_ids = [checkpoint.id for checkpoint in saver.history("t", branch="main")][:: LONG // 50]
    next_ids = itertools.cycle(checkpoint_ids)

    def fork() -> None:
        config = {"configurable": {"thread_id": "t", "checkpoint_id": next(next_ids)}}
        app.fork(config, branch=f"fork-{next(_numbers)}")

    return fork


# -- side effects done once


def journalled() -> Callable[[], object]:
    from statewright import START, StateGraph
    from statewright.storage.sqlite import SqliteSaver

    def node(state: Count, runtime: Any) -> None:
        for number in range(STEPS):
            runtime.step("effect", abs, number)

    graph = StateGraph(Count).add_node("node", node).add_edge(START, "node")
    app = graph.compile(SqliteSaver(_file()))
    return lambda: app.invoke({"n": 0}, _config(), durability="sync")


def journalled_by_dbos() -> Callable[[], object]:
    from dbos import DBOS

    DBOS(config={"name": "bench", "system_database_url": f"sqlite:///{_file()}", "log_level": "CRITICAL"})

    @DBOS.step()
    def effect(number: int) -> int:
        return abs(number)

    @DBOS.workflow()
    def flow() -> None:
        for number in range(STEPS):
            effect(number)

    DBOS.launch()
    return flow


RAW = Rival(name="a raw commit", take=per_call(raw_commits, STEPS), requirement=Within(1.4))
RAW_ASYNC = Rival(name="a raw commit", take=per_call(raw_commits, STEPS), requirement=Within(1.75))
FIGURES = (
    Figure(
        name="SQLite, a commit each superstep, sync",
        unit="us a step",
        ours=per_call(run_saved, STEPS),
        rivals=(RAW, Rival(name="LangGraph", take=per_call(run_saved_by_langgraph, STEPS))),
    ),
    Figure(
        name="SQLite, a commit each superstep, async",
        unit="us a step",
        ours=per_await(run_saved_async, STEPS),
        rivals=(RAW_ASYNC,),
    ),
    *(
        Figure(
            name=f"SQLite, {RUNS} runs at once, durability {durability}",
            unit="us a step",
            ours=per_await(lambda durability=durability: many(durability), RUNS * STEPS_EACH),
            rivals=(Rival(name="LangGraph", take=_many_by_langgraph(durability), requirement=AtLeast(35)),),
        )
        for durability in ("sync", "async")
    ),
    Figure(
        name="the in-memory saver",
        unit="us a step",
        ours=per_call(run_in_memory, STEPS),
        rivals=(Rival(name="no saver", take=per_call(run_without_saver, STEPS), requirement=NoMoreThan(2)),),
    ),
    Figure(
        name="500 messages of 216 bytes in SQLite",
        unit="bytes a byte",
        ours=bytes_a_payload(500),
        rivals=(Rival(name="LangGraph", take=langgraph_bytes(500), requirement=Shown()),),
        limit=AtMost(2),
        is_repeated=False,
    ),
    Figure(
        name="20 000 messages of 216 bytes in SQLite",
        unit="bytes a byte",
        ours=bytes_a_payload(20_000),
        limit=AtMost(1.7),
        is_repeated=False,
        is_long=True,
    ),
    Figure(
        name="loading a conversation of 5000 messages",
        unit="us a message",
        ours=per_call(lambda: load_items(5000), 5000),
        limit=AtMost(2),
    ),
    Figure(
        name=f"loading the head after {LONG} supersteps",
        unit="us",
        ours=per_call(load_head, 1),
        limit=AtMost(2000),
    ),
    Figure(name="100 entries of its history", unit="us", ours=per_call(read_history, 1), limit=AtMost(10_000)),
    Figure(name="a fork anywhere in it", unit="us", ours=per_call(fork_anywhere, 1), limit=AtMost(10_000)),
    Figure(
        name="a journalled step in SQLite",
        unit="us",
        ours=per_call(journalled, STEPS),
        rivals=(Rival(name="DBOS", take=per_call(journalled_by_dbos, STEPS), requirement=AtLeast(6)),),
    ),
)
