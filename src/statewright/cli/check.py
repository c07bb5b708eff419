"""`statewright check`: would the graph compile, and would every open thread go on with it?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from statewright.cli.options import KeyOption

if TYPE_CHECKING:
    from statewright.runtime import CompiledGraph
    from statewright.storage.sqlite import SqliteSaver


def check(
    target: Annotated[
        str, typer.Argument(metavar="FILE.py[:GRAPH]", help="The file, and the name of the graph in it.")
    ],
    against: Annotated[
        str | None, typer.Option("--against", metavar="PATH", help="A database: would its open threads go on?")
    ] = None,
    key_file: KeyOption = None,
) -> None:
    """Check a graph strictly, and list every problem. Exits with 2 if there is one.

    With --against also whether every thread that is not finished fits the graph; exits with 1 if one does not.
    """
    from statewright.cli.load import load_graph

    app = load_graph(target)
    edges = sum(len(ways) for ways in app.graph.ways.values())
    print(f"ok: {app.graph.name}, {len(app.graph.nodes)} nodes, {edges} ways between them")
    if against is not None:
        from statewright.cli.database import opened

        with opened(against, key_file) as saver:
            _check_threads(app, saver)


def _check_threads(app: CompiledGraph, saver: SqliteSaver) -> None:
    """Say of each open thread whether it fits, and leave with 1 if one does not."""
    from statewright.cli.failure import FAILED
    from statewright.runtime.saver_calls import resolved

    saver.allow(app.program.stored_types)
    fitting = refused = 0
    for entry in resolved(saver.threads()):
        for branch in resolved(saver.branches(entry.thread_id)):
            problem = _problem(app, saver, entry.thread_id, branch)
            if problem:
                refused += 1
                print(f"{entry.thread_id} ({branch}): {problem}")
            elif problem is not None:
                fitting += 1
    print(f"{fitting} open branches of threads fit, {refused} do not")
    if refused:
        raise SystemExit(FAILED)


def _problem(app: CompiledGraph, saver: SqliteSaver, thread_id: str, branch: str) -> str | None:
    """Why a thread does not fit; empty if it does, None if it has nothing left to do."""
    from statewright.errors import StatewrightError
    from statewright.runtime.fitting import fitted
    from statewright.runtime.saver_calls import resolved

    try:
        saved = resolved(saver.load(thread_id, branch=branch))
        if saved is None or saved.checkpoint.at_rest:
            return None
        fitted(app.program, saved)
    except StatewrightError as error:
        return f"{error} [{error.code}]"
    return ""
