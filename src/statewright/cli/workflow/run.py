"""`statewright run` and `resume`: run a graph or a workflow, save every superstep, and print the final state."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from statewright.checkpoint import InMemorySaver
from statewright.cli.console.failure import UsageError
from statewright.cli.console.options import BranchOption, DatabaseOptions, ModelOptions, RunOptions, ThreadArgument
from statewright.cli.console.saved_run import SavedRun
from statewright.cli.db.database import find_checkpoint, locate_database, open_or_create_saver, open_saver
from statewright.cli.workflow.inputs import read_input, read_message, read_text, read_value
from statewright.cli.workflow.load import has_durable_saver, is_workflow, load
from statewright.cli.workflow.models import Models, read_models
from statewright.cli.workflow.run_output import RunResult, report_run, run_with_progress
from statewright.graph import Command
from statewright.ids import is_interrupt_id
from statewright.runtime import CompiledGraph
from statewright.runtime.streaming.modes import INTERRUPT
from statewright.storage.checkpoints.saver import DatabaseSaver

if TYPE_CHECKING:
    from statewright.agents import Network

TargetArgument = Annotated[
    str,
    typer.Argument(metavar="FILE", help="A workflow in YAML, or FILE.py[:NAME] with a graph, an agent or a network."),
]


def run(
    target: TargetArgument,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="INPUT",
            help="JSON, @FILE or KEY=VALUE; repeated values are merged. For a workflow or an agent: text or @FILE.",
        ),
    ] = None,
    files: Annotated[
        list[str] | None, typer.Option("--file", metavar="PATH", help="A file for a workflow to read. Repeatable.")
    ] = None,
    thread: Annotated[
        str | None,
        typer.Option("--thread", metavar="ID", help="The thread to run on. Default: a new one."),
    ] = None,
    *,
    models: ModelOptions,
    database: DatabaseOptions,
    options: RunOptions,
) -> None:
    """Run a graph or a workflow until it completes or waits for input.

    Every superstep is saved, so that the run can be inspected and resumed; with `--database memory:` nothing is saved.

    Exit codes: 0 completed, 1 failed, 2 usage error, 3 waiting for input, 130 cancelled.
    """
    chosen_models = read_models(models.model, models.base_url)
    app, network = load(target, chosen_models, options.script, options.max_items)
    run_input = _read_run_input(target, app, network, inputs or (), files or ())
    thread_id = thread if thread is not None else new_thread_id()
    config = options.config
    saver = open_run_saver(app, database)
    saved = None
    if saver is not None or has_durable_saver(app):
        location_args = database.args if saver is not None else ()
        saved = _make_saved_run(
            thread_id, target, chosen_models, options, location_args, is_in_database=saver is not None
        )
    with saver or nullcontext():
        if saver is not None or is_workflow(target):  # the result of a workflow is read from its thread
            app = app.with_services(checkpointer=saver or InMemorySaver())
        if app.checkpointer is not None:
            config["thread_id"] = thread_id
        report_run(
            lambda: run_with_progress(app, run_input, config),
            app,
            config,
            saved,
            options,
            network=network,
            is_workflow=is_workflow(target),
        )


def _read_run_input(
    target: str, app: CompiledGraph, network: Network[Any] | None, inputs: Sequence[str], files: Sequence[str]
) -> Any:
    """Return the input of a run. Raises UsageError, even for an unknown field, about which a run would only warn."""
    if is_workflow(target):
        if len(inputs) > 1:
            raise UsageError("A workflow takes one input. Pass --input once, with text, JSON or @FILE.")
        text = read_text(inputs[0]) if inputs else None
        return {"input": text, **({"files": list(files)} if files else {})}
    if network is not None:
        return {"input": read_message(inputs)}
    run_input = read_input(inputs or ["{}"])
    if problems := app.program.start.updates.unknown_key_problems(run_input):
        raise UsageError(" ".join(problems.values()))
    return run_input


def _make_saved_run(
    thread: str,
    target: str,
    models: Models,
    options: RunOptions,
    location_args: tuple[str, ...],
    *,
    is_in_database: bool,
) -> SavedRun:
    script = ("--script", str(options.script)) if options.script is not None and is_workflow(target) else ()
    return SavedRun(
        thread=thread,
        target=target,
        location_args=location_args,
        model_args=(*script, *models.args),
        is_in_database=is_in_database,
    )


def open_run_saver(app: CompiledGraph, database: DatabaseOptions) -> DatabaseSaver[Any] | None:
    """Open the database in which to save a run; return None if the graph has its own saver, or if nothing is saved."""
    location = locate_database(database.database)
    if location is None or (database.database is None and has_durable_saver(app)):
        return None
    return open_or_create_saver(location, database.key_file)


def new_thread_id() -> str:
    """Return a random thread id that is short enough to type."""
    return secrets.token_hex(6)


# -- resume


def resume(
    thread: ThreadArgument,
    target: TargetArgument,
    answer: Annotated[
        list[str] | None,
        typer.Option(
            "--answer",
            "-a",
            metavar="[ID=]VALUE",
            help="The answer to a question, as JSON or text. With several open questions: ID=VALUE for each.",
        ),
    ] = None,
    event: Annotated[
        str | None, typer.Option("--event", metavar="NAME[=JSON]", help="An event to deliver, with its payload.")
    ] = None,
    due: Annotated[bool, typer.Option("--due", help="Fire the timers and timeouts that are due.")] = False,
    branch: BranchOption = "main",
    *,
    models: ModelOptions,
    database: DatabaseOptions,
    options: RunOptions,
) -> None:
    """Continue a thread: answer its questions, deliver an event, or retry from where it stopped.

    The exit codes are those of `run`.
    """
    if sum((bool(answer), event is not None, due)) > 1:
        raise UsageError("Use only one of --answer, --event and --due.")
    answers = read_answers(answer or ())
    chosen_models = read_models(models.model, models.base_url)
    app, network = load(target, chosen_models, options.script, options.max_items)
    saver = None if database.database is None and has_durable_saver(app) else open_saver(database)
    location_args = (*database.args, *(("--branch", branch) if branch != "main" else ()))
    saved = _make_saved_run(thread, target, chosen_models, options, location_args, is_in_database=saver is not None)
    config = {**options.config, "thread_id": thread, "branch": branch}
    with saver or nullcontext():
        if saver is not None:
            app = app.with_services(checkpointer=saver)
        assert app.checkpointer is not None
        find_checkpoint(app.checkpointer, thread, branch)  # raises an error if there is nothing to resume
        report_run(
            lambda: _continue(app, config, answers, event, due),
            app,
            config,
            saved,
            options,
            network=network,
            is_workflow=is_workflow(target),
        )


def _continue(app: CompiledGraph, config: dict[str, Any], answers: Any, event: str | None, due: bool) -> RunResult:
    """Resume the thread and run it until it completes or waits."""
    if event is not None:
        name, equals, payload = event.partition("=")
        result = app.send_event(name, read_value(payload) if equals else None, config, durability="sync")
    elif due:
        result = app.resume_due(config, durability="sync")
    else:
        # Without answers, None continues the run where it stopped.
        run_input = cast(Any, Command)(resume=answers) if answers is not NO_ANSWER else None
        return run_with_progress(app, run_input, config)
    if result is None:  # nothing was due
        snapshot = app.get_state(config)
        return snapshot.values, snapshot.interrupts
    return _split_result(result)


def _split_result(result: Any) -> RunResult:
    """Split the result of a run into the state and the open interrupts.

    A result with interrupts is always a dict: a state that is not a dict itself is under the key `__root__`.
    """
    if not isinstance(result, dict) or INTERRUPT not in result:
        return cast(Any, result), ()
    state = dict(cast(dict[str, Any], result))
    interrupts = state.pop(INTERRUPT)
    return (state["__root__"] if state.keys() == {"__root__"} else state), interrupts


NO_ANSWER: Final[Any] = object()
"""Returned by `read_answers` if there are no answers, because None is a valid answer."""


def read_answers(values: Sequence[str]) -> Any:
    """Parse the values of `--answer`: a single value, or values by question id. Raises UsageError for both together."""
    pairs = [_parse_named_answer(text) for text in values]
    if not pairs:
        return NO_ANSWER
    if all(pair is not None for pair in pairs):
        return dict(cast(list[tuple[str, Any]], pairs))
    if len(values) > 1:
        raise UsageError("Several answers require the ids of their questions: --answer ID=VALUE --answer ID=VALUE.")
    return read_value(values[0])


def _parse_named_answer(text: str) -> tuple[str, Any] | None:
    """Parse `ID=VALUE`; return None for an answer that does not begin with the id of a question."""
    question_id, equals, value = text.partition("=")
    return (question_id, read_value(value)) if equals and is_interrupt_id(question_id) else None
