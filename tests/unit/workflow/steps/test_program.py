"""A graph of steps as its callers see it."""

from __future__ import annotations

from statewright.workflow.steps import compile_steps

APP = compile_steps(
    {"name": "flow", "version": "1", "steps": [{"type": "task", "name": "a", "handler": "h"}]},
    handlers={"h": lambda ctx: {"stateUpdates": {"x": 1}}},
)


def test_the_state_is_shown_bare() -> None:
    program = APP.program
    assert program.output({"input": {"i": 1}, "state": {"x": 1}, "visits": {"a": 1}}) == {"x": 1}
    assert program.output({}) == {}


def test_callers_are_not_told_of_channels() -> None:
    assert APP.reported == frozenset()


def test_the_definition_is_there() -> None:
    assert APP.definition.step("a").type == "task"
