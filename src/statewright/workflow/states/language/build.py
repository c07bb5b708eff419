"""Construction of the model of a workflow from the parsed maps of a valid file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from statewright.workflow.states.expressions import Expression
from statewright.workflow.states.language.diagnostics import Diagnostics, Phase
from statewright.workflow.states.language.grammar import WORKFLOW, WRAPPER
from statewright.workflow.states.language.map_schema import ParsedMap
from statewright.workflow.states.language.model import (
    Assistant,
    AssistantTool,
    Case,
    Condition,
    CustomNode,
    Definition,
    McpServer,
    Next,
    RetryRule,
    State,
    Switch,
    Tool,
)
from statewright.workflow.states.language.transitions import parts_in
from statewright.workflow.states.language.yaml.nodes import Document, Path, YamlNode, shorten

_NO_SUPERVISOR: Final = (
    "Write 'mode: Sequential', and the way as 'states': each names an assistant in assistant_id and what follows in "
    "next. Let one state decide, with the supervisor's instructions as the system_prompt of its assistant: it answers "
    '{"assistant": "..."}, and its next is a switch with a case such as assistant == \'first\' for each of the others, '
    "which lead back to it."
)


@dataclass(frozen=True, slots=True)
class WorkflowParts:
    """The workflow of a file, and its metadata."""

    workflow: ParsedMap
    about: dict[str, Any]
    """Metadata of the workflow: name, slug and so on; the wrapper takes precedence."""


def read_workflow_parts(document: Document, diagnostics: Diagnostics) -> WorkflowParts | None:
    """Check the structure of a file. Return None if there is no workflow to check further."""
    root = document.root
    if root is None or root.broken or root.content is None:
        return None
    if not isinstance(root.content, dict):
        what = "a list" if isinstance(root.content, list) else f"the text {shorten(root.source)!r}"
        message = f"The file contains {what}. A workflow is a map with the key 'states'."
        diagnostics.error(Phase.FORM, (), root.at, message, "Write 'states:' with a list of states.")
        return None
    return None if _is_autonomous(root.content, diagnostics) else _read_map(root, root.content, diagnostics)


def _is_autonomous(content: dict[str, YamlNode], diagnostics: Diagnostics, path: Path = ()) -> bool:
    """Report a workflow in the mode Autonomous, and return whether it is one."""
    mode, inner = content.get("mode"), content.get("execution_config")
    if mode is not None and isinstance(mode.content, str) and mode.content.lower() == "autonomous":
        message = "In the mode Autonomous a supervisor chooses the next assistant. It is deprecated and not supported."
        diagnostics.error(Phase.FORM, (*path, "mode"), mode.at, message, _NO_SUPERVISOR)
        return True
    if path or inner is None or not isinstance(inner.content, dict):
        return False
    return _is_autonomous(inner.content, diagnostics, ("execution_config",))


def _read_map(root: YamlNode, content: dict[str, YamlNode], diagnostics: Diagnostics) -> WorkflowParts | None:
    inner = content.get("execution_config")
    if inner is None or (inner.content is None and not inner.broken):
        part: ParsedMap = WORKFLOW.read(root, (), diagnostics)
        return WorkflowParts(part, part.values)
    outside: ParsedMap = WRAPPER.read(root, (), diagnostics)
    workflow = outside.values.get("execution_config")
    return WorkflowParts(workflow, {**workflow.values, **outside.values}) if workflow is not None else None


# -- the definition

_SETTINGS: Final = (
    "slug",
    "mode",
    "icon_url",
    "start_hint",
    "supervisor_prompt",
    "video_link",
    "type",
    "verbose",
    "max_iteration_key_output_limit",
)
_LIMITS: Final = (
    "messages_limit_before_summarization",
    "tokens_limit_before_summarization",
    "enable_summarization_node",
    "recursion_limit",
    "max_concurrency",
)

Expressions = Mapping[Path, Expression]


def build_definition(shape: WorkflowParts, expressions: Expressions) -> Definition:
    """Build the model of a valid workflow."""
    workflow = shape.workflow
    return Definition(
        states=tuple(_state(part, expressions) for part in parts_in(workflow, "states")),
        assistants=tuple(map(_assistant, parts_in(workflow, "assistants"))),
        tools=tuple(map(_tool, parts_in(workflow, "tools"))),
        custom_nodes=tuple(map(_custom_node, parts_in(workflow, "custom_nodes"))),
        retry_policy=_retry_rule(workflow),
        leaves_open=frozenset(_LIMITS) - workflow.values.keys(),
        settings=_some(shape.about, *_SETTINGS),
        **_some(shape.about, "name", "description"),
        **_some(workflow.values, *_LIMITS),
    )


def _some(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: values[name] for name in names if name in values}


def _others(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in names}


def _retry_rule(above: ParsedMap) -> RetryRule:
    part: ParsedMap | None = above.values.get("retry_policy")
    return RetryRule(**part.values) if part is not None else RetryRule()


def _state(part: ParsedMap, expressions: Expressions) -> State:
    return State(
        next=_next(part.values["next"], expressions),
        retry_policy=_retry_rule(part),
        at=part.written.at,
        **_others(part.values, "next", "retry_policy"),
    )


def _next(part: ParsedMap, expressions: Expressions) -> Next:
    values = _others(part.values, "condition", "switch")
    condition: ParsedMap | None = part.values.get("condition")
    switch: ParsedMap | None = part.values.get("switch")
    if condition is not None or switch is not None:
        values.pop("state_id", None)
    return Next(
        condition=_condition(condition, expressions) if condition is not None else None,
        switch=_switch(switch, expressions) if switch is not None else None,
        at=part.written.at,
        **values,
    )


def _condition(part: ParsedMap, expressions: Expressions) -> Condition:
    return Condition(
        expression=expressions[part.path_to("expression")],
        at=part.written.at,
        **_others(part.values, "expression"),
    )


def _switch(part: ParsedMap, expressions: Expressions) -> Switch:
    cases = tuple(
        Case(expressions[case.path_to("condition")], case.values["state_id"], case.written.at)
        for case in parts_in(part, "cases")
    )
    return Switch(cases, part.values["default"], part.written.at)


def _assistant(part: ParsedMap) -> Assistant:
    return Assistant(
        tools=tuple(AssistantTool(at=tool.written.at, **tool.values) for tool in parts_in(part, "tools")),
        mcp_servers=tuple(map(_server, parts_in(part, "mcp_servers"))),
        at=part.written.at,
        **_others(part.values, "tools", "mcp_servers"),
    )


def _tool(part: ParsedMap) -> Tool:
    server: ParsedMap | None = part.values.get("mcp_server")
    pointer = part.values.get("tool_result_json_pointer") or None
    return Tool(
        mcp_server=_server(server) if server is not None else None,
        tool_result_json_pointer=pointer,
        at=part.written.at,
        **_others(part.values, "mcp_server", "tool_result_json_pointer"),
    )


def _server(part: ParsedMap) -> McpServer:
    config: ParsedMap | None = part.values.get("config")
    return McpServer(
        name=part.values["name"],
        enabled=part.values.get("enabled", True),
        config=config.written.plain() if config is not None else {},
        settings=_others(part.values, "name", "enabled", "config"),
        at=part.written.at,
    )


def _custom_node(part: ParsedMap) -> CustomNode:
    return CustomNode(
        kind=part.values.get("custom_node_id", part.values["id"]),
        at=part.written.at,
        **_others(part.values, "custom_node_id"),
    )
