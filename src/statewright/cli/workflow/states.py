"""Workflow files of states: loading, running with scripted outputs, and printing the result."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from statewright.cli.console.failure import (
    CANCELLED,
    DONE,
    FAILED,
    WAITING,
    UsageError,
    exit_code_for,
    exit_with,
    failure_message,
    location_lines,
)
from statewright.cli.console.printing import say, warn
from statewright.cli.workflow.follow import SavedRun, is_interactive
from statewright.cli.workflow.models import Models
from statewright.errors import InvalidConfig, Problem
from statewright.graph import Command
from statewright.runtime import CompiledGraph

if TYPE_CHECKING:
    from statewright.project import Project
    from statewright.workflow.states import Workflow

SUFFIXES: Final = (".yaml", ".yml", ".json")


def is_workflow(target: str) -> bool:
    """Return True for a workflow file, as opposed to a Python file with a graph."""
    return Path(target).suffix.lower() in SUFFIXES


def load_app(target: str, script: Path | None = None, models: Models | None = None, **options: Any) -> CompiledGraph:
    """Load a workflow file as a graph. Without `models` it is for inspection, and no model is connected.

    Raises WorkflowError, and UsageError for an invalid script or a model that cannot be connected.
    """
    from statewright.cli.workflow.models import connect_assistant_models

    workflow, project = _loaded(target)
    outputs = read_script(script)
    answering = connect_assistant_models(workflow.definition, project, models) if models is not None else None
    return workflow.compile(models=answering, script=outputs, project=project, **options)


def check_app(target: str) -> tuple[CompiledGraph, Sequence[Problem]]:
    """Load a workflow file for inspection, with problems for resources that its project lacks.

    Raises WorkflowError.
    """
    workflow, project = _loaded(target)
    from statewright.workflow.states.resources.missing import missing_resources  # after what names a missing extra

    return workflow.compile(project=project), missing_resources(workflow.definition, project)


def _loaded(target: str) -> tuple[Workflow, Project]:
    """Load a workflow file and its project, and print their warnings."""
    from statewright.project import load_project
    from statewright.workflow.states import load_workflow

    if _holds_steps(Path(target)):
        raise UsageError(
            f"{target!r} is a workflow of steps, which a server runs. Check it with `statewright definitions check`, "
            f"serve it with `statewright dev {target}`."
        )
    workflow, project = load_workflow(Path(target)), load_project(Path(target))
    for warning in (*workflow.problems, *project.warnings):
        warn(f"warning: {target}: {warning}")
    return workflow, project


def _holds_steps(path: Path) -> bool:
    """Return True for a workflow of steps in JSON. Unreadable files are reported later."""
    if path.suffix.lower() != ".json":
        return False
    try:
        document: object = json_format.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "steps" in document and "states" not in document


def read_script(path: Path | None) -> dict[str, Any] | None:
    """Read the scripted outputs of states from a JSON file."""
    if path is None:
        return None
    try:
        script = json_format.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"The script {str(path)!r} cannot be read: {reason}. Give a JSON map of states.") from error
    if not isinstance(script, dict):
        raise UsageError(f"The script {str(path)!r} is not a map. Give {{STATE: OUTPUT}}.")
    return script  # pyright: ignore[reportUnknownVariableType]


def read_text(values: Sequence[str]) -> str | None:
    """Return the input of a workflow: text, or the contents of `@FILE`."""
    if len(values) > 1:
        raise UsageError("A workflow has one input. Give --input once: text, JSON, or @FILE.")
    if not values or not values[0].startswith("@"):
        return values[0] if values else None
    try:
        return Path(values[0][1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"The input file {values[0][1:]!r} cannot be read: {reason}.") from error


class WorkflowReport:
    """Runs a workflow and prints a report: one JSON object, or the result as text."""

    def __init__(self, thread_id: str, saved: SavedRun | None, script: Path | None, *, json_wanted: bool) -> None:
        self._thread_id = thread_id
        self._saved = saved
        self._scripted = ("--script", str(script)) if script is not None else ()
        self._json_wanted = json_wanted

    def run_and_exit(self, app: CompiledGraph, run_input: Any, config: dict[str, Any]) -> NoReturn:
        """Run, print the report, and exit with the code of the status."""
        error: Exception | None = None
        try:
            _follow(app, run_input, config)
        except KeyboardInterrupt:
            exit_with("Cancelled.", CANCELLED)
        except Exception as raised:
            error = raised
        snapshot = app.get_state(config)
        status = "failed" if error is not None else "waiting" if snapshot.next else "completed"
        if self._json_wanted:
            say(
                json_format.dumps(self._json_record(status, error, snapshot.values), ensure_ascii=False, default=_plain)
            )
        elif error is None:
            self._print_result(status, snapshot.values, snapshot.next)
        if error is not None:
            ways = self._next_commands() if is_interactive() else []
            told_of = ["Once that is fixed, continue with:", *ways] if ways else []
            exit_with(
                "\n".join([f"Error: {failure_message(error)}", *location_lines(error), *told_of]), _code_of(error)
            )
        if self._saved is not None and is_interactive():
            warn(f"Inspect it with: {self._saved.show_command}")
        raise SystemExit(WAITING if status == "waiting" else DONE)

    def _next_commands(self) -> list[str]:
        """Return the command lines that resume the run, without and with an answer."""
        if self._saved is None:
            return []
        return [f"  {self._saved.resume_command(*self._scripted, *words)}" for words in ((), ("--answer", "TEXT"))]

    def _json_record(self, status: str, error: Exception | None, values: Any) -> dict[str, Any]:
        return {
            "status": status,
            "error": failure_message(error) if error is not None else None,
            "result": values.get("result"),
            "context": values.get("context"),
            "visits": values.get("visits"),
            "messages": values.get("messages"),
            "thread_id": self._thread_id,
        }

    def _print_result(self, status: str, values: Any, ahead: Sequence[str]) -> None:
        result = values.get("result")
        say(result if isinstance(result, str) else json_format.dumps(result, ensure_ascii=False, indent=2))
        if status == "waiting":
            lines = [f"The run waits before {', '.join(sorted(set(ahead)))}. Continue with:", *self._next_commands()]
            warn("\n".join(lines))


def _follow(app: CompiledGraph, run_input: Any, config: dict[str, Any]) -> None:
    from statewright.cli.console.progress import Progress

    with Progress() as progress:
        for _, part in app.stream(run_input, config, stream_mode=progress.modes, durability="sync"):
            progress.take(part)


def _code_of(error: Exception) -> int:
    return exit_code_for(error) if isinstance(error, InvalidConfig) else FAILED


def _plain(value: Any) -> Any:
    return value.to_dict() if hasattr(value, "to_dict") else str(value)


def run_workflow(
    target: str,
    inputs: Sequence[str],
    files: Sequence[str],
    script: Path | None,
    thread: str,
    saver: Any,
    options: Sequence[str],
    config: dict[str, Any],
    *,
    models: Models,
    max_items: int | None,
    json_wanted: bool,
) -> NoReturn:
    """Run a workflow file from its input."""
    from statewright.checkpoint import InMemorySaver

    with saver or nullcontext():
        app = load_app(target, script, models, checkpointer=saver or InMemorySaver(), max_items=max_items)
        start = {"input": read_text(inputs), **({"files": list(files)} if files else {})}
        saved = (
            SavedRun(thread=thread, target=target, options=tuple(options), models=models.options)
            if saver is not None
            else None
        )
        WorkflowReport(thread, saved, script, json_wanted=json_wanted).run_and_exit(
            app, start, {**config, "thread_id": thread}
        )


def resume_workflow(
    target: str,
    script: Path | None,
    thread: str,
    saver: Any,
    answer: Any,
    options: Sequence[str],
    config: dict[str, Any],
    *,
    models: Models,
    max_items: int | None,
    json_wanted: bool,
) -> NoReturn:
    """Resume a workflow where it stopped; `answer` is `...` if none was given."""
    app = load_app(target, script, models, checkpointer=saver, max_items=max_items)
    run_input = cast(Any, Command)(resume=answer) if answer is not ... else None
    saved = SavedRun(thread=thread, target=target, options=tuple(options), models=models.options)
    WorkflowReport(thread, saved, script, json_wanted=json_wanted).run_and_exit(app, run_input, config)
