"""Where a branch goes on after a state."""

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


def ways(text: str, output: str, token: Token | None = None, *, of: str = "s", **options: Any) -> Routes:
    found = states(text)
    router = Router(found, **{"max_items": 1000, **options})
    return router.route(found[of], token if token is not None else Token(), Visit("v", of, output))


def sent(found: Routes) -> list[tuple[str, str, bool]]:
    return [(send.node, send.arg.path, send.gather) for send in found.sends]


LINE = "- {id: s, next: {state_id: e}}\n- {id: e, next: {state_id: end}}"
CHAIN = """
- {id: s, next: {state_id: p, iter_key: xs}}
- {id: p, next: {state_id: q, iter_key: xs}}
- {id: q, next: {state_ids: [e, f]}}
- {id: e, next: {state_id: end}}
- {id: f, next: {state_id: end}}
"""


def test_a_plain_transition_gathers() -> None:
    found = ways(LINE, "x")
    assert (sent(found), found.targets) == ([("e", "", True)], ("e",))
    assert found.sends[0].arg.after == ("v",)


def test_the_end_leads_nowhere_or_to_what_comes_after_everything() -> None:
    assert ways(LINE, "x", of="e") == Routes([], ("end",))
    assert [send.node for send in ways(LINE, "x", of="e", final_node="sum").sends] == ["sum"]


def test_2_5_branches_have_places_in_the_order_of_state_ids() -> None:
    assert sent(ways(CHAIN, "x", of="q")) == [("e", "0/2", True), ("f", "1/2", True)]


def test_2_6_an_iteration_sends_each_item_on_its_own() -> None:
    found = ways(CHAIN, '{"xs": ["a", "b"]}', Token(path="1/2"))
    assert sent(found) == [("p", "1/2.0/2", False), ("p", "1/2.1/2", False)]
    assert found.targets == ()
    inner = found.sends[1].arg.iteration
    assert (inner.id, inner.base, inner.index, inner.total, inner.is_first) == ("v", "1/2", 1, 2, True)


def test_2_6_within_a_chain_the_branch_goes_on_and_at_its_end_comes_back() -> None:
    first = ways(CHAIN, '{"xs": ["a", "b"]}').sends[1].arg
    onward = ways(CHAIN, "words", first, of="p")
    assert sent(onward) == [("q", "1/2", False)]
    left = ways(CHAIN, "words", onward.sends[0].arg, of="q")
    assert [send.node for send in left.sends] == ["e", "f"]
    assert all(send.arg.iteration is None and send.arg.ended == "v" for send in left.sends)


def test_2_6_an_empty_list_goes_on_at_the_exit_of_the_chain() -> None:
    found = ways(CHAIN, '{"xs": []}')
    assert (sent(found), found.targets) == ([("e", "0/2", True), ("f", "1/2", True)], ("e", "f"))


def test_a_chain_that_never_leaves_ends_where_there_is_nothing_to_do() -> None:
    text = "- {id: s, next: {state_id: p, iter_key: xs}}\n- {id: p, next: {state_id: s, iter_key: xs}}"
    assert ways(text, '{"xs": []}') == Routes([], ("end",))


def test_head_more_items_than_allowed_are_an_error_that_says_how_many() -> None:
    with pytest.raises(RoutingError, match=r"'s' returned 3 items .* at most 2"):
        ways(CHAIN, '{"xs": [1, 2, 3]}', max_items=2)


FAILING_CASE = "{switch: {cases: [{condition: n.x, state_id: s}, {condition: n, state_id: end}], default: s}}"


@pytest.mark.parametrize(
    ("way", "output", "targets"),
    [
        ("{condition: {expression: n > 1, then: s, otherwise: end}}", '{"n": "2"}', ("s",)),
        ("{condition: {expression: n > 1, then: s, otherwise: end}}", "words", ("end",)),
        (FAILING_CASE, '{"n": 1}', ("end",)),
        ("{switch: {cases: [{condition: n, state_id: end}], default: s}}", "[]", ("s",)),
        ("{state_ids: [s, end]}", "x", ("s", "end")),
    ],
)  # fmt: skip
def test_2_4_what_a_result_chooses(way: str, output: str, targets: tuple[str, ...]) -> None:
    assert choose_targets(states(f"- {{id: s, next: {way}}}")["s"].next, Visit("v", "s", output)) == targets
