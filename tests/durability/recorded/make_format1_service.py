"""Creates `format1_service.db.gz`: a file of format 1 in which a service has worked for two workspaces.

The file was created with the code of commit a41890f, the last one that writes format 1, and is never changed. To
create it again, check out that commit and run

    python tests/durability/recorded/make_format1_service.py

The ids of runs are random, so a new file has other ids. The graphs here are those with which
`tests/durability/test_recorded_workspaces.py` resumes.
"""

import asyncio
import gzip
import operator
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict

from statewright import END, START, StateGraph, append, interrupt
from statewright.runs import Insert, Run, RunStatus
from statewright.service import Catalog, Service, StartRun
from statewright.service.access.workspaces import NewWorkspace, create_workspace, ensure_default_workspace
from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver

FILE = Path(__file__).with_name("format1_service.db.gz")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
PATIENCE = 600.0
"""Seconds to wait until a run is idle."""


class Chat(TypedDict, total=False):
    log: Annotated[list[str], append]
    count: Annotated[int, operator.add]
    goal: int


def talking() -> Any:
    """Return a loop that ends at a goal."""
    graph = StateGraph(Chat, name="talks").add_node(
        "talk", lambda s: {"count": 1, "log": [f"turn {s.get('count', 0)}"]}
    )
    graph.add_edge(START, "talk")
    return graph.add_conditional_edges("talk", lambda s: "talk" if s["count"] < s["goal"] else END, ["talk", END])


def asking() -> Any:
    """Return a graph of a node that asks, with a node before and a node after it."""
    graph = StateGraph(Chat, name="asks").add_node("plan", lambda s: {"log": ["plan"], "count": 1})
    graph.add_node("ask", lambda s: {"log": [str(interrupt("Send it?"))]})
    graph.add_node("send", lambda s: {"log": ["sent"], "count": 1})
    return graph.add_edge(START, "plan").add_edge("plan", "ask").add_edge("ask", "send")


def catalog() -> Catalog:
    result = Catalog()
    result.serve("talks", talking())
    result.serve("asks", asking())
    return result


def create_library_threads(saver: Any) -> None:
    """Create threads without durable runs: one with a branch, and one that waits."""
    talk, ask = talking().compile(saver), asking().compile(saver)
    talk.invoke({"goal": 4, "log": ["library"]}, thread_id="library")
    early = next(state for state in talk.get_state_history(thread_id="library") if state.metadata["step"] == 2)
    talk.fork(early.config, branch="other")
    talk.invoke(None, thread_id="library", branch="other")
    ask.invoke({"log": ["library"]}, thread_id="library-asks")


async def create_runs(database: SqliteDatabase) -> None:
    """Create runs of two workspaces: some have ended, one waits on a thread of an earlier run, one is due."""
    ledger, saver = SqliteLedger(database), SqliteSaver(database)
    await ensure_default_workspace(ledger, BEGIN)
    acme = (await create_workspace(ledger, NewWorkspace(slug="acme"), BEGIN)).id
    async with Service(catalog(), ledger=ledger, saver=saver) as service:

        async def run(workspace: str, graph: str, **options: Any) -> Run:
            request = StartRun(graph=graph, **options)
            return (await service.start_and_wait(workspace, request, PATIENCE)).run

        await run("default", "talks", input={"goal": 2, "log": ["default"]})
        await run("default", "asks", input={"log": ["default"]}, thread_id="default-asks")
        await run(acme, "talks", input={"goal": 3, "log": ["acme"]}, thread_id="order-7")
        await run(acme, "asks", input={"log": ["again"]}, thread_id="order-7")
        await run(acme, "talks", input={"goal": 2, "log": ["acme"]})
        await run(acme, "talks", input={"goal": 2, "log": ["acme"]}, thread_id="shared")
        early = (await service.threads.history(acme, "shared"))[1]
        await service.threads.fork(acme, "shared", early["checkpointId"], branch="other")
        await service.start(
            acme, StartRun(graph="talks", thread_id="later", input={"goal": 1}, after=datetime.max.replace(tzinfo=UTC))
        )


def late_run_of_another() -> Run:
    """Return a run of the default workspace on the thread of another workspace.

    Format 1 refused such a run by a check before the write, which two runs could pass that were started at once.
    """
    late = datetime.now(UTC)
    return Run(
        id="run_late",
        workspace_id="default",
        graph="talks",
        thread_id="shared",
        status=RunStatus.COMPLETED,
        begun=True,
        created_at=late,
        updated_at=late,
        completed_at=late,
    )


def main(path: Path = FILE) -> None:
    with tempfile.TemporaryDirectory() as folder:
        database_path = Path(folder) / "runs.db"
        with SqliteDatabase(database_path) as database:
            create_library_threads(SqliteSaver(database))
            asyncio.run(create_runs(database))
            SqliteLedger(database).write([Insert(late_run_of_another())])
        path.write_bytes(gzip.compress(database_path.read_bytes(), mtime=0))


if __name__ == "__main__":
    main()
