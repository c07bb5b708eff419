"""Rules of the language that concern what values mean: expressions, MCP servers, chains of iteration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from statewright.errors import ExpressionError
from statewright.json_schema import UnusableSchema, json_schema_validator
from statewright.workflow.states.expressions import Expression, parse_expression
from statewright.workflow.states.language.diagnostics import Diagnostics, Phase
from statewright.workflow.states.language.map_schema import Part
from statewright.workflow.states.language.output_schema import schema_in
from statewright.workflow.states.language.transitions import parts_in
from statewright.workflow.states.language.yaml.nodes import Path, YamlNode, shortened
from statewright.workflow.states.templates import parse_template


def check_rules(workflow: Part, findings: Diagnostics) -> dict[Path, Expression]:
    """Note what breaks a rule. The answer is the expressions that can be read, by their places."""
    _check_servers(workflow, findings)
    _check_templates(workflow, findings)
    _check_chains(workflow, findings)
    return dict(_read_expressions(workflow, findings))


# -- expressions


def _read_expressions(workflow: Part, findings: Diagnostics) -> Iterator[tuple[Path, Expression]]:
    for state in parts_in(workflow, "states"):
        way: Part | None = state.values.get("next")
        for part, name in _tests_of(way) if way is not None else ():
            try:
                expression = parse_expression(part.values[name])
            except ExpressionError as error:
                findings.error(Phase.RULES, part.path_to(name), part.at(name), str(error), "")
                continue
            for reason in expression.unsupported:
                message = f"At run time this expression counts as false: {reason}"
                findings.warn(Phase.RULES, part.path_to(name), part.at(name), message, "")
            yield part.path_to(name), expression


def _tests_of(way: Part) -> Iterator[tuple[Part, str]]:
    """The maps that hold an expression, each with its key."""
    condition: Part | None = way.values.get("condition")
    if condition is not None and "expression" in condition.values:
        yield condition, "expression"
    switch: Part | None = way.values.get("switch")
    for case in parts_in(switch, "cases") if switch is not None else ():
        if "condition" in case.values:
            yield case, "condition"


# -- templates


def _check_templates(workflow: Part, findings: Diagnostics) -> None:
    for state in parts_in(workflow, "states"):
        if state.values.get("resolve_dynamic_values_in_prompt", True):
            _check_template(state, "task", findings)
        _check_template(state, "output_schema", findings)
        _check_output_schema(state, findings)
        _check_template(state, "tool_args", findings)
    for tool in parts_in(workflow, "tools"):
        _check_template(tool, "tool_args", findings)


def _check_template(part: Part, name: str, findings: Diagnostics) -> None:
    if name not in part.values:
        return
    waiting = [(part.path_to(name), part.content[part.names[name]])]
    while waiting:
        path, written = waiting.pop()
        content = written.content
        if isinstance(content, dict):
            waiting += [((*path, key), child) for key, child in content.items()]
        elif isinstance(content, list):
            waiting += [((*path, index), child) for index, child in enumerate(content)]
        elif isinstance(content, str) and "{" in content:
            _check_text(path, written, content, findings)


def _check_text(path: Path, written: YamlNode, text: str, findings: Diagnostics) -> None:
    """Report blocks that cannot be rendered, and warn of placeholders that are not understood."""
    try:
        template = parse_template(text)
    except ExpressionError as error:
        findings.error(Phase.RULES, path, written.at, str(error), "")
        return
    for problem in template.errors:
        message = f"Line {problem.line} of the template: {problem.message}"
        findings.error(Phase.RULES, path, written.mark_of(problem.line), message, problem.suggestion)
    for problem in template.warnings:
        message = f"A placeholder stays as it is written, unless a key has its name: {problem.message}"
        findings.warn(Phase.RULES, path, written.mark_of(problem.line), message, problem.suggestion)


# -- schemas


def _check_output_schema(state: Part, findings: Diagnostics) -> None:
    """Report a JSON Schema with a reference that leads out of it, and warn of one that is not valid."""
    schema = schema_in(state.values.get("output_schema", ""))
    if schema is None:
        return
    path, at = state.path_to("output_schema"), state.at("output_schema")
    try:
        json_schema_validator(schema, extra="states")
    except UnusableSchema as error:
        if error.has_bad_reference:
            findings.error(Phase.RULES, path, at, f"The JSON Schema cannot be used: {error}", "")
        else:
            message = f"This is not a valid JSON Schema, so it is only shown to the model: {error}"
            findings.warn(Phase.RULES, path, at, message, "Correct it, or write an example of the answer.")


# -- MCP


def _check_servers(workflow: Part, findings: Diagnostics) -> None:
    for assistant in parts_in(workflow, "assistants"):
        for server in parts_in(assistant, "mcp_servers"):
            _check_server(server, findings)
    for tool in parts_in(workflow, "tools"):
        if "mcp_server" in tool.values:
            _check_server(tool.values["mcp_server"], findings)


def _check_server(server: Part, findings: Diagnostics) -> None:
    """A server that is on must say how it is started or reached; an empty config does not."""
    config: Part | None = server.values.get("config")
    has_config = (config is not None and bool(config.names)) or (server.given("config") and config is None)
    if server.values.get("enabled") is False or has_config or _is_named(server):
        return
    message = f"{server.label} is enabled, and does not say how it is started or reached."
    advice = "Add config: {command: ..., args: [...]} or config: {url: ...}, or write enabled: false."
    findings.error(Phase.RULES, server.path, server.written.at, message, advice)


def _is_named(server: Part) -> bool:
    return any(server.given(name) and server.values.get(name) != "" for name in ("command", "mcp_config_id"))


# -- chains


def _check_chains(workflow: Part, findings: Diagnostics) -> None:
    """All stages of an iteration carry one key, unless a stage ends its item to split anew.

    A state is a stage where another one leads to it with `iter_key`; it goes on with the iteration by an `iter_key`
    of its own. A state that others lead to without one is no stage for them: its key begins an iteration.
    """
    states = {state.values["id"]: state for state in parts_in(workflow, "states") if "id" in state.values}
    for before in states.values():
        target, key = _iteration(before)
        stage = states.get(target) if target is not None else None
        if stage is None or stage.values.get("finish_iteration") is True:
            continue
        _, own = _iteration(stage)
        if own is not None and own != key:
            _note_other_key(before, key, stage, own, findings)


def _iteration(state: Part) -> tuple[Any, Any]:
    """The target and the key of a transition that iterates; None for each that is not there."""
    way: Part | None = state.values.get("next")
    if way is None or way.given("condition") or way.given("switch") or not way.values.get("iter_key"):
        return None, None
    return way.values.get("state_id"), way.values["iter_key"]


def _note_other_key(before: Part, key: str, stage: Part, own: str, findings: Diagnostics) -> None:
    way: Part = stage.values["next"]
    message = (
        f"{stage.label} goes on with iter_key {shortened(own)!r}, but it is a stage of the iteration that "
        f"{shortened(before.values['id'])!r} begins or continues with iter_key {shortened(key)!r}."
    )
    advice = (
        f"Write iter_key: {shortened(key)} to go on with the same item, or finish_iteration: true in this state "
        f"to split the result of each item again."
    )
    findings.error(Phase.RULES, way.path_to("iter_key"), way.at("iter_key"), message, advice)
