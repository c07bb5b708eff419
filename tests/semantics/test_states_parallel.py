"""The states language, 2.5: branches of `state_ids`, their joins, and merging."""

from typing import Any

import pytest

from statewright.errors import StatewrightError
from statewright.models import ScriptedModel
from statewright.workflow.states import load_workflow

Outputs = dict[str, Any]


def document(states: str, extra: str = "") -> str:
    states = states.replace("next:", "assistant_id: a, next:")
    return f"{extra}\nassistants: [{{id: a, system_prompt: p}}]\nstates:\n{states}"


def run(driver: Any, states: str, outs: Outputs, message: Any = None) -> Any:
    return driver.invoke(load_workflow(document(states)).compile(script=outs), {"input": message})


def names(result: Any) -> str:
    return " ".join(visit["state"] for visit in result["visits"])


def prompt(result: Any, state: str) -> str:
    (shown,) = [visit["prompt"] for visit in result["visits"] if visit["state"] == state]
    return shown


def texts(result: Any) -> list[str]:
    return [message.text for message in result["messages"]]


DIAMOND = """
- {id: r, next: {state_ids: [b, c]}}
- {id: b, task: 'B {{k}} {{fc}}', next: {state_id: b2%s}}
- {id: b2, task: 'B2 {{k}} {{fb}} {{fc}}', next: {state_id: j}}
- {id: c, task: 'C {{k}} {{fb}}', next: {state_id: j%s}}
- {id: j, task: 'J {{k}} {{fb}} {{fc}}', next: {state_id: end}}
"""
OUTS = {"r": '{"k":"r"}', "b": '{"k":"b","fb":1}', "b2": '{"b2":1}', "c": '{"k":"c","fc":1}', "j": "j"}


def test_2_5_branches_start_with_the_same_context_and_are_isolated_until_they_join(driver: Any) -> None:
    result = run(driver, DIAMOND % ("", ""), OUTS, "hi")
    assert names(result) == "r b c b2 j"
    assert [prompt(result, state) for state in ("b", "c", "b2")] == ["B r {{fc}}", "C r {{fb}}", "B2 b 1 {{fc}}"]


def test_2_5_a_join_merges_contexts_and_histories_in_declared_order(driver: Any) -> None:
    result = run(driver, DIAMOND % ("", ""), OUTS, "hi")
    assert prompt(result, "j") == "J c 1 1"
    assert result["context"] == {"k": "c", "fb": 1, "b2": 1, "fc": 1}
    assert texts(result) == ["hi", OUTS["r"], OUTS["b"], OUTS["b2"], OUTS["c"], "j"]


def test_2_5_declared_order_is_the_order_of_state_ids(driver: Any) -> None:
    states = (DIAMOND % ("", "")).replace("[b, c]", "[c, b]")
    result = run(driver, states, OUTS)
    assert result["context"]["k"] == "b"
    assert texts(result) == [OUTS["r"], OUTS["c"], OUTS["b"], OUTS["b2"], "j"]


def test_2_5_a_branch_does_not_undo_changes_of_keys_that_it_did_not_write(driver: Any) -> None:
    result = run(driver, DIAMOND % ("", ""), {**OUTS, "c": '{"fc":1}'})
    assert prompt(result, "j") == "J b 1 1"


def test_2_5_a_key_that_a_branch_resets_is_removed_from_the_merged_context(driver: Any) -> None:
    states = DIAMOND % ("", ", reset_keys_in_context_store: [u]")
    assert run(driver, states, OUTS, {"u": 1, "v": 2})["context"] == {"v": 2, "k": "c", "fb": 1, "b2": 1, "fc": 1}


def test_2_5_a_join_keeps_all_appended_values(driver: Any) -> None:
    states = DIAMOND % (", append_to_context: true", ", append_to_context: true")
    outs = {**OUTS, "r": '{"k":"r"}'}
    assert run(driver, states, outs)["context"]["k"] == ["r", "b", "c"]


