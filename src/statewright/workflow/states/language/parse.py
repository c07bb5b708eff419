"""Parsing of workflow files: from the text to the definition, reporting all problems at once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from statewright.errors import Problem, WorkflowError
from statewright.workflow.states.language.build import build_definition, read_workflow_parts
from statewright.workflow.states.language.diagnostics import Diagnostics
from statewright.workflow.states.language.graph import check_graph
from statewright.workflow.states.language.model import Definition
from statewright.workflow.states.language.references import NODE_KINDS, check_references
from statewright.workflow.states.language.rules import check_rules
from statewright.workflow.states.language.transitions import check_transitions
from statewright.workflow.states.language.yaml.read import read_document


@dataclass(frozen=True, slots=True)
class Parsed:
    """The result of parsing a workflow file."""

    definition: Definition | None
    """None if there is a problem."""
    problems: tuple[Problem, ...]
    """Sorted by phase, then by position in the file."""
    warnings: tuple[Problem, ...]
    """Accepted, but probable mistakes; in the same order."""
    source: str = "the workflow"

    def expect(self) -> Definition:
        """Return the definition. Raises WorkflowError with all problems if there is none."""
        if self.definition is None:
            raise WorkflowError(self.problems, source=self.source)
        return self.definition


def parse_workflow(
    text: str | bytes, *, source: str = "the workflow", node_kinds: Collection[str] = NODE_KINDS
) -> Parsed:
    """Parse a workflow of states. Never raises, whatever the text is.

    `node_kinds` are the supported kinds of custom nodes.
    """
    diagnostics = Diagnostics()
    definition = _read(text, node_kinds, diagnostics)
    return Parsed(None if diagnostics.has_problems else definition, diagnostics.problems, diagnostics.warnings, source)


def _read(text: str | bytes, node_kinds: Collection[str], diagnostics: Diagnostics) -> Definition | None:
    document = read_document(text)
    diagnostics.add_syntax(document.problems)
    shape = read_workflow_parts(document, diagnostics)
    if shape is None:
        return None
    check_transitions(shape.workflow, diagnostics)
    check_references(shape.workflow, node_kinds, diagnostics)
    expressions = check_rules(shape.workflow, diagnostics)
    if diagnostics.has_problems:
        return None
    definition = build_definition(shape, expressions)
    check_graph(definition, diagnostics, shape.workflow.path_to("states"))
    return definition
