"""The states language, 2.2: effects of a state on the context and on the history."""

from typing import Any

import pytest

from statewright.workflow.states import load_workflow

BEFORE = {"u": 1, "k": 0}
OUTPUT = '{"new":1,"k":[1,2]}'


def run(driver: Any, states: str, outs: dict[str, Any], message: Any = None) -> Any:
    states = states.replace("next:", "assistant_id: a, next:")
    text = f"assistants: [{{id: a, system_prompt: p}}]\nstates:\n{states}"
    return driver.invoke(load_workflow(text).compile(script=outs), {"input": message})


def after_state(driver: Any, flags: str, output: str = OUTPUT, before: Any = None) -> tuple[dict[str, Any], list[str]]:
    """The context and the history after a state with these flags."""
    states = f"- {{id: s, next: {{state_id: e, {flags}}}}}\n- {{id: e, next: {{state_id: end}}}}"
    result = run(driver, states, {"s": output, "e": "last"}, BEFORE if before is None else before)
    *history, last = [message.text for message in result["messages"]]
    assert last == "last"
    return result["context"], history


INPUT = '{"u": 1, "k": 0}'
BOTH = [INPUT, OUTPUT]


@pytest.mark.parametrize(
    ("flags", "context", "history"),
    [
        ("", {"u": 1, "k": [1, 2], "new": 1}, BOTH),
        ("store_in_context: false", {"u": 1, "k": 0}, BOTH),
        ("store_in_context: false, output_key: ok", {"u": 1, "k": 0, "ok": OUTPUT}, BOTH),
        ("output_key: ok", {"u": 1, "k": [1, 2], "new": 1, "ok": OUTPUT}, BOTH),
        ("clear_context_store: true", {}, BOTH),
        ("clear_context_store: true, store_in_context: false", {}, BOTH),
        ("clear_context_store: true, output_key: ok", {"ok": OUTPUT}, BOTH),
        ("clear_context_store: keep_current", {"new": 1, "k": [1, 2]}, BOTH),
        ("clear_context_store: keep_current, output_key: ok", {"new": 1, "k": [1, 2], "ok": OUTPUT}, BOTH),
        ("clear_context_store: keep_current, store_in_context: false", {}, BOTH),
        ("reset_keys_in_context_store: [u, new]", {"k": [1, 2]}, BOTH),
        ("reset_keys_in_context_store: [u, new], store_in_context: false", {"k": 0}, BOTH),
        ("reset_keys_in_context_store: [missing]", {"u": 1, "k": [1, 2], "new": 1}, BOTH),
        ("clear_context_store: true, reset_keys_in_context_store: [u]", {}, BOTH),
        ("append_to_context: true", {"u": 1, "k": [[1, 2]], "new": [1]}, BOTH),
        ("append_to_context: true, output_key: ok", {"u": 1, "k": [[1, 2]], "new": [1], "ok": [OUTPUT]}, BOTH),
        ("append_to_context: true, store_in_context: false", {"u": 1, "k": 0}, BOTH),
        ("include_in_llm_history: false", {"u": 1, "k": [1, 2], "new": 1}, [INPUT]),
        ("clear_prior_messages: true", {"u": 1, "k": [1, 2], "new": 1}, [OUTPUT]),
        ("clear_prior_messages: true, include_in_llm_history: false", {"u": 1, "k": [1, 2], "new": 1}, []),
        ("keep_history: false", {"u": 1, "k": [1, 2], "new": 1}, [INPUT]),
        ("keep_history: false, include_in_llm_history: true", {"u": 1, "k": [1, 2], "new": 1}, BOTH),
    ],
)
def test_2_2_flags_decide_what_context_and_history_keep(
    driver: Any, flags: str, context: dict[str, Any], history: list[str]
) -> None:
    assert after_state(driver, flags) == (context, history)


def test_2_2_an_output_key_is_stored_with_other_flags(driver: Any) -> None:
    flags = "append_to_context: true, output_key: ok, clear_context_store: keep_current"
    context, _ = after_state(driver, flags)
    assert context["ok"] in (OUTPUT, [OUTPUT])


@pytest.mark.parametrize(
    ("output", "added"),
    [
        ('[{"a": 1, "b": 1}, 7, {"a": 2}]', {"a": 2, "b": 1}),
        ('["x", "y"]', {}),
        ("5", {}),
        ("words", {}),
        ("null", {}),
        ('{"a": {"b": 1}}', {"a": {"b": 1}}),
        ('Found {"a": "1"}.', {"a": "1"}),
        ("{'a': (1, 2)}", {"a": [1, 2]}),
    ],
)
def test_2_2_the_root_keys_of_a_map_or_of_the_maps_in_a_list_are_stored(
    driver: Any, output: str, added: dict[str, Any]
) -> None:
    assert after_state(driver, "", output, {"u": 1})[0] == {"u": 1, **added}


def test_2_2_a_value_replaces_the_whole_value_of_its_key(driver: Any) -> None:
    assert after_state(driver, "", '{"a": {"y": 2}}', {"a": {"x": 1}})[0] == {"a": {"y": 2}}


@pytest.mark.parametrize(
    ("before", "appended"),
    [("one", ["one", 2]), (0, [2]), ("", [2]), (None, [2]), ([], [2]), ([1], [1, 2]), ({"m": 1}, [{"m": 1}, 2])],
)
def test_2_2_appending_keeps_previous_values_that_are_not_empty(driver: Any, before: Any, appended: list[Any]) -> None:
    assert after_state(driver, "append_to_context: true", '{"k": 2}', {"k": before})[0] == {"k": appended}


def test_2_2_output_key_stores_the_raw_text(driver: Any) -> None:
    output = 'Look:\n```json\n{"a":  1}\n```'
    assert after_state(driver, "output_key: ok", output, {})[0] == {"a": 1, "ok": output}


def test_2_2_no_key_is_reserved(driver: Any) -> None:
    flags = "output_key: next"
    context, _ = after_state(driver, flags, '{"messages": 1, "context_store": 2, "visits": 3, "input": 4}', {})
    assert {name: context[name] for name in ("messages", "context_store", "visits", "input")} == {
        "messages": 1,
        "context_store": 2,
        "visits": 3,
        "input": 4,
    }
    assert context["next"].startswith("{")


def test_1_5_result_as_human_message_adds_the_result_as_a_user_message(driver: Any) -> None:
    states = "- {id: s, result_as_human_message: true, next: {state_id: e}}\n- {id: e, next: {state_id: end}}"
    messages = run(driver, states, {"s": "S", "e": "E"}, "hi")["messages"]
    assert [(message.role, message.text) for message in messages] == [("user", "hi"), ("user", "S"), ("assistant", "E")]


def test_2_2_a_cleared_key_can_be_written_again(driver: Any) -> None:
    states = """
- {id: s, next: {state_id: c}}
- {id: c, next: {state_id: e, clear_context_store: true, clear_prior_messages: true}}
- {id: e, task: 'E {{u}} {{n}}', next: {state_id: end}}
"""
    result = run(driver, states, {"s": '{"n": 1}', "c": '{"n": 2}', "e": '{"n": 3}'}, {"u": 1})
    assert result["visits"][-1]["prompt"] == "E {{u}} {{n}}"
    assert result["context"] == {"n": 3}
    assert [message.text for message in result["messages"]] == ['{"n": 2}', '{"n": 3}']
