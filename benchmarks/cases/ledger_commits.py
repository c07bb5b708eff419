"""A commit with five changes of the ledger on Postgres, compared with the same rows written without any guard.

The commit saves 2 kB of state and a run that completes a step and begins another one: its record with two events, the
two steps, a model call, and a message for a webhook. Before it writes, it checks the head and the holder of the thread
and the claim of the run, and it locks both. The rivals write rows with the same columns and bytes to the same tables,
in one transaction of plain statements: pipelined by psycopg, and by libpq with prepared statements, which is the least
that a client can do.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.figure import Figure, Rival
from benchmarks.own_postgres import own_database
from benchmarks.requirement import Within
from benchmarks.timing import per_call

COMMITS = 100
_SCHEMAS = (f"commits_{number}" for number in itertools.count(1))
"""A schema for each engine, which may share a server."""
CLAIM = "claim"
_START = datetime(2026, 1, 1, tzinfo=UTC)
_STATE = "x" * 2000
_LOG_BITS = 28
"""The bits of the place of an event that number it within its run."""
Sql = tuple[str, Sequence[Any]]
"""A statement with a placeholder `%s` for each parameter."""


def guarded_commits() -> Callable[[], object]:
    """Return a function that commits supersteps of one run."""
    commit = _committer(next(_SCHEMAS))
    return lambda: [commit() for _ in range(COMMITS)]


def _committer(schema: str) -> Callable[[], None]:
    """Return a function that commits the next superstep of a new run in a new schema."""
    from statewright.checkpoint import LeaseRequest
    from statewright.events import Log
    from statewright.futures import resolve
    from statewright.runs import Insert, Run, RunStatus, StepRun, Webhook
    from statewright.storage.postgres import PostgresLedger, PostgresSaver
    from statewright.testing.conformance.checkpointer.samples import commit_after

    database = own_database().open(schema)
    saver, ledger = PostgresSaver(database), PostgresLedger(database)
    run = Run(
        id="run", workspace_id="default", graph="g", thread_id="thread", status=RunStatus.RUNNING, claim=CLAIM,
        worker_id="worker", begun=True, created_at=_START, updated_at=_START,
    )  # fmt: skip
    webhook = Webhook(id="webhook", workspace_id="default", url="https://example.com", created_at=_START)
    step = StepRun(id="step-0", run_id="run", task_id="task-0", name="step", type="node", started_at=_START)
    resolve(ledger.write([Insert(run), Insert(webhook), Insert(step)]))
    numbers = itertools.count(1)
    head: Any = None

    def commit() -> None:
        nonlocal head
        number, now = next(numbers), datetime.now(UTC)
        hold = LeaseRequest("run", now, now + timedelta(seconds=60), claims=True)
        # With the run and the time of the commit, as those of a run are, a log stands in the row of the checkpoint.
        log = Log("run", now, (("task_finished", number, "step", None, None),))
        deltas = {"text": _STATE}
        superstep = commit_after(head, n=number, deltas=deltas, hold=hold, log=log, run_id="run", created_at=now)
        head = resolve(saver.commit(superstep, also=[ledger.job(_changes(number, now))]))

    return commit


def _changes(number: int, now: datetime) -> list[Any]:
    from statewright.runs import Advance, Announce, Insert, ModelCall, NewEvent, StepRun, StepStatus, Update, where

    ended, begun = f"step-{number - 1}", f"step-{number}"
    output = {"answer": "y" * 100}
    events = [
        NewEvent("step.completed", {"step": "step", "output": output}, ended),
        NewEvent("step.started", {"step": "step"}, begun),
    ]
    call = ModelCall(
        id=f"call-{number}", run_id="run", workspace_id="default", step_id=ended, step_name="step", model="model",
        input_tokens=1000, output_tokens=100, cost=0.01, created_at=now,
    )  # fmt: skip
    return [
        Advance("run", now, {"current_step": begun}, events, where(claim=CLAIM)),
        Update(StepRun, ended, {"status": StepStatus.COMPLETED, "output": output, "completed_at": now}),
        Insert(StepRun(id=begun, run_id="run", task_id=f"task-{number}", name="step", type="node", started_at=now)),
        Insert(call),
        Announce("default", "run.step", {"run": "run", "step": ended}, now, "run"),
    ]


# -- the same rows, unguarded


def _unguarded(connection: Any) -> Iterator[list[Sql]]:
    """Return the statements that write the rows of one commit after another, modelled on those of a real one."""
    schema = next(_SCHEMAS)
    commit = _committer(schema)
    commit()
    commit()
    connection.execute(f"SET search_path TO {schema}")
    record = _newest(connection, "records", "place")
    event = _newest(connection, "run_events", "place")
    step = _newest(connection, "step_runs", "started_at")
    ended = _newest(connection, "step_runs", "completed_at")
    call = _newest(connection, "model_calls", "created_at")
    delivery = _newest(connection, "webhook_deliveries", "created_at")
    line = record["place"] >> _LOG_BITS
    size = len(record["control"]) + len(record["changes"])
    now = step["started_at"]

    def commits() -> Iterator[list[Sql]]:
        for number in itertools.count(1):
            name, key = f"plain-{number}", number.to_bytes(16, "big")
            row_id = record["place"] + number
            yield [
                (
                    "UPDATE lines SET head = %s, head_id = %s, records = records + 1, size = size + %s WHERE id = %s",
                    [row_id & (1 << _LOG_BITS) - 1, key, size, line],
                ),
                ("UPDATE runs SET next = next + 1 WHERE id = %s", [record["run"]]),
                _insert("records", {**record, "place": row_id, "id": key}),
                (
                    "UPDATE workflow_runs SET version = version + 1, current_step = %s, updated_at = %s, "
                    "last_event = last_event + 2 WHERE id = %s",
                    [name, now, "run"],
                ),
                _insert("run_events", {**event, "place": event["place"] + 2 * number}),
                (
                    "UPDATE step_runs SET status = %s, output = %s, completed_at = %s WHERE id = %s",
                    [ended["status"], ended["output"], now, f"plain-{number - 1}" if number > 1 else step["id"]],
                ),
                _insert("step_runs", {**step, "id": name}),
                _insert("model_calls", {**call, "id": name}),
                _insert("webhook_deliveries", {**delivery, "id": name}),
            ]

    return commits()


def _newest(connection: Any, table: str, column: str) -> dict[str, Any]:
    """Return the row of a table with the greatest value in a column."""
    cursor = connection.execute(f"SELECT * FROM {table} WHERE {column} IS NOT NULL ORDER BY {column} DESC LIMIT 1")
    names = [description.name for description in cursor.description]
    return dict(zip(names, cursor.fetchone(), strict=True))


def _insert(table: str, row: dict[str, Any]) -> Sql:
    placeholders = ", ".join(["%s"] * len(row))
    return f"INSERT INTO {table} ({', '.join(row)}) VALUES ({placeholders})", list(row.values())


def pipelined_by_psycopg() -> Callable[[], object]:
    connection = _connect()
    commits = _unguarded(connection)

    def write() -> None:
        for statements in itertools.islice(commits, COMMITS):
            with connection.pipeline():
                connection.execute("BEGIN")
                for sql, parameters in statements:
                    connection.execute(sql, parameters)
                connection.execute("COMMIT")

    return write


def pipelined_by_libpq() -> Callable[[], object]:
    connection = _connect()
    commits = _unguarded(connection)
    pg = connection.pgconn
    names: dict[str, bytes] = {}
    pg.enter_pipeline_mode()

    def write() -> None:
        for statements in itertools.islice(commits, COMMITS):
            _send(pg, names, [("BEGIN", []), *statements, ("COMMIT", [])])

    return write


def _send(pg: Any, names: dict[str, bytes], statements: Sequence[Sql]) -> None:
    """Send statements at once, and wait for their results. `names` are those of the prepared ones."""
    from psycopg.pq import ExecStatus

    replies = 0
    for sql, parameters in statements:
        if sql not in names:
            names[sql] = f"s{len(names)}".encode()
            numbered = (f"${number}" for number in itertools.count(1))
            pg.send_prepare(names[sql], "".join(_fill(sql, numbered)).encode())
            replies += 1
        formats = [int(isinstance(value, bytes)) for value in parameters]
        pg.send_query_prepared(names[sql], [*map(_encode, parameters)], formats)
        replies += 1
    pg.pipeline_sync()
    for _ in range(replies):
        result = pg.get_result()
        if result.status != ExecStatus.COMMAND_OK:
            raise RuntimeError(result.error_message.decode())
        pg.get_result()  # the end of its results
    if pg.get_result().status != ExecStatus.PIPELINE_SYNC:
        raise RuntimeError("The results of a pipeline do not end with it.")


def _fill(sql: str, names: Iterator[str]) -> Iterator[str]:
    """Yield the parts of a statement with other placeholders."""
    first, *others = sql.split("%s")
    yield first
    for other in others:
        yield next(names) + other


def _encode(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return str(value).encode()


def _connect() -> Any:
    import psycopg

    return psycopg.connect(own_database().url, autocommit=True)


FIGURES = (
    Figure(
        name="Postgres, a commit with 5 changes of the ledger",
        unit="us",
        ours=per_call(guarded_commits, COMMITS),
        rivals=tuple(
            Rival(name=f"unguarded, {name}", take=per_call(rows, COMMITS), requirement=Within(1.6))
            for name, rows in (("psycopg", pipelined_by_psycopg), ("libpq", pipelined_by_libpq))
        ),
    ),
)
