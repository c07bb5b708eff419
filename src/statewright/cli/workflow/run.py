"""`statewright run`: run a graph, save every superstep, and print the final state."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from statewright.cli.console.options import BaseUrlOption, DatabaseOption, KeyOption, ModelOption

if TYPE_CHECKING:
    from statewright.runtime import CompiledGraph
    from statewright.storage.sqlite import SqliteSaver

TargetArgument = Annotated[
    str,
    typer.Argument(metavar="FILE", help="A workflow in YAML, or FILE.py[:NAME] with a graph, an agent or a network."),
]
ScriptOption = Annotated[
    Path | None,
    typer.Option(
        "--script",
        metavar="FILE",
        help="A JSON file with outputs of a workflow's states, used in place of models and tools.",
    ),
]
StateJsonOption = Annotated[bool, typer.Option("--json", help="Print the state as one JSON document.")]
StepsOption = Annotated[
    int | None, typer.Option("--recursion-limit", metavar="N", help="The most supersteps that the run may take.")
]
TasksOption = Annotated[
    int | None, typer.Option("--max-concurrency", metavar="N", help="The most tasks that may run at once.")
]
ItemsOption = Annotated[
    int | None,
    typer.Option(
        "--max-items", metavar="N", min=1, help="The most branches into which a workflow may split one result."
    ),
]
TracebackOption = Annotated[bool, typer.Option("--traceback", help="Print the Python traceback of a failure.")]


def run(
    target: TargetArgument,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="INPUT",
            help="JSON, @FILE or KEY=VALUE, several are merged; text for a workflow, an agent or a network.",
        ),
    ] = None,
    files: Annotated[
        list[str] | None, typer.Option("--file", metavar="PATH", help="A file to pass to a workflow. Repeatable.")
    ] = None,
    script: ScriptOption = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    thread: Annotated[
        str | None,
        typer.Option("--thread", metavar="ID", help="The thread to run on, existing or new. Default: a new one."),
    ] = None,
    database: DatabaseOption = None,
    key_file: KeyOption = None,
    json: StateJsonOption = False,
    recursion_limit: StepsOption = None,
    max_concurrency: TasksOption = None,
    max_items: ItemsOption = None,
    show_traceback: TracebackOption = False,
) -> None:
    """Run a graph until it is done or has to wait.

    Exits with 0 when it is done, 3 when it waits, 1 when a node failed, 2 on wrong use. Every superstep is saved, so
    that the run can be inspected, answered and continued; `--database memory:` saves nothing.
    """
    from statewright.cli.workflow.follow import SavedRun, follow, run_and_exit
    from statewright.cli.workflow.inputs import check_fields, read_input, read_message
    from statewright.cli.workflow.load import has_durable_saver, load, with_saver
    from statewright.cli.workflow.models import read_models
    from statewright.cli.workflow.states import is_workflow, run_workflow

    models = read_models(model, base_url)
    if is_workflow(target):
        saver, options = open_run_saver(None, database, key_file)
        config = run_limits(recursion_limit, max_concurrency)
        run_workflow(
            target,
            inputs or (),
            files or (),
            script,
            thread if thread is not None else new_thread_id(),
            saver,
            options,
            config,
            models=models,
            max_items=max_items,
            json_wanted=json,
        )
    app, network = load(target, models)
    if network is None:
        start = read_input(inputs or ["{}"])
        check_fields(app, start)
    else:
        start = {"input": read_message(inputs or ())}
    lasting = has_durable_saver(app)
    saver, options = open_run_saver(app, database, key_file)
    with saver or nullcontext():
        config, saved = run_limits(recursion_limit, max_concurrency), None
        if saver is not None:
            app = with_saver(app, saver)
        if app.checkpointer is not None:
            config["thread_id"] = thread if thread is not None else new_thread_id()
        if saver is not None or lasting:
            saved = SavedRun(
                thread=config["thread_id"],
                target=target,
                options=options,
                models=models.options,
                is_ours=saver is not None,
            )
        run_and_exit(
            lambda: follow(app, start, config),
            saved,
            network=network,
            json_wanted=json,
            show_traceback=show_traceback,
        )


def open_run_saver(
    app: CompiledGraph | None, database: str | None, key_file: Path | None
) -> tuple[SqliteSaver | None, tuple[str, ...]]:
    """Open the saver of a run, with the options that name it; None if the graph has its own, or nothing is saved."""
    from statewright.cli.db.database import locate_database, open_or_create_saver
    from statewright.cli.workflow.load import has_durable_saver

    location = locate_database(database, key_file)
    if location.path is None or (database is None and app is not None and has_durable_saver(app)):
        return None, ()
    return open_or_create_saver(location.path, key_file), location.options


def run_limits(recursion_limit: int | None, max_concurrency: int | None) -> dict[str, Any]:
    """Return the limits that were given as settings of a run."""
    settings = {"recursion_limit": recursion_limit, "max_concurrency": max_concurrency}
    return {name: value for name, value in settings.items() if value is not None}


def new_thread_id() -> str:
    """Draw a random thread id that is short enough to type."""
    import secrets

    return secrets.token_hex(6)
