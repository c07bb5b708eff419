"""`statewright runs start` and `watch`: start a run, and follow it until it ends or waits for input."""

from __future__ import annotations

import json as json_format
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, NoReturn

import typer

from statewright.api.runs import OnBusy
from statewright.cli.console.failure import CANCELLED, FAILED, UsageError, exit_with
from statewright.cli.console.options import JsonOption
from statewright.cli.console.printing import say, warn
from statewright.cli.console.table import print_state
from statewright.cli.console.values import to_json
from statewright.cli.runs.client_session import RunArgument, UrlOption, open_client
from statewright.cli.runs.text import EXIT_CODES, format_event, format_run_error, format_wait, list_waits, next_commands
from statewright.cli.workflow.inputs import read_input
from statewright.client import Client, Event, Run
from statewright.clock import SystemClock


def start(
    graph: Annotated[str | None, typer.Argument(metavar="GRAPH", help="The name of a served graph.")] = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", "-i", metavar="JSON|@FILE|KEY=VALUE", help="The input of the run.")
    ] = None,
    definition: Annotated[
        str | None,
        typer.Option("--definition", metavar="ID", help="The id of a stored definition to run instead of a graph."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", "-w", help="Wait until the run ends or needs input, and print its output.")
    ] = False,
    idempotency_key: Annotated[
        str | None,
        typer.Option("--idempotency-key", metavar="KEY", help="A key with which at most one run is started."),
    ] = None,
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="ID", help="The thread to run on. Default: a new one.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", metavar="SECONDS", min=0, help="Fail the run if it takes longer than this."),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option("--queue", metavar="NAME", help="The queue of the run. Default: that of its tags or its graph."),
    ] = None,
    priority: Annotated[
        int | None,
        typer.Option(
            "--priority",
            metavar="N",
            min=-1000,
            max=1000,
            help="Runs with the lowest number begin first. Default: 0.",
        ),
    ] = None,
    on_busy: Annotated[
        OnBusy | None,
        typer.Option("--on-busy", help="What to do if another run is using the thread. Default: reject."),
    ] = None,
    after: Annotated[
        datetime | None,
        typer.Option(
            "--after",
            metavar="TIME",
            help="Begin no earlier than this, e.g. 2026-03-01T18:00 in local time, or with a time zone such as +01:00.",
            formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M%z", "%Y-%m-%dT%H:%M:%S%z"],
        ),
    ] = None,
    concurrency_key: Annotated[
        str | None,
        typer.Option(
            "--concurrency-key", metavar="KEY", help="A key whose runs --concurrency-limit limits, e.g. a customer."
        ),
    ] = None,
    concurrency_limit: Annotated[
        int | None,
        typer.Option(
            "--concurrency-limit", metavar="N", min=1, help="Advance at most N runs with the same key at a time."
        ),
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="A tag of the run. Repeatable.")] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option("--metadata", metavar="NAME=VALUE", help="Metadata of the run. Repeatable."),
    ] = None,
    json: JsonOption = False,
    url: UrlOption = None,
) -> None:
    """Start a run and print its id, or its output with --wait."""
    if (graph is None) == (definition is None):
        raise UsageError("Specify either the name of a graph or --definition ID.")
    options: dict[str, Any] = {
        "definition_id": definition,
        "idempotency_key": idempotency_key,
        "thread_id": thread,
        "timeout": timeout,
        "queue": queue,
        "priority": priority,
        "on_busy": on_busy,
        "after": after.astimezone() if after is not None else None,
        "concurrency_key": concurrency_key,
        "concurrency_limit": concurrency_limit,
        "tags": tag or None,
        "metadata": read_metadata(metadata or ()) or None,
    }
    with open_client(url, patient=wait) as client:
        run = client.runs.start(graph, read_input(inputs) if inputs else None, **options)
        if wait:
            exit_with_outcome(client, follow_run(client, run.id, lambda _: None), url, as_json=json)
    say(to_json(run.raw) if json else run.id)
    if idempotency_key is not None and not run.created:  # without a key, the client itself has repeated its request
        warn("No new run was started: this run was started earlier with the same idempotency key.")


