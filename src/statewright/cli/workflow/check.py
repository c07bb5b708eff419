"""`statewright check` and `draw`: inspect graphs and workflows without running them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from statewright.cli.console.failure import FAILED, USAGE_ERROR, UsageError, report_os_errors
from statewright.cli.console.options import DatabaseOptions, KeyOption
from statewright.cli.console.printing import pluralize, say, warn
from statewright.cli.console.values import to_json
from statewright.cli.workflow.load import is_workflow, list_targets, load_for_check, load_graph
from statewright.errors import GraphError, StatewrightError
from statewright.futures import resolve
from statewright.runtime import CompiledGraph
from statewright.runtime.core.graph_migration import migrate_to_graph

if TYPE_CHECKING:
    from statewright.storage.checkpoints.saver import DatabaseSaver


def check(
    targets: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Workflows in YAML, or FILE.py[:GRAPH] with a graph.")
    ],
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="PATH|URL", help="A database with unfinished threads to check."),
    ] = None,
    key_file: KeyOption = None,
) -> None:
    """Check workflows and graphs, and list all problems. Exits with 2 if there are any.

    With --against, also check that all unfinished threads of a database can continue with the graph. Exits with 1 if
    one cannot.
    """
    if against is not None and len(targets) > 1:
        raise UsageError("--against checks a single graph. Pass only one file.")
    apps = [app for target in targets for app in _check_target(target, is_single=against is not None)]
    if None in apps:
        raise SystemExit(USAGE_ERROR)
    if against is not None:
        # Imported here, so that a check without a database does not wait for the import.
        from statewright.cli.db.database import open_saver

        with open_saver(DatabaseOptions(database=against, key_file=key_file)) as saver:
            _check_threads(cast("CompiledGraph", apps[0]), saver)


def _check_target(target: str, *, is_single: bool) -> list[CompiledGraph | None]:
    """Check the graph that a target names, or all graphs in its file unless `is_single`.

    Returns the graphs, with None in place of each invalid one.
    """
    try:
        targets = [target] if is_workflow(target) or is_single else list_targets(target)
    except UsageError as error:  # the file cannot be imported
        warn(f"Error: {error}")
        return [None]
    return [_check_graph(name) for name in targets]


def _check_graph(target: str) -> CompiledGraph | None:
    """Load a graph, and print a summary of it, or its problems. Return None for an invalid graph."""
    try:
        app, missing_resources = load_for_check(target)
    except (UsageError, GraphError) as error:
        warn(f"Error: {error}")
        return None
    for problem in missing_resources:
        warn(f"warning: {target}: {problem}")

    edges = sum(len(targets) for targets in app.graph.successors.values())
    name = app.graph.name if is_workflow(target) else target  # graphs of a file often have the same name
    say(f"ok: {name}, {pluralize(len(app.graph.nodes), 'node')}, {pluralize(edges, 'edge')}")
    return app


def _check_threads(app: CompiledGraph, saver: DatabaseSaver[Any]) -> None:
    """Print the unfinished branches that cannot continue with the graph, and exit with 1 if there are any."""
    saver.allow(app.program.stored_types)
    compatible_count = incompatible_count = 0
    for workspace_saver, thread_id, branch in _iter_branches(saver):
        problem = _find_problem(app, workspace_saver, thread_id, branch)
        if problem:
            incompatible_count += 1
            in_workspace = f", workspace {workspace_saver.workspace}"
            where = in_workspace if workspace_saver.workspace != saver.workspace else ""
            say(f"{thread_id} ({branch}{where}): {problem}")
        elif problem is not None:
            compatible_count += 1
    say(f"Unfinished branches: {compatible_count} can continue, {incompatible_count} cannot")
    if incompatible_count:
        raise SystemExit(FAILED)


def _iter_branches(saver: DatabaseSaver[Any]) -> Iterator[tuple[DatabaseSaver[Any], str, str]]:
    """Yield all branches in all workspaces, each as the saver of its workspace, its thread id and its name."""
    for workspace in resolve(saver.workspaces()):
        workspace_saver = saver.for_workspace(workspace)
        for entry in resolve(workspace_saver.threads()):
            for branch in resolve(workspace_saver.branches(entry.thread_id)):
                yield workspace_saver, entry.thread_id, branch


def _find_problem(app: CompiledGraph, saver: DatabaseSaver[Any], thread_id: str, branch: str) -> str | None:
    """Return why a branch cannot continue with the graph: empty if it can continue, None if it is completed."""
    try:
        saved = resolve(saver.load(thread_id, branch=branch))
        if saved is None or saved.checkpoint.is_complete:
            return None
        migrate_to_graph(app.program, saved)
    except StatewrightError as error:
        return f"{error} [{error.code}]"
    return ""


# -- draw

Format = Literal["ascii", "mermaid", "dot", "svg", "json"]


def draw(
    target: Annotated[str, typer.Argument(metavar="FILE", help="A workflow in YAML, or FILE.py[:GRAPH] with a graph.")],
    drawing_format: Annotated[Format, typer.Option("--format", "-f", help="The format of the drawing.")] = "ascii",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="PATH", help="Write to a file instead of standard output.")
    ] = None,
    xray: Annotated[bool, typer.Option("--xray", help="Include the nodes of subgraphs.")] = False,
) -> None:
    """Draw a graph from its declared edges, without running it."""
    drawing = load_graph(target).get_graph(xray=xray)
    renderers = {
        "ascii": drawing.draw_ascii,
        "mermaid": drawing.draw_mermaid,
        "dot": drawing.draw_dot,
        "svg": drawing.draw_svg,
        "json": lambda: to_json(drawing.to_json()),
    }
    text = renderers[drawing_format]().rstrip("\n")
    if output is None:
        say(text)
        return
    with report_os_errors(f"The drawing cannot be written to {str(output)!r}"):
        output.write_text(text + "\n", encoding="utf-8")
