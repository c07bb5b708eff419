"""Parsing of workflow files: from the text to the definition, reporting all problems at once."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from statewright.errors import Problem, WorkflowError
from statewright.workflow.states.language.build import build_definition, read_shape
from statewright.workflow.states.language.diagnostics import Diagnostics
from statewright.workflow.states.language.graph import check_graph
from statewright.workflow.states.language.model import Definition
from statewright.workflow.states.language.references import NODE_KINDS, check_references
from statewright.workflow.states.language.rules import check_rules
from statewright.workflow.states.language.transitions import check_transitions
from statewright.workflow.states.language.yaml.read import read_document


@dataclass(frozen=True, slots=True)
class Parsed:
    """What came of a workflow file."""

    definition: Definition | None
    """None if there is a problem."""
    problems: tuple[Problem, ...]
    """By the phase in which they are checked, then in the order of the file."""
    warnings: tuple[Problem, ...]
    """What is accepted, and probably not what was meant; in the same order."""
    source: str = "the workflow"

    def expect(self) -> Definition:
        """The definition. Raises WorkflowError with all problems if there is none."""
        if self.definition is None:
            raise WorkflowError(self.problems, source=self.source)
        return self.definition


def parse_workflow(
    text: str | bytes, *, source: str = "the workflow", node_kinds: Collection[str] = NODE_KINDS
) -> Parsed:
    """What a text says as a workflow of states. Never raises, whatever the text is.

    `node_kinds` are the kinds of custom nodes that can be run.
    """
    findings = Diagnostics()
    definition = _read(text, node_kinds, findings)
    return Parsed(None if findings.has_problems else definition, findings.problems, findings.warnings, source)


def _read(text: str | bytes, node_kinds: Collection[str], findings: Diagnostics) -> Definition | None:
    document = read_document(text)
    findings.add_syntax(document.problems)
    shape = read_shape(document, findings)
    if shape is None:
        return None
    check_transitions(shape.workflow, findings)
    check_references(shape.workflow, node_kinds, findings)
    expressions = check_rules(shape.workflow, findings)
    if findings.has_problems:
        return None
    definition = build_definition(shape, expressions)
    check_graph(definition, findings, shape.workflow.path_to("states"))
    return definition
