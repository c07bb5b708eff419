"""A state as a node: its effects and its tokens. Whole runs are in `tests/semantics/test_states_*.py`."""

from typing import Any

from statewright.workflow.states import load_workflow
from statewright.workflow.states.engine.lineage import Lineage
from statewright.workflow.states.engine.state_node import make_effects, merge_arrivals
from statewright.workflow.states.engine.token import Token
from statewright.workflow.states.engine.visit import ANSWER, DEFAULT_EFFECTS, Effects, Visit


def effects(flags: str, **state: Any) -> Effects:
    keys = "".join(f"{key}: {value}, " for key, value in state.items())
    states = f"[{{id: s, assistant_id: a, {keys}next: {{state_id: end{flags}}}}}]"
    text = f"assistants: [{{id: a, system_prompt: p}}]\nstates: {states}"
    return make_effects(load_workflow(text).definition.states[0])


def test_2_2_default_effects_are_one_object() -> None:
    assert effects("") is DEFAULT_EFFECTS


def test_2_2_every_flag_has_its_effect() -> None:
    assert effects(", store_in_context: false, output_key: k") == Effects(stores_result=False, output_key="k")
    assert effects(", clear_context_store: keep_current") == Effects(clears_context="keep_current")
    assert effects(", reset_keys_in_context_store: [a, b], append_to_context: true") == Effects(
        reset_keys=("a", "b"), appends_values=True
    )
    assert effects(", keep_history: false, clear_prior_messages: true") == Effects(
        adds_message=False, removes_messages=True
    )
    assert effects("", result_as_human_message="true") == Effects(is_user_message=True)


def lineage_of(*visits: Visit) -> Lineage:
    result = Lineage("hi")
    result.extend(visits)
    return result


B, C = Visit("b", "b", "B", (), "0/2"), Visit("c", "c", "C", (), "1/2")


def test_2_5_joined_tokens_follow_all_branches_in_order() -> None:
    token = merge_arrivals([Token(("c",), "1/2"), Token(("b",), "0/2")], "j", lineage_of(B, C))
    assert (token.after, token.path, token.iteration) == (("b", "c"), "", None)


def test_2_11_an_answer_follows_the_visits_of_its_branch() -> None:
    lineage = lineage_of(B, C, Visit("answer", ANSWER, "yes"))
    assert merge_arrivals([Token(("b",), "0/2")], "j", lineage).after == ("b", "answer")


def test_2_6_a_token_from_an_iteration_follows_all_of_its_branches() -> None:
    ends = [Visit(f"p{n}", "p", "x", path=f"{n}/2", targets=(target,), iteration="l") for n, target in enumerate("mo")]
    token = merge_arrivals([Token(("p0",), "0/2", None, "l", "")], "m", lineage_of(*ends))
    assert (token.after, token.path) == (("p0", "p1"), "0/2")


def test_2_6_a_complete_iteration_returns_to_the_branch_that_was_split() -> None:
    ends = [Visit(f"p{n}", "p", "x", path=f"{n}/2", targets=("m",), iteration="l") for n in (0, 1)]
    tokens = [Token((f"p{n}",), "0/2", None, "l", "") for n in (0, 1)]
    assert merge_arrivals(tokens, "m", lineage_of(*ends)).path == ""
