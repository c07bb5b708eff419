"""Checks of the contents of values: expressions, templates, schemas, MCP servers, and chains of iteration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from statewright.data.json_schema import UnusableSchema, json_schema_validator
from statewright.errors import ExpressionError
from statewright.workflow.states.expressions import parse_expression
from statewright.workflow.states.language.diagnostics import Diagnostics, Phase
from statewright.workflow.states.language.output_schema import read_json_schema
from statewright.workflow.states.language.schema.maps import ParsedMap
from statewright.workflow.states.language.yaml.nodes import Path, YamlNode, shorten
from statewright.workflow.states.templates import parse_template


def check_rules(workflow: ParsedMap, diagnostics: Diagnostics) -> None:
    """Report invalid values, and replace the text of expressions with parsed expressions."""
    _check_servers(workflow, diagnostics)
    _check_templates(workflow, diagnostics)
    _check_chains(workflow, diagnostics)
    _parse_expressions(workflow, diagnostics)


# -- expressions


def _parse_expressions(workflow: ParsedMap, diagnostics: Diagnostics) -> None:
    for state in workflow.parts("states"):
        for parsed_map, name in _iter_expressions(state):
            try:
                parsed_map.values[name] = expression = parse_expression(parsed_map.values[name])
            except ExpressionError as error:
                diagnostics.error(Phase.RULES, *parsed_map.location(name), str(error), "")
                continue
            for reason in expression.unsupported:
                message = f"This expression is always false at run time: {reason}"
                diagnostics.warn(Phase.RULES, *parsed_map.location(name), message, "")


def _iter_expressions(state: ParsedMap) -> Iterator[tuple[ParsedMap, str]]:
    """Yield the maps of a state that contain an expression, each with the key of the expression."""
    for transition in state.parts("next"):
        tests = [(condition, "expression") for condition in transition.parts("condition")]
        tests += [(case, "condition") for switch in transition.parts("switch") for case in switch.parts("cases")]
        yield from ((parsed_map, key) for parsed_map, key in tests if key in parsed_map.values)


# -- templates


def _check_templates(workflow: ParsedMap, diagnostics: Diagnostics) -> None:
    for state in workflow.parts("states"):
        if state.values.get("resolve_dynamic_values_in_prompt", True):
            _check_template(state, "task", diagnostics)
        _check_template(state, "output_schema", diagnostics)
        _check_output_schema(state, diagnostics)
        _check_template(state, "tool_args", diagnostics)
    for tool in workflow.parts("tools"):
        _check_template(tool, "tool_args", diagnostics)


def _check_template(parsed_map: ParsedMap, name: str, diagnostics: Diagnostics) -> None:
    if name not in parsed_map.values:
        return
    pending = [(parsed_map.path_to(name), parsed_map.content[parsed_map.names[name]])]
    while pending:
        path, node = pending.pop()
        content = node.content
        if isinstance(content, dict):
            pending += [((*path, key), child) for key, child in content.items()]
        elif isinstance(content, list):
            pending += [((*path, index), child) for index, child in enumerate(content)]
        elif isinstance(content, str) and "{" in content:
            _check_text(path, node, content, diagnostics)


def _check_text(path: Path, node: YamlNode, text: str, diagnostics: Diagnostics) -> None:
    """Report invalid blocks, and warn about unsupported placeholders."""
    try:
        template = parse_template(text)
    except ExpressionError as error:
        diagnostics.error(Phase.RULES, path, node.at, str(error), "")
        return
    for problem in template.errors:
        message = f"Line {problem.line} of the template: {problem.message}"
        diagnostics.error(Phase.RULES, path, node.get_mark(problem.line), message, problem.suggestion)
    for problem in template.warnings:
        message = f"A placeholder is left as written, unless a key has its name: {problem.message}"
        diagnostics.warn(Phase.RULES, path, node.get_mark(problem.line), message, problem.suggestion)


# -- schemas


def _check_output_schema(state: ParsedMap, diagnostics: Diagnostics) -> None:
    """Report a JSON Schema with an external reference, and warn about an invalid JSON Schema."""
    schema = read_json_schema(state.values.get("output_schema", ""))
    if schema is None:
        return
    path, at = state.location("output_schema")
    try:
        json_schema_validator(schema, extra="states")
    except UnusableSchema as error:
        if error.has_bad_reference:
            diagnostics.error(Phase.RULES, path, at, f"The JSON Schema cannot be used: {error}", "")
        else:
            message = f"It is not a valid JSON Schema, so answers are not validated against it: {error}"
            diagnostics.warn(Phase.RULES, path, at, message, "Correct it, or write an example of the answer.")


# -- MCP servers


def _check_servers(workflow: ParsedMap, diagnostics: Diagnostics) -> None:
    for owners, key in (("assistants", "mcp_servers"), ("tools", "mcp_server")):
        for owner in workflow.parts(owners):
            for server in owner.parts(key):
                _check_server(server, diagnostics)


def _check_server(server: ParsedMap, diagnostics: Diagnostics) -> None:
    """Report an enabled server that has neither a command nor a URL nor a config id."""
    config: ParsedMap | None = server.values.get("config")
    has_config = (config is not None and bool(config.names)) or (server.has_key("config") and config is None)
    has_name = any(server.has_key(name) and server.values.get(name) != "" for name in ("command", "mcp_config_id"))
    if server.values.get("enabled") is False or has_config or has_name:
        return
    message = f"{server.label} is enabled, but has no config with a command or a url."
    advice = "Add config: {command: ..., args: [...]} or config: {url: ...}, or write enabled: false."
    diagnostics.error(Phase.RULES, server.path, server.node.at, message, advice)


# -- chains of iteration


def _check_chains(workflow: ParsedMap, diagnostics: Diagnostics) -> None:
    """Report stages of one iteration that have different keys.

    A state with an `iter_key` is a stage of an iteration if another state leads to it with an `iter_key`. If a state
    leads to it without an `iter_key`, its own `iter_key` starts a new iteration. A stage with `finish_iteration` may
    have another key, because it splits its result again.
    """
    states = {state.values["id"]: state for state in workflow.parts("states") if "id" in state.values}
    for previous in states.values():
        target, key = _read_iteration(previous)
        stage = states.get(target) if target is not None else None
        if stage is None or stage.values.get("finish_iteration") is True:
            continue
        _, stage_key = _read_iteration(stage)
        if stage_key is not None and stage_key != key:
            _report_different_key(previous, key, stage, stage_key, diagnostics)


def _read_iteration(state: ParsedMap) -> tuple[Any, Any]:
    """Return the target and the `iter_key` of a state; None for both if it does not iterate."""
    for transition in state.parts("next"):
        key = transition.values.get("iter_key")
        if key and not transition.has_key("condition") and not transition.has_key("switch"):
            return transition.values.get("state_id"), key
    return None, None


def _report_different_key(
    previous: ParsedMap, key: str, stage: ParsedMap, stage_key: str, diagnostics: Diagnostics
) -> None:
    transition: ParsedMap = stage.values["next"]
    message = (
        f"{stage.label} has the iter_key {shorten(stage_key)!r}, but it is a stage of the iteration that "
        f"{shorten(previous.values['id'])!r} begins or continues with the iter_key {shorten(key)!r}."
    )
    advice = (
        f"Write iter_key: {shorten(key)} to continue with the same item, or finish_iteration: true in this state "
        f"to split the result of each item again."
    )
    diagnostics.error(Phase.RULES, *transition.location("iter_key"), message, advice)