@pytest.mark.parametrize(
    ("flag", "context"),
    [
        ("clear_context_store: true", {"fb": 1, "b2": 1}),
        ("clear_context_store: keep_current", {"k": "c", "fb": 1, "b2": 1, "fc": 1}),
    ],
)
def test_2_5_a_branch_that_clears_its_context_clears_only_the_values_that_it_sees(
    driver: Any, flag: str, context: dict[str, Any]
) -> None:
    assert run(driver, DIAMOND % ("", f", {flag}"), OUTS, {"u": 1})["context"] == context


def test_2_5_clearing_the_messages_of_a_branch_keeps_those_of_others(driver: Any) -> None:
    result = run(driver, DIAMOND % ("", ", clear_prior_messages: true"), OUTS, "hi")
    assert {OUTS["b"], OUTS["b2"]} <= set(texts(result))


def test_2_5_resetting_a_key_that_a_branch_does_not_see_has_no_effect(driver: Any) -> None:
    states = DIAMOND % ("", ", reset_keys_in_context_store: [fb]")
    assert run(driver, states, OUTS)["context"]["fb"] == 1


def test_2_5_two_joins_in_sequence_each_run_once(driver: Any) -> None:
    states = """
- {id: r, next: {state_ids: [b, c, d]}}
- {id: b, next: {state_id: j}}
- {id: c, next: {state_id: j}}
- {id: d, next: {state_id: k}}
- {id: j, next: {state_id: k}}
- {id: k, task: 'K {{n}}', next: {state_id: end}}
"""
    outs = {"r": "r", "b": '{"n":1}', "c": '{"n":2}', "d": '{"n":3}', "j": "j", "k": "k"}
    result = run(driver, states, outs)
    assert (names(result), prompt(result, "k")) == ("r b c d j k", "K 3")


def test_2_5_a_join_takes_the_position_of_the_first_branch_that_it_joins(driver: Any) -> None:
    states = """
- {id: r, next: {state_ids: [b, c, d]}}
- {id: b, next: {state_id: j}}
- {id: c, next: {state_id: k}}
- {id: d, next: {state_id: j}}
- {id: j, next: {state_id: k}}
- {id: k, task: 'K {{n}}', next: {state_id: end}}
"""
    outs = {"r": "r", "b": "b", "c": '{"n":"c"}', "d": "d", "j": '{"n":"j"}', "k": "k"}
    result = run(driver, states, outs)
    assert (names(result), prompt(result, "k")) == ("r b c d j k", "K c")


def test_2_5_a_join_waits_for_a_branch_that_loops(driver: Any) -> None:
    states = """
- {id: r, next: {state_ids: [b, c]}}
- {id: b, next: {condition: {expression: 'again', then: b, otherwise: j}}}
- {id: c, next: {state_id: j}}
- {id: j, next: {state_id: end}}
"""
    outs = {"r": "r", "b": ['{"again": true}', '{"again": true}', '{"again": false}'], "c": "c", "j": "j"}
    assert names(run(driver, states, outs)) == "r b c b b j"


def test_2_5_a_join_does_not_wait_for_a_branch_that_cannot_reach_it(driver: Any) -> None:
    states = """
- {id: r, next: {state_ids: [b, c]}}
- {id: b, next: {condition: {expression: 'x', then: j, otherwise: e}}}
- {id: c, next: {state_id: j}}
- {id: j, next: {state_id: end}}
- {id: e, next: {state_id: end}}
"""
    assert names(run(driver, states, {"r": "r", "b": "{}", "c": "c", "j": "j", "e": "e"})) == "r b c j e"


def test_2_5_of_two_states_that_reach_each_other_the_first_declared_runs_first(driver: Any) -> None:
    states = """
- {id: r, next: {state_ids: [b, a1]}}
- {id: a1, next: {condition: {expression: 'x', then: b, otherwise: end}}}
- {id: b, next: {condition: {expression: 'x', then: a1, otherwise: end}}}
"""
    result = run(driver, states, {"r": "r", "a1": "{}", "b": ['{"x": 1}', "{}"]})
    assert names(result) == "r a1 b a1"
    once = run(driver, states, {"r": "r", "a1": '{"x": 1}', "b": "{}"})
    assert names(once) == "r a1 b"


