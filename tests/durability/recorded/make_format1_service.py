"""Makes `format1_service.db.gz`: a file of format 1 in which a service has worked for two workspaces.

The file was made with the code of commit a41890f, the last to write format 1, and stays as it was made. To make it
again, check that commit out and run

    python tests/durability/recorded/make_format1_service.py

The ids of runs are drawn, so a file made again holds others. The graphs here are those with which
`tests/durability/test_recorded_workspaces.py` goes on.
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
"""Seconds after which a run that does not come to rest is given up."""


class Chat(TypedDict, total=False):
    log: Annotated[list[str], append]
    count: Annotated[int, operator.add]
    goal: int


def talking() -> Any:
    """A loop that ends at a goal."""
    graph = StateGraph(Chat, name="talks").add_node(
        "talk", lambda s: {"count": 1, "log": [f"turn {s.get('count', 0)}"]}
    )
    graph.add_edge(START, "talk")
    return graph.add_conditional_edges("talk", lambda s: "talk" if s["count"] < s["goal"] else END, ["talk", END])


def asking() -> Any:
    """A node that asks, with one before and one after it."""
    graph = StateGraph(Chat, name="asks").add_node("plan", lambda s: {"log": ["plan"], "count": 1})
    graph.add_node("ask", lambda s: {"log": [str(interrupt("Send it?"))]})
    graph.add_node("send", lambda s: {"log": ["sent"], "count": 1})
    return graph.add_edge(START, "plan").add_edge("plan", "ask").add_edge("ask", "send")


def catalog() -> Catalog:
    found = Catalog()
    found.serve("talks", talking())
    found.serve("asks", asking())
    return found


def keep_library_threads(saver: Any) -> None:
    """Threads of no run: one with a branch, and one that waits."""
    talk, ask = talking().compile(saver), asking().compile(saver)
    talk.invoke({"goal": 4, "log": ["library"]}, thread_id="library")
    early = next(one for one in talk.get_state_history(thread_id="library") if one.metadata["step"] == 2)
    talk.fork(early.config, branch="other")
    talk.invoke(None, thread_id="library", branch="other")
    ask.invoke({"log": ["library"]}, thread_id="library-asks")


async def keep_runs(database: SqliteDatabase) -> None:
    """Runs of two workspaces: some have ended, one waits on a thread that a run before it has used, one is due."""
    ledger, saver = SqliteLedger(database), SqliteSaver(database)
    await ensure_default_workspace(ledger, BEGIN)
    acme = (await create_workspace(ledger, NewWorkspace(slug="acme"), BEGIN)).id
    async with Service(catalog(), ledger=ledger, saver=saver) as service:

        async def rest(workspace: str, graph: str, **given: Any) -> Run:
            wanted = StartRun(graph=graph, **given)
            return (await service.start_and_wait(workspace, wanted, PATIENCE)).run

        await rest("default", "talks", input={"goal": 2, "log": ["default"]})
        await rest("default", "asks", input={"log": ["default"]}, thread_id="default-asks")
        await rest(acme, "talks", input={"goal": 3, "log": ["acme"]}, thread_id="order-7")
        await rest(acme, "asks", input={"log": ["again"]}, thread_id="order-7")
        await rest(acme, "talks", input={"goal": 2, "log": ["acme"]})
        await rest(acme, "talks", input={"goal": 2, "log": ["acme"]}, thread_id="shared")
        early = (await service.threads.history(acme, "shared"))[1]
        await service.threads.fork(acme, "shared", early["checkpointId"], branch="other")
        await service.start(
            acme, StartRun(graph="talks", thread_id="later", input={"goal": 1}, after=datetime.max.replace(tzinfo=UTC))
        )


def late_run_of_another() -> Run:
    """A run of the default workspace on the thread of another one.

    Format 1 refused it where it looked first; two runs that began in one instant could come past that.
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
        place = Path(folder) / "runs.db"
        with SqliteDatabase(place) as database:
            keep_library_threads(SqliteSaver(database))
            asyncio.run(keep_runs(database))
            SqliteLedger(database).write([Insert(late_run_of_another())])
        path.write_bytes(gzip.compress(place.read_bytes(), mtime=0))


if __name__ == "__main__":
    main()
