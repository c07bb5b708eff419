"""Routing: the states with which a branch continues after a state."""

from typing import Any

import pytest

from statewright.errors import RoutingError
from statewright.workflow.states import load_workflow
from statewright.workflow.states.engine.routing import Router, Routes, choose_targets
from statewright.workflow.states.engine.token import Token
from statewright.workflow.states.engine.visit import Visit
from statewright.workflow.states.language.model import State


def states(text: str) -> dict[str, State]:
    text = text.replace("next:", "assistant_id: a, next:")
    definition = load_workflow(f"assistants: [{{id: a, system_prompt: p}}]\nstates:\n{text}").definition
    return {state.id: state for state in definition.states}


def route(text: str, output: str, token: Token | None = None, *, state_id: str = "s", **options: Any) -> Routes:
    definitions = states(text)
    router = Router(definitions, **{"max_items": 1000, **options})
    return router.route(definitions[state_id], token if token is not None else Token(), Visit("v", state_id, output))


def describe_sends(routes: Routes) -> list[tuple[str, str, bool]]:
    return [(send.node, send.arg.path, send.gather) for send in routes.sends]


LINE = "- {id: s, next: {state_id: e}}\n- {id: e, next: {state_id: end}}"
CHAIN = """
- {id: s, next: {state_id: p, iter_key: xs}}
- {id: p, next: {state_id: q, iter_key: xs}}
- {id: q, next: {state_ids: [e, f]}}
- {id: e, next: {state_id: end}}
- {id: f, next: {state_id: end}}
"""


def test_a_plain_transition_gathers() -> None:
    routes = route(LINE, "x")
    assert (describe_sends(routes), routes.targets) == ([("e", "", True)], ("e",))
    assert routes.sends[0].arg.after == ("v",)


def test_the_end_starts_only_the_final_node() -> None:
    assert route(LINE, "x", state_id="e") == Routes([], ("end",))
    assert [send.node for send in route(LINE, "x", state_id="e", final_node="sum").sends] == ["sum"]


def test_2_5_branches_are_numbered_in_the_order_of_state_ids() -> None:
    assert describe_sends(route(CHAIN, "x", state_id="q")) == [("e", "0/2", True), ("f", "1/2", True)]


def test_2_6_an_iteration_sends_each_item_separately() -> None:
    routes = route(CHAIN, '{"xs": ["a", "b"]}', Token(path="1/2"))
    assert describe_sends(routes) == [("p", "1/2.0/2", False), ("p", "1/2.1/2", False)]
    assert routes.targets == ()
    inner = routes.sends[1].arg.iteration
    assert (inner.id, inner.base, inner.index, inner.total, inner.is_first) == ("v", "1/2", 1, 2, True)


def test_2_6_a_branch_stays_in_its_chain_and_gathers_at_the_exit() -> None:
    first = route(CHAIN, '{"xs": ["a", "b"]}').sends[1].arg
    inside = route(CHAIN, "words", first, state_id="p")
    assert describe_sends(inside) == [("q", "1/2", False)]
    leaving = route(CHAIN, "words", inside.sends[0].arg, state_id="q")
    assert [send.node for send in leaving.sends] == ["e", "f"]
    assert all(send.arg.iteration is None and send.arg.ended_iteration == "v" for send in leaving.sends)


def test_2_6_an_empty_list_continues_at_the_exit_of_the_chain() -> None:
    routes = route(CHAIN, '{"xs": []}')
    assert (describe_sends(routes), routes.targets) == ([("e", "0/2", True), ("f", "1/2", True)], ("e", "f"))


def test_an_empty_list_ends_a_chain_without_an_exit() -> None:
    text = "- {id: s, next: {state_id: p, iter_key: xs}}\n- {id: p, next: {state_id: s, iter_key: xs}}"
    assert route(text, '{"xs": []}') == Routes([], ("end",))


def test_head_too_many_items_are_an_error_with_their_number() -> None:
    with pytest.raises(RoutingError, match=r"'s' returned 3 items .* at most 2"):
        route(CHAIN, '{"xs": [1, 2, 3]}', max_items=2)


FAILING_CASE = "{switch: {cases: [{condition: n.x, state_id: s}, {condition: n, state_id: end}], default: s}}"


@pytest.mark.parametrize(
    ("transition", "output", "targets"),
    [
        ("{condition: {expression: n > 1, then: s, otherwise: end}}", '{"n": "2"}', ("s",)),
        ("{condition: {expression: n > 1, then: s, otherwise: end}}", "words", ("end",)),
        (FAILING_CASE, '{"n": 1}', ("end",)),
        ("{switch: {cases: [{condition: n, state_id: end}], default: s}}", "[]", ("s",)),
        ("{state_ids: [s, end]}", "x", ("s", "end")),
    ],
)  # fmt: skip
def test_2_4_a_result_selects_the_targets(transition: str, output: str, targets: tuple[str, ...]) -> None:
    assert choose_targets(states(f"- {{id: s, next: {transition}}}")["s"].next, Visit("v", "s", output)) == targets
