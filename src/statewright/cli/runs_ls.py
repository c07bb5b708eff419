"""`statewright runs ls`."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statewright.cli.asking import UrlOption
from statewright.cli.options import JsonOption
from statewright.cli.printing import say
from statewright.cli.runs_start import MetadataOption, TagOption

if TYPE_CHECKING:
    from statewright.client import Run


def ls(
    status: Annotated[
        list[str] | None,
        typer.Option(
            "--status", "-s", metavar="STATUS", help="Only runs with this status: running, waiting, failed ..."
        ),
    ] = None,
    graph: Annotated[str | None, typer.Option("--graph", "-g", metavar="NAME", help="Only runs of that graph.")] = None,
    tag: TagOption = None,
    metadata: MetadataOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="List at most N.")] = 20,
    json: JsonOption = False,
    url: UrlOption = None,
) -> None:
    """List runs, the newest first."""
    from statewright.cli.asking import asking
    from statewright.cli.runs_start import read_metadata
    from statewright.cli.show import as_json

    filters: dict[str, Any] = {
        "status": [part for one in status or () for part in one.split(",")],
        "graph": graph,
        "tags": tag or [],
        "metadata": read_metadata(metadata or ()),
    }
    with asking(url) as client:
        if limit <= 100:
            found = list(client.runs.list(page_size=limit, **filters).items)
        else:
            found = list(islice(client.runs.iterate(**filters), limit))
    if json:
        say(as_json([one.raw for one in found]))
    elif found:
        _print(found)
    else:
        say("There are no such runs." if any(filters.values()) else "There are no runs.")


def _print(found: list[Run]) -> None:
    from statewright.cli.table import Column, moment, print_table

    columns = (
        Column("RUN", whole=True),
        Column("GRAPH"),
        Column("STATUS", whole=True),
        Column("STEP"),
        Column("CREATED", whole=True),
        Column("TAGS"),
    )
    rows = [
        (one.id, one.graph, one.status, one.current_step_name or "", moment(one.created_at), ", ".join(one.tags))
        for one in found
    ]
    print_table(columns, rows)
