"""The output and the definition of a graph of steps."""

from __future__ import annotations

from statewright.workflow.steps import compile_steps

APP = compile_steps(
    {"name": "flow", "version": "1", "steps": [{"type": "task", "name": "a", "handler": "h"}]},
    handlers={"h": lambda ctx: {"stateUpdates": {"x": 1}}},
)


def test_the_output_is_the_plain_state() -> None:
    program = APP.program
    assert program.output({"input": {"i": 1}, "state": {"x": 1}, "visits": {"a": 1}}) == {"x": 1}
    assert program.output({}) == {}


def test_channels_are_not_reported() -> None:
    assert APP.reported == frozenset()


def test_the_graph_has_its_definition() -> None:
    assert APP.definition.step("a").type == "task"
