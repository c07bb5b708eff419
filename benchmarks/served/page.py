"""`python -m benchmarks.served.page FILE PORT [RUNS]`: a server with the page, and RUNS runs that have ended."""

import operator
import sys
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypedDict

from benchmarks.served.process import Served, free_port

TASKS, ROUNDS = 1_000, 5
EVENTS = 2 * TASKS * ROUNDS + 2 * ROUNDS + 2
"""The events of a run of `crowded`: two for each task and each round, and those of the run itself."""
_BATCH = 2_000


class Crowd(TypedDict, total=False):
    rounds: int
    seen: Annotated[int, operator.add]


def start(runs: int = 0) -> Served:
    """Start a server on a new file."""
    folder = Path(tempfile.mkdtemp(prefix="statewright-page-"))
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.served.page", str(folder / "runs.db"), str(port), str(runs)]
    return Served(command, port, "/ready", folder, patience=600)  # for the runs to be written


def crowded() -> Any:
    """Return a graph that fans out to many tasks, and does so again."""
    from statewright import START, Send, StateGraph

    def gather(state: Crowd) -> Crowd:
        return {"rounds": state.get("rounds", 0) + 1}

    def spread(state: Crowd) -> Any:
        return [Send("look", number) for number in range(TASKS)] if state["rounds"] <= ROUNDS else []

    def look(number: int) -> Crowd:
        return {"seen": 1}

    graph = StateGraph(Crowd)
    graph.add_node("gather", gather)
    graph.add_node("look", look)
    graph.add_edge(START, "gather")
    graph.add_conditional_edges("gather", spread, ["look"])
    graph.add_edge("look", "gather")
    return graph


def add_runs(ledger: Any, count: int) -> None:
    """Write runs that have ended, a second apart, without anything else of theirs."""
    from statewright.futures import resolve
    from statewright.runs import DEFAULT_WORKSPACE, Insert, Run, RunStatus

    now = _now()
    error = {"message": "GatewayTimeout: no answer within 5 s", "code": "GatewayTimeout", "step": "charge"}
    for first in range(0, count, _BATCH):
        changes: list[Any] = []
        for number in range(first, min(first + _BATCH, count)):
            at = now - timedelta(seconds=count - number)
            failed = number % 17 == 0
            run = Run(
                id=f"run_{number:032x}",
                workspace_id=DEFAULT_WORKSPACE,
                graph=f"graph_{number % 7}",
                definition_id="def_none",
                thread_id=f"thread-{number}",
                status=RunStatus.FAILED if failed else RunStatus.COMPLETED,
                output=None if failed else {"receipt": f"Receipt for order {number}"},
                error=error if failed else None,
                tags=["checkout", "prod"],
                created_at=at,
                updated_at=at,
                started_at=at,
            )
            end = at + timedelta(seconds=number % 60)
            changes.append(Insert(replace(run, failed_at=end) if failed else replace(run, completed_at=end)))
        resolve(ledger.write(changes))


def _now() -> Any:
    from datetime import UTC, datetime

    return datetime.now(UTC)


def main(path: str, port: int, runs: int) -> None:
    from statewright.server import ServerSettings, create_app, serve
    from statewright.service import Catalog, Service
    from statewright.storage.sqlite import SqliteDatabase, SqliteLedger, SqliteSaver

    catalog = Catalog()
    catalog.serve("crowded", crowded())
    database = SqliteDatabase(path)
    ledger = SqliteLedger(database)
    service = Service(catalog, ledger=ledger, saver=SqliteSaver(database))
    add_runs(ledger, runs)
    serve(create_app(service, settings=ServerSettings(port=port, auth="none")))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