def test_2_5_a_loop_that_contains_branches_repeats(driver: Any) -> None:
    states = """
- {id: r, next: {state_ids: [b, c]}}
- {id: b, next: {state_id: j}}
- {id: c, next: {state_id: j}}
- {id: j, next: {condition: {expression: 'again', then: r, otherwise: end}}}
"""
    outs = {"r": "r", "b": '{"n":1}', "c": '{"n":2}', "j": ['{"again": true, "n": 0}', '{"again": false}']}
    result = run(driver, states, outs)
    assert names(result) == "r b c j r b c j"
    assert result["context"] == {"n": 2, "again": False}


def test_2_5_end_in_one_branch_does_not_stop_the_others(driver: Any) -> None:
    states = """
- {id: r, next: {state_ids: [b, c]}}
- {id: b, next: {state_id: end}}
- {id: c, next: {state_id: d}}
- {id: d, next: {state_id: end}}
"""
    result = run(driver, states, {"r": "r", "b": '{"k":"b"}', "c": "c", "d": '{"k":"d"}'})
    assert (names(result), result["context"], result["result"]) == ("r b c d", {"k": "d"}, '{"k":"d"}')


def test_2_5_an_iteration_in_a_branch_joins_a_plain_branch_once(driver: Any) -> None:
    states = """
- {id: r, next: {state_ids: [o, l]}}
- {id: l, next: {state_id: p, iter_key: xs}}
- {id: p, next: {state_id: j}}
- {id: o, next: {state_id: j}}
- {id: j, task: 'J {{n}} {{o}}', next: {state_id: end}}
"""
    outs = {"r": "r", "l": '{"xs":[1,2]}', "p": '{"n":$item}', "o": '{"o":1,"n":0}', "j": "j"}
    result = run(driver, states, outs)
    assert (names(result), prompt(result, "j")) == ("r l o p p j", "J 2 1")
    assert texts(result) == ["r", outs["o"], outs["l"], '{"n":1}', '{"n":2}', "j"]


@pytest.mark.parametrize(("output", "taken"), [('{"x": true}', "t1"), ('{"x": false}', "t2")])
def test_2_5_a_join_does_not_wait_for_the_other_target_of_a_condition(driver: Any, output: str, taken: str) -> None:
    states = """
- {id: s, next: {condition: {expression: 'x', then: t1, otherwise: t2}}}
- {id: t1, next: {state_id: j}}
- {id: t2, next: {state_id: j}}
- {id: j, next: {state_id: end}}
"""
    assert names(run(driver, states, {"s": output, "t1": "1", "t2": "2", "j": "j"})) == f"s {taken} j"


def test_2_5_a_failing_branch_prevents_the_join(driver: Any) -> None:
    def answer(request: Any) -> Any:
        state = request.metadata["state"]
        return ValueError("no") if state == "b" else state

    model = ScriptedModel(answer)
    app = load_workflow(document(DIAMOND % ("", ""), "enable_summarization_node: false")).compile(models=model)
    with pytest.raises(ValueError, match="no"):
        driver.invoke(app, {"input": "hi"})
    assert "j" not in {request.metadata["state"] for request in model.requests}


def test_2_5_the_final_summary_is_made_once_after_all_branches(driver: Any) -> None:
    states = """
- {id: r, next: {state_ids: [b, c, end]}}
- {id: b, next: {state_id: end}}
- {id: c, next: {state_id: d}}
- {id: d, next: {state_id: end}}
"""
    model = ScriptedModel(lambda request: request.metadata["state"])
    result = driver.invoke(load_workflow(document(states)).compile(models=model), {})
    assert names(result) == "r b c d"
    assert [request.metadata["state"] for request in model.requests].count("final_summary") == 1
    assert result["result"] == "final_summary"


def test_2_5_a_state_named_by_several_branches_is_visited_once(driver: Any) -> None:
    states = """
- {id: r, next: {state_ids: [b, j]}}
- {id: b, next: {state_id: j}}
- {id: j, next: {state_id: end}}
"""
    assert names(run(driver, states, {"r": "r", "b": "b", "j": "j"})) == "r b j"


def test_2_5_an_error_in_a_branch_is_raised_unchanged(driver: Any) -> None:
    with pytest.raises(StatewrightError, match="'b' needs a model"):
        run(driver, DIAMOND % ("", ""), {"r": "r", "c": "c"})
