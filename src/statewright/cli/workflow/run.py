"""`statewright run` and `resume`: run a graph or a workflow, save every superstep, and print the final state."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from statewright.checkpoint import Checkpointer, InMemorySaver
from statewright.cli.console.failure import UsageError
from statewright.cli.console.options import (
    BaseUrlOption,
    BranchOption,
    DatabaseOption,
    KeyOption,
    ModelOption,
    ThreadArgument,
)
from statewright.cli.db.database import find_checkpoint, locate_database, open_or_create_saver, open_saver
from statewright.cli.workflow.follow import RunEnd, SavedRun, follow, run_and_exit, run_workflow_and_exit
from statewright.cli.workflow.inputs import read_input, read_message, read_text, read_value
from statewright.cli.workflow.load import has_durable_saver, load
from statewright.cli.workflow.models import Models, read_models
from statewright.cli.workflow.states import is_workflow, load_app
from statewright.graph import Command
from statewright.ids import is_interrupt_id
from statewright.runtime import CompiledGraph
from statewright.runtime.streaming.modes import INTERRUPT
from statewright.storage.sqlite import SqliteSaver

if TYPE_CHECKING:
    from statewright.agents import Network

TargetArgument = Annotated[
    str,
    typer.Argument(metavar="FILE", help="A workflow in YAML, or FILE.py[:NAME] with a graph, an agent or a network."),
]
ScriptOption = Annotated[
    Path | None,
    typer.Option(
        "--script",
        metavar="FILE",
        help="A JSON file with outputs of the states of a workflow, which replace its models and tools.",
    ),
]
StateJsonOption = Annotated[bool, typer.Option("--json", help="Print the state as one JSON document.")]
StepsOption = Annotated[
    int | None, typer.Option("--recursion-limit", metavar="N", help="The maximum number of supersteps.")
]
TasksOption = Annotated[
    int | None, typer.Option("--max-concurrency", metavar="N", help="The maximum number of concurrent tasks.")
]
ItemsOption = Annotated[
    int | None,
    typer.Option(
        "--max-items",
        metavar="N",
        min=1,
        help="The maximum number of branches into which a workflow splits one result.",
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
            help="JSON, @FILE or KEY=VALUE; repeated values are merged. For a workflow or an agent: text or @FILE.",
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
        typer.Option("--thread", metavar="ID", help="The thread to run on. Default: a new one."),
    ] = None,
    database: DatabaseOption = None,
    key_file: KeyOption = None,
    json: StateJsonOption = False,
    recursion_limit: StepsOption = None,
    max_concurrency: TasksOption = None,
    max_items: ItemsOption = None,
    show_traceback: TracebackOption = False,
) -> None:
    """Run a graph or a workflow until it is complete or waits for input.

    Every superstep is saved, so that the run can be inspected and resumed; `--database memory:` saves nothing.

    Exit codes: 0 completed, 1 failed, 2 usage error, 3 waiting for input, 130 cancelled.
    """
    command = _Command(
        target=target,
        script=script,
        models=read_models(model, base_url),
        max_items=max_items,
        as_json=json,
        show_traceback=show_traceback,
    )
    config = run_limits(recursion_limit, max_concurrency)
    thread_id = thread if thread is not None else new_thread_id()
    if is_workflow(target):
        saver, options = open_run_saver(None, database, key_file)
        config["thread_id"] = thread_id
        saved = command.saved_run(thread_id, options) if saver is not None else None
        with saver or nullcontext():
            app = command.load_workflow(saver or InMemorySaver())
            command.run_workflow(app, workflow_input(inputs or (), files or ()), config, saved)
        return
    app, network = load(target, command.models)
    if network is None:
        run_input = read_input(inputs or ["{}"])
        check_fields(app, run_input)
    else:
        run_input = {"input": read_message(inputs or ())}
    saver, options = open_run_saver(app, database, key_file)
    saved = None
    if saver is not None or has_durable_saver(app):
        saved = command.saved_run(thread_id, options, is_in_database=saver is not None)
    with saver or nullcontext():
        if saver is not None:
            app = app.with_services(checkpointer=saver)
        if app.checkpointer is not None:
            config["thread_id"] = thread_id
        command.run_graph(lambda: follow(app, run_input, config), saved, network)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Command:
    """The options that `run` and `resume` share: what to run, with which models, and how to print the result."""

    target: str
    script: Path | None
    models: Models
    max_items: int | None
    as_json: bool
    show_traceback: bool

    def saved_run(self, thread: str, options: tuple[str, ...], *, is_in_database: bool = True) -> SavedRun:
        """Return the location of the saved run, with the options that name it."""
        script = ("--script", str(self.script)) if self.script is not None and is_workflow(self.target) else ()
        return SavedRun(
            thread=thread,
            target=self.target,
            options=options,
            models=(*script, *self.models.options),
            is_in_database=is_in_database,
        )

    def load_workflow(self, saver: Checkpointer) -> CompiledGraph:
        return load_app(self.target, self.script, self.models, checkpointer=saver, max_items=self.max_items)

    def run_workflow(self, app: CompiledGraph, run_input: Any, config: dict[str, Any], saved: SavedRun | None) -> None:
        run_workflow_and_exit(app, run_input, config, saved, as_json=self.as_json, show_traceback=self.show_traceback)

    def run_graph(self, run: Callable[[], RunEnd], saved: SavedRun | None, network: Network[Any] | None) -> None:
        run_and_exit(run, saved, network=network, as_json=self.as_json, show_traceback=self.show_traceback)


def open_run_saver(
    app: CompiledGraph | None, database: str | None, key_file: Path | None
) -> tuple[SqliteSaver | None, tuple[str, ...]]:
    """Open the saver of a run and return it with the options that name it.

    The saver is None if the graph has its own, or if nothing is saved.
    """
    location = locate_database(database, key_file)
    if location.path is None or (database is None and app is not None and has_durable_saver(app)):
        return None, ()
    return open_or_create_saver(location.path, key_file), location.options


def check_fields(app: CompiledGraph, run_input: Any) -> None:
    """Raise UsageError if the input has an unknown field, about which a run would only warn."""
    if problem := app.program.start.updates.unknown_in(run_input):
        raise UsageError(problem)


def run_limits(recursion_limit: int | None, max_concurrency: int | None) -> dict[str, Any]:
    """Return the limits of the command line as the configuration of a run."""
    settings = {"recursion_limit": recursion_limit, "max_concurrency": max_concurrency}
    return {name: value for name, value in settings.items() if value is not None}


def new_thread_id() -> str:
    """Return a random thread id that is short enough to type."""
    return secrets.token_hex(6)


def workflow_input(inputs: Sequence[str], files: Sequence[str]) -> dict[str, Any]:
    """Return the input of a workflow: a text and files. Raises UsageError for several texts."""
    if len(inputs) > 1:
        raise UsageError("A workflow has one input. Give --input once: text, JSON, or @FILE.")
    text = read_text(inputs[0]) if inputs else None
    return {"input": text, **({"files": list(files)} if files else {})}


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
            help="The answer to a question, JSON or text. With several open questions: ID=VALUE for each.",
        ),
    ] = None,
    event: Annotated[
        str | None, typer.Option("--event", metavar="NAME[=JSON]", help="An event to deliver, with its payload.")
    ] = None,
    script: ScriptOption = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    due: Annotated[bool, typer.Option("--due", help="Continue after timers and timeouts that are due.")] = False,
    branch: BranchOption = "main",
    database: DatabaseOption = None,
    key_file: KeyOption = None,
    json: StateJsonOption = False,
    recursion_limit: StepsOption = None,
    max_concurrency: TasksOption = None,
    max_items: ItemsOption = None,
    show_traceback: TracebackOption = False,
) -> None:
    """Continue a thread: answer its questions, deliver an event, or retry it where it stopped.

    The exit codes are those of `run`.
    """
    if sum((bool(answer), event is not None, due)) > 1:
        raise UsageError("Give only one of --answer, --event and --due.")
    answers = read_answers(answer or ())
    command = _Command(
        target=target,
        script=script,
        models=read_models(model, base_url),
        max_items=max_items,
        as_json=json,
        show_traceback=show_traceback,
    )
    config = {**run_limits(recursion_limit, max_concurrency), "thread_id": thread, "branch": branch}
    options = (*locate_database(database, key_file).options, *(("--branch", branch) if branch != "main" else ()))
    if is_workflow(target):
        with open_saver(database, key_file) as saver:
            find_checkpoint(saver, thread, branch)
            app = command.load_workflow(saver)
            command.run_workflow(app, resume_input(answers), config, command.saved_run(thread, options))
        return
    app, network = load(target, command.models)
    saver = None if database is None and has_durable_saver(app) else open_saver(database, key_file)
    with saver or nullcontext():
        if saver is not None:
            app = app.with_services(checkpointer=saver)
        assert app.checkpointer is not None
        find_checkpoint(app.checkpointer, thread, branch)
        saved = command.saved_run(thread, options, is_in_database=saver is not None)
        command.run_graph(lambda: _continue(app, config, answers, event, due), saved, network)


def _continue(app: CompiledGraph, config: dict[str, Any], answers: Any, event: str | None, due: bool) -> RunEnd:
    """Resume the thread and run it until it is idle."""
    if event is not None:
        name, equals, payload = event.partition("=")
        result = app.send_event(name, read_value(payload) if equals else None, config, durability="sync")
    elif due:
        result = app.resume_due(config, durability="sync")
    else:
        state, questions = follow(app, resume_input(answers), config)
        return (state if state is not None else app.get_state(config).values), questions
    if result is None:  # nothing was due
        snapshot = app.get_state(config)
        return snapshot.values, snapshot.interrupts
    return _split_result(result)


def _split_result(result: Any) -> RunEnd:
    """Split the result of `invoke` into the state and the open interrupts."""
    if not isinstance(result, dict) or INTERRUPT not in result:
        return cast(Any, result), ()
    state = dict(cast(dict[str, Any], result))
    questions = state.pop(INTERRUPT)
    return (state["__root__"] if state.keys() == {"__root__"} else state), questions


NO_ANSWER: Final[Any] = object()
"""Stands for the absence of an answer."""


def resume_input(answers: Any) -> Any:
    """Return the input that resumes a run with answers, or None, which continues it where it stopped."""
    return cast(Any, Command)(resume=answers) if answers is not NO_ANSWER else None


def read_answers(values: Sequence[str]) -> Any:
    """Parse the values of `--answer`: a single value, or values by question id. Raises UsageError for a mixture."""
    pairs = [_named(text) for text in values]
    if not pairs:
        return NO_ANSWER
    if all(pair is not None for pair in pairs):
        return dict(cast(list[tuple[str, Any]], pairs))
    if len(values) > 1:
        raise UsageError("Several answers need the ids of their questions: --answer ID=VALUE --answer ID=VALUE.")
    return read_value(values[0])


def _named(text: str) -> tuple[str, Any] | None:
    name, equals, value = text.partition("=")
    return (name, read_value(value)) if equals and is_interrupt_id(name) else None