def read_metadata(values: Sequence[str]) -> dict[str, str]:
    """Parse the values of `--metadata NAME=VALUE`. Raises UsageError."""
    metadata: dict[str, str] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f"--metadata {text!r} does not have the form NAME=VALUE.")
        metadata[name] = value
    return metadata


def watch(
    run: RunArgument,
    after: Annotated[int, typer.Option("--after", metavar="N", min=0, help="Start after event number N.")] = 0,
    to_the_end: Annotated[
        bool, typer.Option("--to-the-end", help="Follow until the run ends, even while it waits for input.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print each event as a JSON object on one line.")] = False,
    url: UrlOption = None,
) -> None:
    """Follow the events of a run until it ends or waits for input.

    Exit codes: 0 completed, 1 failed, 3 waiting or paused, 130 cancelled.
    """

    def print_event(event: Event) -> None:
        say(json_format.dumps(event.raw, ensure_ascii=False) if json else format_event(event), flush=True)

    with open_client(url, patient=True) as client:
        try:
            record = follow_run(client, run, print_event, after=after, to_the_end=to_the_end)
        except KeyboardInterrupt:
            exit_with(
                f"Stopped watching; the run continues. Resume watching with: statewright runs watch {run}", CANCELLED
            )
        if json:
            raise SystemExit(EXIT_CODES.get(record.status, FAILED))
        exit_with_outcome(client, record, url, as_json=False)


_PICKUP_TIME: Final = 0.1
"""Seconds within which a worker normally picks up a due run."""


def follow_run(
    client: Client, run_id: str, notify: Callable[[Event], None], *, after: int = 0, to_the_end: bool = False
) -> Run:
    """Pass the events of a run to `notify` until the run ends or, unless `to_the_end`, waits for input. Return the run.

    A run that is only waiting for a timer is followed further.
    """
    for event in client.runs.follow(run_id, after=after):
        notify(event)
        may_be_idle = event.event_type == "WORKFLOW_PAUSED" and event.payload.get("reason") != "timer"
        if not to_the_end and may_be_idle and _is_idle(client, run_id, event.seq):
            break
    return client.runs.get(run_id)


def _is_idle(client: Client, run_id: str, last_event: int) -> bool:
    """Return True if the run is waiting or paused, and is not about to continue.

    It is about to continue if it is due, e.g. because an answer has just been sent, or if further events follow the
    event number `last_event`.
    """
    for attempt in range(2):
        if attempt:
            time.sleep(_PICKUP_TIME)
        run = client.runs.get(run_id)
        is_due = run.next_run_at is not None and run.next_run_at <= SystemClock().now()
        if run.status not in ("waiting", "paused") or is_due or client.runs.events(run_id, after=last_event).items:
            return False
    return True


def exit_with_outcome(client: Client, run: Run, url: str | None, *, as_json: bool) -> NoReturn:
    """Print the output or the error of a run, or what it is waiting for, and exit with the code of its status."""
    code = EXIT_CODES.get(run.status, FAILED)
    if as_json:
        say(to_json(run.raw))
        raise SystemExit(code)
    match run.status:
        case "completed":
            print_state(run.output, as_json=False)
        case "failed":
            exit_with(f"Error: {format_run_error(run)}\nRetry it with: statewright runs retry {run.id}", code)
        case "waiting" | "paused":
            _print_waits(client, run, url)
        case _:
            warn(f"The run is {run.status}.")
    raise SystemExit(code)


def _print_waits(client: Client, run: Run, url: str | None) -> None:
    waits = list_waits(client, run) if run.status == "waiting" else []
    lines = [f"Run {run.id} is {run.status}."]
    if run.error is not None:  # paused because its workspace has reached its spending limit
        lines.append(f"  {format_run_error(run)}")
    lines += [f"  {format_wait(wait)}" for wait in waits]
    commands = next_commands(run, waits, url)
    if commands:
        lines += ["Continue with:", *(f"  {command}" for command in commands)]
    warn("\n".join(lines))
