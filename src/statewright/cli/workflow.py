"""Workflow files on the command line: loaded with a script, run, and told of."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from statewright.cli.failure import CANCELLED, DONE, FAILED, WAITING, WrongUse, end, exit_code_of, place_lines, said
from statewright.cli.following import Saved, is_watched
from statewright.cli.models import Models
from statewright.cli.printing import say, warn
from statewright.errors import InvalidConfig, Problem
from statewright.graph import Command
from statewright.runtime import CompiledGraph

if TYPE_CHECKING:
    from statewright.project import Project
    from statewright.workflow.states import Workflow

SUFFIXES: Final = (".yaml", ".yml", ".json")


def is_workflow(target: str) -> bool:
    """Whether a target is a workflow file, and no Python file with a graph."""
    return Path(target).suffix.lower() in SUFFIXES


def load_app(target: str, script: Path | None = None, models: Models | None = None, **options: Any) -> CompiledGraph:
    """A workflow file as a graph that can be run; without `models` it is to be looked at, and nobody is asked.

    Raises WorkflowError, and WrongUse for a script that is none, and for models that cannot be connected.
    """
    from statewright.cli.workflow_models import models_of

    workflow, project = _loaded(target)
    outputs = read_script(script)
    answering = models_of(workflow.definition, project, models) if models is not None else None
    return workflow.compile(models=answering, script=outputs, project=project, **options)


def check_app(target: str) -> tuple[CompiledGraph, Sequence[Problem]]:
    """A workflow file as a graph to be looked at, and what it names that its project does not have.

    Raises WorkflowError.
    """
    workflow, project = _loaded(target)
    from statewright.workflow.states.resources.missing import missing_resources  # after what names a missing extra

    return workflow.compile(project=project), missing_resources(workflow.definition, project)


def _loaded(target: str) -> tuple[Workflow, Project]:
    """A workflow file and its project; what is odd about them is told."""
    from statewright.project import load_project
    from statewright.workflow.states import load_workflow

    if _holds_steps(Path(target)):
        raise WrongUse(
            f"{target!r} is a workflow of steps, which a server runs. Check it with `statewright definitions check`, "
            f"serve it with `statewright dev {target}`."
        )
    workflow, project = load_workflow(Path(target)), load_project(Path(target))
    for warning in (*workflow.problems, *project.warnings):
        warn(f"warning: {target}: {warning}")
    return workflow, project


def _holds_steps(path: Path) -> bool:
    """Whether a file of JSON is a workflow of steps; what cannot be read is left to those who say what is wrong."""
    if path.suffix.lower() != ".json":
        return False
    try:
        found: object = json_format.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "steps" in found and "states" not in found


def read_script(path: Path | None) -> dict[str, Any] | None:
    """What states answer, from a file of JSON."""
    if path is None:
        return None
    try:
        script = json_format.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise WrongUse(f"The script {str(path)!r} cannot be read: {reason}. Give a JSON map of states.") from error
    if not isinstance(script, dict):
        raise WrongUse(f"The script {str(path)!r} is not a map. Give {{STATE: OUTPUT}}.")
    return script  # pyright: ignore[reportUnknownVariableType]


def read_text(given: Sequence[str]) -> str | None:
    """The input of a workflow: text as it stands, or the content of `@FILE`."""
    if len(given) > 1:
        raise WrongUse("A workflow has one input. Give --input once: text, JSON, or @FILE.")
    if not given or not given[0].startswith("@"):
        return given[0] if given else None
    try:
        return Path(given[0][1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise WrongUse(f"The input file {given[0][1:]!r} cannot be read: {reason}.") from error


class Told:
    """What is told of a run: one JSON object, or the result for people."""

    def __init__(self, thread_id: str, saved: Saved | None, script: Path | None, *, json_wanted: bool) -> None:
        self._thread_id = thread_id
        self._saved = saved
        self._scripted = ("--script", str(script)) if script is not None else ()
        self._json_wanted = json_wanted

    def conclude(self, app: CompiledGraph, given: Any, config: dict[str, Any]) -> NoReturn:
        """Run, tell, and leave with the exit code that says how it ended."""
        error: Exception | None = None
        try:
            _follow(app, given, config)
        except KeyboardInterrupt:
            end("Cancelled.", CANCELLED)
        except Exception as raised:
            error = raised
        snapshot = app.get_state(config)
        status = "failed" if error is not None else "waiting" if snapshot.next else "completed"
        if self._json_wanted:
            say(json_format.dumps(self._whole(status, error, snapshot.values), ensure_ascii=False, default=_plain))
        elif error is None:
            self._tell(status, snapshot.values, snapshot.next)
        if error is not None:
            ways = self._ways_on() if is_watched() else []
            told_of = ["Once that is fixed, continue with:", *ways] if ways else []
            end("\n".join([f"Error: {said(error)}", *place_lines(error), *told_of]), _code_of(error))
        if self._saved is not None and is_watched():
            warn(f"Inspect it with: {self._saved.look}")
        raise SystemExit(WAITING if status == "waiting" else DONE)

    def _ways_on(self) -> list[str]:
        """The command lines that go on with the run: as it is, or with an answer."""
        if self._saved is None:
            return []
        return [f"  {self._saved.resume(*self._scripted, *words)}" for words in ((), ("--answer", "TEXT"))]

    def _whole(self, status: str, error: Exception | None, values: Any) -> dict[str, Any]:
        return {
            "status": status,
            "error": said(error) if error is not None else None,
            "result": values.get("result"),
            "context": values.get("context"),
            "visits": values.get("visits"),
            "messages": values.get("messages"),
            "thread_id": self._thread_id,
        }

    def _tell(self, status: str, values: Any, ahead: Sequence[str]) -> None:
        result = values.get("result")
        say(result if isinstance(result, str) else json_format.dumps(result, ensure_ascii=False, indent=2))
        if status == "waiting":
            lines = [f"The run waits before {', '.join(sorted(set(ahead)))}. Continue with:", *self._ways_on()]
            warn("\n".join(lines))


def _follow(app: CompiledGraph, given: Any, config: dict[str, Any]) -> None:
    from statewright.cli.terminal import Progress

    with Progress() as progress:
        for _, part in app.stream(given, config, stream_mode=progress.modes, durability="sync"):
            progress.take(part)


def _code_of(error: Exception) -> int:
    return exit_code_of(error) if isinstance(error, InvalidConfig) else FAILED


def _plain(value: Any) -> Any:
    return value.to_dict() if hasattr(value, "to_dict") else str(value)


def run_workflow(
    target: str,
    given: Sequence[str],
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
        start = {"input": read_text(given), **({"files": list(files)} if files else {})}
        saved = (
            Saved(thread=thread, target=target, options=tuple(options), models=models.words)
            if saver is not None
            else None
        )
        Told(thread, saved, script, json_wanted=json_wanted).conclude(app, start, {**config, "thread_id": thread})


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
    """Go on with a workflow where it stopped; `answer` is `...` if none was given."""
    app = load_app(target, script, models, checkpointer=saver, max_items=max_items)
    given = cast(Any, Command)(resume=answer) if answer is not ... else None
    saved = Saved(thread=thread, target=target, options=tuple(options), models=models.words)
    Told(thread, saved, script, json_wanted=json_wanted).conclude(app, given, config)
