"""Workflows, loaded from YAML files and compiled to graphs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from statewright.errors import Problem, WorkflowError
from statewright.graph import Graph
from statewright.runtime import CompiledGraph
from statewright.workflow.states.compile import MAX_ITEMS, build_graph, compile_graph
from statewright.workflow.states.handlers.scripted import Script
from statewright.workflow.states.language.model import Definition
from statewright.workflow.states.language.parse import parse_workflow
from statewright.workflow.states.nodes import NodeKinds
from statewright.workflow.states.resources.chat_models import Models
from statewright.workflow.states.resources.handler_factory import HandlerFactory, Tools
from statewright.workflow.states.resources.missing import Project


class Workflow:
    """A parsed and validated workflow."""

    def __init__(self, definition: Definition, problems: Sequence[Problem] = (), *, source: str = "") -> None:
        self.definition = definition
        self.problems = tuple(problems)
        """Warnings about the file. They do not prevent a run."""
        self.source = source
        """The path of the file, for messages."""

    @property
    def name(self) -> str:
        return self.definition.name or Path(self.source).stem or "workflow"

    def compile(
        self,
        *,
        models: Models | None = None,
        tools: Tools | None = None,
        script: Script | None = None,
        project: Project | None = None,
        node_kinds: NodeKinds | None = None,
        max_items: int | None = None,
        **options: Any,
    ) -> CompiledGraph:
        """Compile the workflow to a graph: `invoke({"input": ...})` returns a `WorkflowResult`.

        `models` is a chat model, the name of a model such as `"openai:gpt-5"`, or a mapping from assistant ids and
        model names to either. These models take precedence over the models that the workflow or the project names.
        `script` contains fixed outputs of states, which then need neither a model nor a tool. `project` is the result
        of `statewright.project.load_project`. `max_items` limits the number of items of one iteration. `options` are
        those of `StateGraph.compile`: `checkpointer`, `store`, `cache` and so on.

        Raises InvalidConfig if the script names an unknown state, ModelError if a model in `models` cannot be
        connected, and MissingApiKey if the API key of such a model is not set.
        """
        handlers = HandlerFactory(
            self.definition, models=models, tools=tools, script=script, project=project, node_kinds=node_kinds
        )
        limit = max_items or (project.defaults.max_items if project is not None else None) or MAX_ITEMS
        graph = build_graph(self.definition, handlers, max_items=limit)
        return compile_graph(graph, apply_project_limits(self.definition, project), **options)

    def graph(self) -> Graph:
        """Return the graph as data, for drawings and other tools."""
        return build_graph(self.definition, HandlerFactory(self.definition)).freeze()

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the input of a run."""
        return self.compile().get_input_jsonschema()

    def __repr__(self) -> str:
        return f"<Workflow {self.name!r}: {len(self.definition.states)} states>"


def apply_project_limits(definition: Definition, project: Project | None) -> Definition:
    """Return the definition with the project's limits, unless the file sets its own."""
    default = project.defaults.max_concurrency if project is not None else None
    if default is None or "max_concurrency" in definition.explicit_keys:
        return definition
    return replace(definition, max_concurrency=default)


def load_workflow(path_or_text: str | os.PathLike[str], *, node_kinds: NodeKinds | None = None) -> Workflow:
    """Load a workflow from a file, or from YAML text. Raises WorkflowError with all problems.

    Pass `node_kinds` to allow kinds of custom nodes beyond the built-in ones.
    """
    text, source = _read_text(path_or_text)
    kinds = node_kinds or NodeKinds()
    parsed = parse_workflow(text, source=source, node_kinds=kinds.names)
    definition = parsed.expect()
    errors: list[Problem] = []
    warnings = list(parsed.warnings)
    for node in definition.custom_nodes:
        for fault in kinds.check_config(node):
            problem = fault.problem(node, ("custom_nodes", node.id))
            (errors if fault.is_error else warnings).append(problem)
    if errors:
        raise WorkflowError(errors, source=source)
    return Workflow(definition, warnings, source=source)


def _read_text(path_or_text: str | os.PathLike[str]) -> tuple[str | bytes, str]:
    """Return the text of a workflow, and the name by which messages refer to it."""
    # Every YAML map contains a line break or a colon with a space, and hardly any path does.
    if isinstance(path_or_text, str) and ("\n" in path_or_text or ": " in path_or_text):
        return path_or_text, "the workflow"
    path = Path(path_or_text)
    try:
        return path.read_bytes(), str(path)
    except OSError as error:
        problem = Problem("", 0, 0, f"The file cannot be read: {error.strerror}.", "Pass the path of a YAML file.")
        raise WorkflowError([problem], source=str(path)) from error
