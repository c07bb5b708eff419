"""Workflow files loaded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from statewright.errors import Problem, WorkflowError
from statewright.graph import Graph
from statewright.runtime import CompiledGraph
from statewright.workflow.states.compile import MAX_ITEMS, compiled, graph_of
from statewright.workflow.states.handlers.scripted import Script
from statewright.workflow.states.language.model import CustomNode, Definition
from statewright.workflow.states.language.parse import parse_workflow
from statewright.workflow.states.language.yaml.nodes import path_text
from statewright.workflow.states.nodes import ConfigFault, NodeKinds
from statewright.workflow.states.resources.chat_models import Models
from statewright.workflow.states.resources.handler_factory import Resources, Tools
from statewright.workflow.states.resources.missing import Project


class Workflow:
    """A workflow that was read and found to be in order."""

    def __init__(self, definition: Definition, problems: Sequence[Problem] = (), *, source: str = "") -> None:
        self.definition = definition
        self.problems = tuple(problems)
        """What is odd about the file, though it can be run."""
        self.source = source

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
        """The workflow as a graph that can be run: `invoke({"input": ...})` gives `WorkflowResult`.

        `models` is a chat model or the name of one, as in `"openai:gpt-5"`, or several by the ids of assistants or the
        names of models; they count before what files say. `script` gives outputs of states, so that they need no model
        and no tool. `project` is what `statewright.project.load_project` gives.
        `max_items` is how many items one result may be split into. `options` are those of `StateGraph.compile`:
        `checkpointer`, `store`, `cache` and so on. Raises InvalidConfig for a script that names no state,
        ModelError for a model in `models` that cannot be connected, and MissingKey for one without a key.
        """
        resources = Resources(
            self.definition, models=models, tools=tools, script=script, project=project, node_kinds=node_kinds
        )
        most = max_items or (project.defaults.max_items if project is not None else None) or MAX_ITEMS
        graph = graph_of(self.definition, resources, max_items=most)
        return compiled(graph, within(self.definition, project), **options)

    def graph(self) -> Graph:
        """The graph as data: for drawings and other tools."""
        return graph_of(self.definition, Resources(self.definition)).freeze()

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of what a run is given."""
        return compiled(graph_of(self.definition, Resources(self.definition)), self.definition).get_input_jsonschema()

    def __repr__(self) -> str:
        return f"<Workflow {self.name!r}: {len(self.definition.states)} states>"


def within(definition: Definition, project: Project | None) -> Definition:
    """The workflow with what a project says about limits that it leaves open itself."""
    usual = project.defaults.max_concurrency if project is not None else None
    if usual is None or "max_concurrency" not in definition.leaves_open:
        return definition
    return replace(definition, max_concurrency=usual)


def load_workflow(path_or_text: str | os.PathLike[str], *, node_kinds: NodeKinds | None = None) -> Workflow:
    """The workflow in a file, or in a text of several lines. Raises WorkflowError with everything that is wrong.

    `node_kinds` are the kinds of custom nodes, if there are others than those of the language.
    """
    text, source = _read(path_or_text)
    kinds = node_kinds or NodeKinds()
    parsed = parse_workflow(text, source=source, node_kinds=kinds.names)
    definition = parsed.expect()
    faults = [(fault, node) for node in definition.custom_nodes for fault in kinds.check_config(node)]
    wrong = [_problem(fault, node) for fault, node in faults if fault.is_error]
    if wrong:
        raise WorkflowError(wrong, source=source)
    odd = [_problem(fault, node) for fault, node in faults]
    return Workflow(definition, (*parsed.warnings, *odd), source=source)


def _problem(fault: ConfigFault, node: CustomNode) -> Problem:
    path = path_text(("custom_nodes", node.id, *fault.path))
    return Problem(path, node.at.line, node.at.column, fault.message, fault.suggestion)


def _read(path_or_text: str | os.PathLike[str]) -> tuple[str | bytes, str]:
    if isinstance(path_or_text, str) and ("\n" in path_or_text or ": " in path_or_text):
        return path_or_text, "the workflow"
    path = Path(path_or_text)
    try:
        return path.read_bytes(), str(path)
    except OSError as error:
        found = Problem("", 0, 0, f"The file cannot be read: {error.strerror}.", "Give the path of a YAML file.")
        raise WorkflowError([found], source=str(path)) from error
