"""`statewright check`: would the graph compile, and would every open thread go on with it?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, cast

import typer

from statewright.cli.options import KeyOption

if TYPE_CHECKING:
    from statewright.runtime import CompiledGraph
    from statewright.storage.sqlite import SqliteSaver


def check(
    targets: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Workflows in YAML, or FILE.py[:GRAPH] with a graph.")
    ],
    against: Annotated[
        str | None, typer.Option("--against", metavar="PATH", help="A database: would its open threads go on?")
    ] = None,
    key_file: KeyOption = None,
) -> None:
    """Check workflows and graphs strictly, and list every problem. Exits with 2 if there is one.

    With --against also whether every thread that is not finished fits the graph; exits with 1 if one does not.
    """
    from statewright.cli.failure import WRONG_USE, WrongUse

    if against is not None and len(targets) > 1:
        raise WrongUse("--against is about one graph. Give one file with it.")
    apps = [_checked(target) for target in targets]
    if None in apps:
        raise SystemExit(WRONG_USE)
    if against is not None:
        from statewright.cli.database import opened

        with opened(against, key_file) as saver:
            _check_threads(cast("CompiledGraph", apps[0]), saver)


def _checked(target: str) -> CompiledGraph | None:
    """The graph of a file, told of; None if it is wrong, which is told of too."""
    from statewright.cli.failure import WrongUse
    from statewright.cli.load import load_graph
    from statewright.cli.workflow import is_workflow, missing_in
    from statewright.errors import GraphError

    try:
        app = load_graph(target)
    except (WrongUse, GraphError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return None
    for problem in missing_in(target) if is_workflow(target) else ():
        print(f"warning: {target}: {problem}", file=sys.stderr)
    edges = sum(len(ways) for ways in app.graph.ways.values())
    print(f"ok: {app.graph.name}, {len(app.graph.nodes)} nodes, {edges} ways between them")
    return app


def _check_threads(app: CompiledGraph, saver: SqliteSaver) -> None:
    """Say of each open thread whether it fits, and leave with 1 if one does not."""
    from statewright.cli.failure import FAILED
    from statewright.promise import resolved

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
    from statewright.promise import resolved
    from statewright.runtime.fitting import fitted

    try:
        saved = resolved(saver.load(thread_id, branch=branch))
        if saved is None or saved.checkpoint.at_rest:
            return None
        fitted(app.program, saved)
    except StatewrightError as error:
        return f"{error} [{error.code}]"
    return ""
