"""`statewright resume`: continue a saved thread."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from statewright.cli.console.failure import UsageError
from statewright.cli.console.options import (
    BaseUrlOption,
    BranchOption,
    DatabaseOption,
    KeyOption,
    ModelOption,
    ThreadArgument,
)
from statewright.cli.workflow.inputs import read_value
from statewright.cli.workflow.run import (
    ItemsOption,
    ScriptOption,
    StateJsonOption,
    StepsOption,
    TargetArgument,
    TasksOption,
    TracebackOption,
    run_limits,
)

if TYPE_CHECKING:
    from statewright.cli.workflow.follow import RunEnd
    from statewright.runtime import CompiledGraph


def resume(
    thread: ThreadArgument,
    target: TargetArgument,
    answer: Annotated[
        list[str] | None,
        typer.Option(
            "--answer",
            "-a",
            metavar="[ID=]VALUE",
            help="The answer to a question, JSON or text. With several open questions, ID=VALUE for each.",
        ),
    ] = None,
    event: Annotated[
        str | None, typer.Option("--event", metavar="NAME[=JSON]", help="An event that has happened, with its payload.")
    ] = None,
    script: ScriptOption = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    due: Annotated[
        bool, typer.Option("--due", help="Continue where timers have gone off and waits have timed out.")
    ] = False,
    branch: BranchOption = "main",
    database: DatabaseOption = None,
    key_file: KeyOption = None,
    json: StateJsonOption = False,
    recursion_limit: StepsOption = None,
    max_concurrency: TasksOption = None,
    max_items: ItemsOption = None,
    show_traceback: TracebackOption = False,
) -> None:
    """Continue a thread: with answers to its questions, with an event, with what is due, or where it stopped.

    Exits with the codes of `run`.
    """
    from statewright.cli.db.database import find_checkpoint, locate_database, open_saver
    from statewright.cli.workflow.follow import SavedRun, run_and_exit
    from statewright.cli.workflow.load import has_durable_saver, load, with_saver
    from statewright.cli.workflow.models import read_models
    from statewright.cli.workflow.states import is_workflow, resume_workflow

    if sum((bool(answer), event is not None, due)) > 1:
        raise UsageError("A run is continued with one thing: give --answer, --event or --due.")
    answers, models = read_answers(answer or ()), read_models(model, base_url)
    if is_workflow(target):
        with open_saver(database, key_file) as saver:
            find_checkpoint(saver, thread, branch)
            config = {**run_limits(recursion_limit, max_concurrency), "thread_id": thread, "branch": branch}
            answer_value = ... if answers is NO_ANSWER else answers
            options = locate_database(database, key_file).options
            resume_workflow(
                target,
                script,
                thread,
                saver,
                answer_value,
                options,
                config,
                models=models,
                max_items=max_items,
                json_wanted=json,
            )
    app, network = load(target, models)
    saver = None if database is None and has_durable_saver(app) else open_saver(database, key_file)
    with saver or nullcontext():
        if saver is not None:
            app = with_saver(app, saver)
        assert app.checkpointer is not None
        find_checkpoint(app.checkpointer, thread, branch)
        config = {**run_limits(recursion_limit, max_concurrency), "thread_id": thread, "branch": branch}
        options = (*locate_database(database, key_file).options, *(("--branch", branch) if branch != "main" else ()))
        saved = SavedRun(
            thread=thread, target=target, options=options, models=models.options, is_ours=saver is not None
        )
        run_and_exit(
            lambda: _continue(app, config, answers, event, due),
            saved,
            network=network,
            json_wanted=json,
            show_traceback=show_traceback,
        )


def _continue(app: CompiledGraph, config: dict[str, Any], answers: Any, event: str | None, due: bool) -> RunEnd:
    """Resume the thread and run it until it is idle."""
    from statewright.cli.workflow.follow import follow
    from statewright.graph import Command

    if event is not None:
        name, equals, payload = event.partition("=")
        result = app.send_event(name, read_value(payload) if equals else None, config, durability="sync")
    elif due:
        result = app.resume_due(config, durability="sync")
    else:
        run_input = cast(Any, Command)(resume=answers) if answers is not NO_ANSWER else None
        state, questions = follow(app, run_input, config)
        return (state if state is not None else app.get_state(config).values), questions
    if result is None:  # nothing was due
        snapshot = app.get_state(config)
        return snapshot.values, snapshot.interrupts
    return _split_result(result)


def _split_result(result: Any) -> RunEnd:
    """Split the result of `invoke` into the state and the open interrupts."""
    from statewright.runtime.streaming.modes import INTERRUPT

    if not isinstance(result, dict) or INTERRUPT not in result:
        return cast(Any, result), ()
    state = dict(cast(dict[str, Any], result))
    questions = state.pop(INTERRUPT)
    return (state["__root__"] if state.keys() == {"__root__"} else state), questions


NO_ANSWER: Any = object()
"""Stands for the absence of an answer."""


def read_answers(values: Sequence[str]) -> Any:
    """Parse the values of `--answer`: a single value, or values by question id. Raises UsageError for a mixture."""
    pairs = [_named(text) for text in values]
    if not pairs:
        return NO_ANSWER
    if all(pair is not None for pair in pairs):
        return dict(cast(list[tuple[str, Any]], pairs))
    if len(values) > 1:
        raise UsageError("Several answers need to say which question each is for: --answer ID=VALUE --answer ID=VALUE.")
    return read_value(values[0])


def _named(text: str) -> tuple[str, Any] | None:
    from statewright.ids import is_interrupt_id

    name, equals, value = text.partition("=")
    return (name, read_value(value)) if equals and is_interrupt_id(name) else None
