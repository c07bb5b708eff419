"""Parsing of workflow files: from the text to the definition, reporting all problems at once."""

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

_INNER: Final = "execution_config"
_WITHOUT_SUPERVISOR: Final = (
    "Write 'mode: Sequential', and the steps as 'states': each names an assistant in assistant_id and its successor in "
    "next. Let one state decide, with the supervisor's instructions as the system_prompt of its assistant: it answers "
    '{"assistant": "..."}, and its next is a switch with a case such as assistant == \'first\' for each of the others, '
    "which lead back to it."
)


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
    """Return the workflow of a file, or None if there is nothing to check further, and the metadata of its wrapper."""
    root = document.root
    if root is None or root.broken or root.content is None:
        return None, {}
    if not isinstance(root.content, dict):
        value = "a list" if isinstance(root.content, list) else f"the text {shorten(root.source)!r}"
        message = f"The file contains {value}. A workflow is a map with the key 'states'."
        diagnostics.error(Phase.FORM, (), root.at, message, "Write 'states:' with a list of states.")
        return None, {}
    if _is_autonomous(root.content, diagnostics):
        return None, {}
    inner = root.content.get(_INNER)
    if inner is None or (inner.content is None and not inner.broken):
        return cast(ParsedMap, Definition.schema.read(root, (), diagnostics)), {}
    wrapper = cast(ParsedMap, WrappedDefinition.schema.read(root, (), diagnostics))
    return wrapper.values.pop(_INNER, None), wrapper.values


def _is_autonomous(content: dict[str, YamlNode], diagnostics: Diagnostics, path: Path = ()) -> bool:
    """Report a workflow in the mode Autonomous, and return whether it is one."""
    mode, inner = content.get("mode"), content.get(_INNER)
    if mode is not None and isinstance(mode.content, str) and mode.content.lower() == "autonomous":
        message = "In the mode Autonomous a supervisor chooses the next assistant. It is deprecated and not supported."
        diagnostics.error(Phase.FORM, (*path, "mode"), mode.at, message, _WITHOUT_SUPERVISOR)
        return True
    if path or inner is None or not isinstance(inner.content, dict):
        return False
    return _is_autonomous(inner.content, diagnostics, (_INNER,))


# -- the model


def _build(value: Any) -> Any:
    """Build the part of the model that a valid map declares."""
    if isinstance(value, tuple):
        return tuple(map(_build, cast("tuple[Any, ...]", value)))
    if not isinstance(value, ParsedMap):
        return value
    fields: dict[str, Any] = {"at": value.node.at} if hasattr(value.schema.model, "at") else {}
    settings: dict[str, Any] = {}
    for name, child in value.values.items():
        key = value.schema.by_name[name]
        if key.field and key.is_raw and isinstance(child, ParsedMap):
            fields[key.field] = child.node.plain()
        elif key.field:
            fields[key.field] = _build(child)
        else:
            settings[name] = child
    return value.schema.model(**fields, **({"settings": settings} if settings else {}))
