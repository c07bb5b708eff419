"""Rules of the language that concern what values mean: expressions, MCP servers, chains of iteration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from statewright.errors import ExpressionError
from statewright.workflow.states.document import Path, shortened
from statewright.workflow.states.expressions import Expression, parse_expression
from statewright.workflow.states.findings import Findings, Phase
from statewright.workflow.states.parse.form import Part
from statewright.workflow.states.parse.transitions import parts_in


def check_rules(workflow: Part, findings: Findings) -> dict[Path, Expression]:
    """Note what breaks a rule. The answer is the expressions that can be read, by their places."""
    _check_servers(workflow, findings)
    _check_chains(workflow, findings)
    return dict(_read_expressions(workflow, findings))


# -- expressions


def _read_expressions(workflow: Part, findings: Findings) -> Iterator[tuple[Path, Expression]]:
    for state in parts_in(workflow, "states"):
        way: Part | None = state.values.get("next")
        for part, name in _tests_of(way) if way is not None else ():
            try:
                expression = parse_expression(part.values[name])
            except ExpressionError as error:
                findings.error(Phase.RULES, part.path_to(name), part.at(name), str(error), "")
                continue
            for reason in expression.unsupported:
                message = f"At run time this expression counts as false. {reason}"
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


# -- MCP


def _check_servers(workflow: Part, findings: Findings) -> None:
    for assistant in parts_in(workflow, "assistants"):
        for server in parts_in(assistant, "mcp_servers"):
            _check_server(server, findings)
    for tool in parts_in(workflow, "tools"):
        if "mcp_server" in tool.values:
            _check_server(tool.values["mcp_server"], findings)


def _check_server(server: Part, findings: Findings) -> None:
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


def _check_chains(workflow: Part, findings: Findings) -> None:
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


def _note_other_key(before: Part, key: str, stage: Part, own: str, findings: Findings) -> None:
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
