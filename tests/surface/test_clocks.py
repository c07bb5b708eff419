"""Times that are stored, or compared with stored times, are read from the clock of the database."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import statewright

SOURCE = Path(statewright.__file__).parent
MAY_READ_THE_SYSTEM_CLOCK = {
    "agents/loop/graph.py": "the time of a result, which is not compared",
    "agents/state/state.py": "the time of a result, which is not compared",
    "cache.py": "in memory",
    "checkpoint/memory_thread.py": "in memory",
    "cli/runs/start.py": "a client of a server",
    "cli/serve/serve.py": "when files were loaded, which is only shown",
    "client/clients.py": "timers",
    "clock.py": "the clocks themselves",
    "ids.py": "ids sort by time only within a process",
    "models/adapters/langchain/errors.py": "Retry-After of other servers",
    "models/wrappers.py": "timers",
    "observe/capture.py": "the default, which servers replace",
    "observe/metrics.py": "timers",
    "observe/tracing.py": "spans, which are compared with those of other programs of the machine",
    "runtime/tasks/worker_host.py": "nodes in other processes",
    "service/webhooks/http_post.py": "Retry-After of other servers",
    "service/webhooks/signature.py": "the default of receivers, which have no database",
    "storage/database.py": "databases without a server",
    "storage/postgres/database.py": "the clock that is corrected",
    "store/port.py": "the default, which databases replace",
    "testing": "tests",
    "workflow/states/tools/http_request.py": "Retry-After of other servers",
}
READERS = {
    *("SystemClock()", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"),
    *("time.time", "time.time_ns"),
}


def _readings(path: Path) -> Iterator[int]:
    """Yield the numbers of the lines that read the system clock."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and {ast.unparse(node), ast.unparse(node.func)} & READERS:
            yield node.lineno


def _exception_of(name: str) -> str | None:
    return next((key for key in MAY_READ_THE_SYSTEM_CLOCK if name == key or name.startswith(f"{key}/")), None)


def test_the_system_clock_is_read_only_where_no_stored_time_is_concerned() -> None:
    readings = {
        path.relative_to(SOURCE).as_posix(): lines for path in SOURCE.rglob("*.py") if (lines := list(_readings(path)))
    }
    assert {name: lines for name, lines in readings.items() if _exception_of(name) is None} == {}
    assert {_exception_of(name) for name in readings} == MAY_READ_THE_SYSTEM_CLOCK.keys()
