"""Loading of workflow files: as a graph, with scripted outputs, models and the resources of its project."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from statewright.cli.console.failure import UsageError
from statewright.cli.console.printing import warn
from statewright.cli.workflow.inputs import read_file
from statewright.cli.workflow.models import Models, connect_assistant_models
from statewright.errors import Problem
from statewright.project import Project, load_project
from statewright.runtime import CompiledGraph

if TYPE_CHECKING:
    from statewright.workflow.states import Workflow

SUFFIXES: Final = (".yaml", ".yml", ".json")


def is_workflow(target: str) -> bool:
    """Return True for a workflow file, as opposed to a Python file with a graph."""
    return Path(target).suffix.lower() in SUFFIXES


def load_app(target: str, script: Path | None = None, models: Models | None = None, **options: Any) -> CompiledGraph:
    """Load a workflow file as a graph. Without `models` it is for inspection, and no model is connected.

    Raises WorkflowError, and UsageError for an invalid script or a model that cannot be connected.
    """
    workflow, project = _load(target)
    outputs = read_script(script) if script is not None else None
    chat_models = connect_assistant_models(workflow.definition, project, models) if models is not None else None
    return workflow.compile(models=chat_models, script=outputs, project=project, **options)


def check_app(target: str) -> tuple[CompiledGraph, Sequence[Problem]]:
    """Load a workflow file for inspection, with problems for resources that its project lacks.

    Raises WorkflowError.
    """
    workflow, project = _load(target)
    # Imported after a missing extra has been reported.
    from statewright.workflow.states.resources.missing import missing_resources

    return workflow.compile(project=project), missing_resources(workflow.definition, project)


def _load(target: str) -> tuple[Workflow, Project]:
    """Load a workflow file and its project, and print their warnings."""
    from statewright.workflow.states import load_workflow  # needs the extra `states`

    path = Path(target)
    if is_steps_file(path):
        raise UsageError(
            f"{target!r} is a workflow of steps, which runs on a server. Check it with `statewright definitions "
            f"check`, or serve it with `statewright dev {target}`."
        )
    workflow, project = load_workflow(path), load_project(path)
    for warning in (*workflow.problems, *project.warnings):
        warn(f"warning: {target}: {warning}")
    return workflow, project


def is_steps_file(path: Path, *, default: bool = False) -> bool:
    """Return True for a workflow of steps in JSON, and `default` for JSON that is invalid or neither steps nor states.

    The default decides which loader reports the problem.
    """
    if path.suffix.lower() != ".json":
        return False
    try:
        document: object = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return default
    is_steps, is_states = (isinstance(document, dict) and key in document for key in ("steps", "states"))
    return default if is_steps == is_states else is_steps


def read_script(path: Path) -> dict[str, Any]:
    """Read the scripted outputs of states from a JSON file. Raises UsageError."""
    text = read_file(path, "script")
    try:
        script: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"The script {str(path)!r} is not valid JSON: {error}. Give {{STATE: OUTPUT}}.") from error
    if not isinstance(script, dict):
        raise UsageError(f"The script {str(path)!r} is not a JSON object. Give {{STATE: OUTPUT}}.")
    return script  # pyright: ignore[reportUnknownVariableType]
