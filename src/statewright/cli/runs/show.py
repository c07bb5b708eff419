"""`statewright runs ls`, `show` and `logs`: inspect runs."""

from __future__ import annotations

import json as json_format
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Annotated, Any

import typer

from statewright.api.resource import MAX_PAGE_SIZE
from statewright.cli.console.options import JsonOption, LimitOption
from statewright.cli.console.printing import say, warn
from statewright.cli.console.table import Column, format_instant, print_fields, print_list, print_records, print_table
from statewright.cli.console.values import to_json
from statewright.cli.runs.client_session import RunArgument, UrlOption, open_client
from statewright.cli.runs.start import read_metadata
from statewright.cli.runs.text import event_cells, format_optional_instant, format_run_error, format_wait, list_waits
from statewright.client import Client, Event, Run, RunWithSteps, Step
from statewright.runs import DEFAULT_QUEUE


def show(
    run: RunArgument,
    limit: Annotated[int, typer.Option("--events", metavar="N", min=0, help="Show the last N events.")] = 30,
    json: JsonOption = False,
    url: UrlOption = None,
) -> None:
    """Show a run: its status, its steps, what it is waiting for, and its last events."""
    with open_client(url) as client:
        record = client.runs.get(run)
        events = _last_events(client, record.id, limit)
        waits = list_waits(client, record) if record.status == "waiting" else []
    if json:
        details = {"waits": [wait.raw for wait in waits], "events": [event.raw for event in events]}
        say(to_json({**record.raw, **details}))
        return
    _print_run(record)
    if record.step_runs:
        say()
        print_records(
            record.step_runs,
            {
                Column("STEP"): lambda step: step.step_name,
                Column("TYPE", keep_words=True): lambda step: step.step_type,
                Column("STATUS", keep_words=True): lambda step: step.status,
                Column("ATTEMPT", keep_words=True, right=True): lambda step: step.attempt,
                Column("SECONDS", keep_words=True, right=True): _format_seconds,
            },
        )
    if waits:
        say()
        print_table([Column("WAITING FOR")], [(format_wait(wait),) for wait in waits])
    if events:
        say()
        columns = (Column("AT", keep_words=True), Column("EVENT", keep_words=True), Column("STEP"), Column("DETAILS"))
        print_table(columns, [event_cells(event) for event in events])


def _last_events(client: Client, run_id: str, limit: int) -> Sequence[Event]:
    events = deque[Event](maxlen=limit)
    after = 0
    while page := client.runs.events(run_id, after=after, page_size=MAX_PAGE_SIZE).items:
        events.extend(page)
        after = page[-1].seq
    return events


def _print_run(run: RunWithSteps) -> None:
    ended_at = run.completed_at or run.failed_at or run.cancelled_at
    fields = {
        "run": run.id,
        "graph": f"{run.graph}  {run.definition_id or ''}",
        "status": run.status,
        "step": run.current_step_name,
        "thread": run.thread_id if run.thread_id != run.id else None,
        "source": run.source,
        "tags": ", ".join(run.tags),
        "queue": run.queue,
        "priority": run.priority,
        "worker": _format_worker(run),
        "losses": f"{run.losses} workers were lost with it" if run.losses else None,
        "created": format_optional_instant(run.created_at),
        "started": format_optional_instant(run.started_at),
        "ended": format_optional_instant(ended_at),
        "due": format_optional_instant(run.next_run_at),
        "cost": f"{run.total_cost_usd:.4f} USD" if run.total_cost_usd else None,
        "input": _json(run.input),
        "output": _json(run.output) if run.output is not None else None,
        "error": format_run_error(run) if run.error else None,
    }
    print_fields((name, value) for name, value in fields.items() if value)


def _format_worker(run: RunWithSteps) -> str | None:
    """Return the worker that is advancing a run, with its machine as far as it is known; None if there is none."""
    return f"{run.worker_id} on {run.worker_host}" if run.worker_host is not None else run.worker_id


def _json(value: Any) -> str:
    return json_format.dumps(value, ensure_ascii=False)


def _format_seconds(step: Step) -> str:
    if step.started_at is None or step.completed_at is None:
        return ""
    return f"{(step.completed_at - step.started_at).total_seconds():.3f}"


def logs(
    run: RunArgument,
    step: Annotated[str | None, typer.Option("--step", metavar="NAME", help="Only the logs of this step.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print each line as a JSON object.")] = False,
    url: UrlOption = None,
) -> None:
    """Print the logs and output of the steps of a run, by step and attempt."""
    with open_client(url) as client:
        step_logs = client.runs.logs(run, step=step)
    lines = [{"step": log.step_name, "attempt": log.attempt, **line} for log in step_logs for line in log.lines]
    if not lines:
        warn(f"Step {step!r} has no logs." if step is not None else "The run has no logs.")
    for line in lines:
        say(json_format.dumps(line, ensure_ascii=False) if json else _format_log_line(line))


def _format_log_line(line: dict[str, Any]) -> str:
    step = f"{line['step']}#{line['attempt']}"
    kind = line.get("level") or line.get("stream") or ""
    return f"{line.get('at', '')}  {step:<20}  {kind:<8}  {line.get('message', '').rstrip()}"


# -- ls


def ls(
    status: Annotated[
        list[str] | None,
        typer.Option(
            "--status", "-s", metavar="STATUS", help="Only runs with this status, e.g. running or failed. Repeatable."
        ),
    ] = None,
    graph: Annotated[str | None, typer.Option("--graph", "-g", metavar="NAME", help="Only runs of this graph.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="Only runs with this tag. Repeatable.")
    ] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option("--metadata", metavar="NAME=VALUE", help="Only runs with this metadata. Repeatable."),
    ] = None,
    queue: Annotated[str | None, typer.Option("--queue", metavar="NAME", help="Only runs of this queue.")] = None,
    dead: Annotated[
        bool, typer.Option("--dead", help="Only runs that were set aside, because they lost worker after worker.")
    ] = False,
    limit: LimitOption = 20,
    json: JsonOption = False,
    url: UrlOption = None,
) -> None:
    """List runs, newest first."""
    filters: dict[str, Any] = {
        "status": [name for names in status or () for name in names.split(",")],
        "graph": graph,
        "tags": tag or [],
        "metadata": read_metadata(metadata or ()),
        "queue": queue,
        "dead": dead or None,
    }
    with open_client(url) as client:
        if limit <= MAX_PAGE_SIZE:  # a single page, no larger than needed
            runs = client.runs.list(page_size=limit, **filters).items
        else:
            runs = list(islice(client.runs.iterate(**filters), limit))
    columns: dict[Column, Callable[[Run], object]] = {
        Column("RUN", keep_words=True): lambda run: run.id,
        Column("GRAPH"): lambda run: run.graph,
        Column("STATUS", keep_words=True): lambda run: run.status,
        Column("STEP"): lambda run: run.current_step_name or "",
        Column("CREATED", keep_words=True): lambda run: format_instant(run.created_at),
    }
    if any(run.queue != DEFAULT_QUEUE for run in runs):
        columns[Column("QUEUE")] = lambda run: run.queue
    columns[Column("TAGS")] = lambda run: ", ".join(run.tags)
    print_list(
        runs,
        columns,
        as_json=json,
        to_data=lambda run: run.raw,
        if_empty="No runs match the filters." if any(filters.values()) else "There are no runs.",
    )
