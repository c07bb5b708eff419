"""Parsing of workflow files, from their text to a definition. All problems are reported together."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from statewright.errors import Problem, WorkflowError
from statewright.workflow.states.language.checks.references import NODE_KINDS, check_references
from statewright.workflow.states.language.checks.rules import check_rules
from statewright.workflow.states.language.checks.transitions import check_graph, check_transitions
from statewright.workflow.states.language.diagnostics import Diagnostics, Phase
from statewright.workflow.states.language.model import Definition, WrappedDefinition
from statewright.workflow.states.language.schema.maps import ParsedMap
from statewright.workflow.states.language.yaml.nodes import Document, Path, YamlNode, shorten
from statewright.workflow.states.language.yaml.read import read_document

_WRAPPED_KEY: Final = "execution_config"
_SUPERVISOR_ADVICE: Final = (
    "Write 'mode: Sequential', and a list of 'states', each with its assistant in assistant_id and its successor in "
    "next. Let one state decide: give the supervisor's instructions to its assistant as the system_prompt, let it "
    'answer {"assistant": "..."}, and make its next a switch with a case such as assistant == \'first\' for each other '
    "state, which leads back to it."
)


@dataclass(frozen=True, slots=True)
class ParsedWorkflow:
    """The result of parsing a workflow file."""

    definition: Definition | None
    """None if there are problems."""
    problems: tuple[Problem, ...]
    """Problems sorted by phase, then by position in the file."""
    warnings: tuple[Problem, ...]
    """Accepted parts of the file that are probably mistakes, in the same order."""
    source: str = "the workflow"

    def expect(self) -> Definition:
        """Return the definition. Raises WorkflowError with all problems if there are any."""
        if self.definition is None:
            raise WorkflowError(self.problems, source=self.source)
        return self.definition


def parse_workflow(
    text: str | bytes, *, source: str = "the workflow", node_kinds: Collection[str] = NODE_KINDS
) -> ParsedWorkflow:
    """Parse a workflow of states. Never raises; problems of the file are part of the result.

    `node_kinds` are the supported kinds of custom nodes.
    """
    diagnostics = Diagnostics()
    definition = _read_definition(text, node_kinds, diagnostics)
    return ParsedWorkflow(
        None if diagnostics.has_problems else definition, diagnostics.problems, diagnostics.warnings, source
    )


def _read_definition(text: str | bytes, node_kinds: Collection[str], diagnostics: Diagnostics) -> Definition | None:
    document = read_document(text)
    diagnostics.add_syntax(document.problems)
    workflow, metadata = _read_workflow(document, diagnostics)
    if workflow is None:
        return None
    check_transitions(workflow, diagnostics)
    check_references(workflow, node_kinds, diagnostics)
    check_rules(workflow, diagnostics)
    if diagnostics.has_problems:
        return None
    workflow.values.update(metadata)
    definition: Definition = _build(workflow)
    definition = replace(definition, explicit_keys=frozenset(workflow.values))
    check_graph(definition, diagnostics, workflow.path_to("states"))
    return definition


# -- the outer structure of a file


def _read_workflow(document: Document, diagnostics: Diagnostics) -> tuple[ParsedMap | None, Mapping[str, Any]]:
    """Return the workflow of a file, and the metadata of its wrapper. The workflow is None if it cannot be checked."""
    root = document.root
    if root is None or root.broken or root.content is None:
        return None, {}
    if not isinstance(root.content, dict):
        value = "a list" if isinstance(root.content, list) else f"the text {shorten(root.source)!r}"
        message = f"The file contains {value}. A workflow is a map with the key 'states'."
        diagnostics.error(Phase.FORM, (), root.at, message, "Write 'states:' with a list of states.")
        return None, {}
    if _report_autonomous(root.content, diagnostics):
        return None, {}
    inner = root.content.get(_WRAPPED_KEY)
    if inner is None or (inner.content is None and not inner.broken):
        return cast(ParsedMap, Definition.schema.read(root, (), diagnostics)), {}
    wrapper = cast(ParsedMap, WrappedDefinition.schema.read(root, (), diagnostics))
    return wrapper.values.pop(_WRAPPED_KEY, None), wrapper.values


def _report_autonomous(content: dict[str, YamlNode], diagnostics: Diagnostics, path: Path = ()) -> bool:
    """Report an error if a workflow has the mode Autonomous. Return whether it has this mode."""
    mode, inner = content.get("mode"), content.get(_WRAPPED_KEY)
    if mode is not None and isinstance(mode.content, str) and mode.content.lower() == "autonomous":
        message = "In the mode Autonomous a supervisor chooses the next assistant. It is deprecated and not supported."
        diagnostics.error(Phase.FORM, (*path, "mode"), mode.at, message, _SUPERVISOR_ADVICE)
        return True
    if path or inner is None or not isinstance(inner.content, dict):
        return False
    return _report_autonomous(inner.content, diagnostics, (_WRAPPED_KEY,))


# -- the model


def _build(value: Any) -> Any:
    """Build the dataclasses of the model from valid maps. Other values are returned unchanged."""
    if isinstance(value, tuple):
        return tuple(map(_build, cast("tuple[Any, ...]", value)))
    if not isinstance(value, ParsedMap):
        return value
    fields: dict[str, Any] = {"at": value.node.at} if hasattr(value.schema.model, "at") else {}
    settings: dict[str, Any] = {}
    for name, child in value.values.items():
        key = value.schema.by_name[name]
        if key.field and key.is_raw and isinstance(child, ParsedMap):
            fields[key.field] = child.node.to_plain()
        elif key.field:
            fields[key.field] = _build(child)
        else:
            settings[name] = child
    return value.schema.model(**fields, **({"settings": settings} if settings else {}))
