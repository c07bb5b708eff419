"""Creates `ledger_format4.db.gz`: a ledger of format 4, with runs of what was called a queue then.

The file was created with the code of commit e5e9131f, the last one that writes format 4, and is never changed. To
create it again, check out that commit, copy this file there, run it with a path, and compress that file.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

from statewright.runs import Insert, Run, RunStatus, Worker, Workspace
from statewright.storage.sqlite import SqliteLedger

NOW = datetime(2025, 12, 30, tzinfo=UTC)


def new_run(run_id: str, **values: Any) -> Run:
    defaults = {"workspace_id": "ws_default", "graph": "report", "thread_id": run_id, "due_at": NOW}
    return Run(**{"id": run_id, **defaults, "created_at": NOW, "updated_at": NOW, **values})


if __name__ == "__main__":
    with SqliteLedger(sys.argv[1]) as ledger:
        records = [
            new_run("old", queue="nightly", status=RunStatus.COMPLETED, due_at=None),
            new_run("q1", queue="nightly"),
            new_run("q2", queue="nightly"),
            new_run("t1", thread_id="t", definition_id="def_1", tags=["a"], input={"x": 1}),
            new_run("t2", thread_id="t"),
            Worker(id="wrk_1", place="host", pid=1, process_started="1", capacity=5, until=NOW, started_at=NOW),
            Workspace(id="ws_default", slug="default", max_running=9, created_at=NOW),
        ]
        ledger.write([Insert(record) for record in records])
