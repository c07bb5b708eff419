"""The outside of a workflow file: bare, or wrapped in what is said about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from statewright.workflow.states.document import Document, Path, YamlNode, shortened
from statewright.workflow.states.findings import Diagnostics, Phase
from statewright.workflow.states.parse.form import Part
from statewright.workflow.states.parse.forms import WORKFLOW, WRAPPER

_NO_SUPERVISOR: Final = (
    "Write 'mode: Sequential', and the way as 'states': each names an assistant in assistant_id and what follows in "
    "next. Let one state decide, with the supervisor's instructions as the system_prompt of its assistant: it answers "
    '{"assistant": "..."}, and its next is a switch with a case such as assistant == \'first\' for each of the others, '
    "which lead back to it."
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The parts of a file."""

    workflow: Part
    about: dict[str, Any]
    """What is said about the workflow: name, slug and so on; what is said outside wins."""


def read_shape(document: Document, findings: Diagnostics) -> Shape | None:
    """The form phase of a whole file. None if there is no workflow in it to be looked at any further."""
    root = document.root
    if root is None or root.broken or root.content is None:
        return None
    if not isinstance(root.content, dict):
        what = "a list" if isinstance(root.content, list) else f"the text {shortened(root.source)!r}"
        message = f"The file holds {what}. A workflow is a map with the key 'states'."
        findings.error(Phase.FORM, (), root.at, message, "Write 'states:' with a list of states.")
        return None
    return None if _is_autonomous(root.content, findings) else _read_map(root, root.content, findings)


def _is_autonomous(content: dict[str, YamlNode], findings: Diagnostics, path: Path = ()) -> bool:
    """Whether a supervisor chooses the way, which is reported."""
    mode, inner = content.get("mode"), content.get("execution_config")
    if mode is not None and isinstance(mode.content, str) and mode.content.lower() == "autonomous":
        message = "In the mode Autonomous a supervisor chooses what follows. It is deprecated and not supported."
        findings.error(Phase.FORM, (*path, "mode"), mode.at, message, _NO_SUPERVISOR)
        return True
    if path or inner is None or not isinstance(inner.content, dict):
        return False
    return _is_autonomous(inner.content, findings, ("execution_config",))


def _read_map(root: YamlNode, content: dict[str, YamlNode], findings: Diagnostics) -> Shape | None:
    inner = content.get("execution_config")
    if inner is None or (inner.content is None and not inner.broken):
        part: Part = WORKFLOW.read(root, (), findings)
        return Shape(part, part.values)
    outside: Part = WRAPPER.read(root, (), findings)
    workflow = outside.values.get("execution_config")
    return Shape(workflow, {**workflow.values, **outside.values}) if workflow is not None else None
