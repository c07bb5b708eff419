"""`statewright runs start` and `watch`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statewright.cli.console.options import JsonOption
from statewright.cli.console.printing import say, warn
from statewright.cli.runs.client_session import RunArgument, UrlOption

if TYPE_CHECKING:
    from statewright.client import Event

TagOption = Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="A tag. Repeatable.")]
MetadataOption = Annotated[
    list[str] | None, typer.Option("--metadata", metavar="NAME=VALUE", help="Metadata. Repeatable.")
]


def start(
    graph: Annotated[str | None, typer.Argument(metavar="GRAPH", help="The name of a served graph.")] = None,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", "-i", metavar="JSON|@FILE|KEY=VALUE", help="The input of the run.")
    ] = None,
    definition: Annotated[
        str | None,
        typer.Option("--definition", metavar="ID", help="The id of a stored definition, in place of a graph."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", "-w", help="Wait until it ends or needs somebody, and print its output.")
    ] = False,
    idempotency_key: Annotated[
        str | None,
        typer.Option("--idempotency-key", metavar="KEY", help="Starting with the same key again starts nothing new."),
    ] = None,
    thread: Annotated[str | None, typer.Option("--thread", metavar="ID", help="The thread to continue.")] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Fail the run if it takes longer.")
    ] = None,
    tag: TagOption = None,
    metadata: MetadataOption = None,
    json: JsonOption = False,
    url: UrlOption = None,
) -> None:
    """Start a run and print its id; with --wait, wait for it and print its output."""
    from statewright.cli.console.failure import UsageError
    from statewright.cli.console.values import to_json
    from statewright.cli.runs.client_session import open_client
    from statewright.cli.runs.watch import exit_with_outcome, follow_run
    from statewright.cli.workflow.inputs import read_input

    if (graph is None) == (definition is None):
        raise UsageError("Say what to run: the name of a graph, or --definition ID.")
    options: dict[str, Any] = {
        "definition_id": definition,
        "idempotency_key": idempotency_key,
        "thread_id": thread,
        "timeout": timeout,
        "tags": tag or None,
        "metadata": read_metadata(metadata or ()) or None,
    }
    with open_client(url, patient=wait) as client:
        run = client.runs.start(graph, read_input(inputs) if inputs else None, **options)
        if wait:
            exit_with_outcome(client, follow_run(client, run.id, lambda _: None), url, json_wanted=json)
    say(to_json(run.raw) if json else run.id)
    if not run.created:
        warn("This key has started this run before; nothing new was started.")


def read_metadata(values: Sequence[str]) -> dict[str, str]:
    """Parse the values of `--metadata NAME=VALUE`. Raises UsageError."""
    from statewright.cli.console.failure import UsageError

    metadata: dict[str, str] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f"--metadata {text!r} is not NAME=VALUE.")
        metadata[name] = value
    return metadata


def watch(
    run: RunArgument,
    after: Annotated[int, typer.Option("--after", metavar="N", min=0, help="Begin after event number N.")] = 0,
    to_the_end: Annotated[
        bool, typer.Option("--to-the-end", help="Keep following while it waits for somebody.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document per line.")] = False,
    url: UrlOption = None,
) -> None:
    """Follow the events of a run until it ends or waits for somebody.

    Exits with 0 if it has completed, 3 if it waits or is paused, 1 if it has failed, 130 if it was cancelled.
    """
    import json as json_format

    from statewright.cli.console.failure import CANCELLED, FAILED, exit_with
    from statewright.cli.runs.client_session import open_client
    from statewright.cli.runs.text import EXIT_CODES, format_event
    from statewright.cli.runs.watch import exit_with_outcome, follow_run

    def tell(event: Event) -> None:
        say(json_format.dumps(event.raw, ensure_ascii=False) if json else format_event(event), flush=True)

    with open_client(url, patient=True) as client:
        try:
            record = follow_run(client, run, tell, after=after, to_the_end=to_the_end)
        except KeyboardInterrupt:
            exit_with(
                f"Stopped watching; the run goes on. Watch it again with: statewright runs watch {run}", CANCELLED
            )
        if json:
            raise SystemExit(EXIT_CODES.get(record.status, FAILED))
        exit_with_outcome(client, record, url, json_wanted=False)
