"""The values of a run, derived from its visits."""

from typing import Any

from statewright.workflow.states.engine.state import derive_context, derive_messages, derive_result, derive_visits
from statewright.workflow.states.engine.visit import ANSWER, ItemRef, Visit

VALUES: dict[str, Any] = {
    "input": "hi",
    "visits": [
        Visit("l", "l", '{"xs": ["a"]}', prompt="L", is_entry=True),
        Visit("answer", ANSWER, '{"k": 1}'),
        Visit("p", "p", "P", ("l", "answer"), "0/1", "do a", ItemRef("l", "xs", 0), targets=("end",), iteration="l"),
    ],
}


def test_visits_have_their_items_and_exclude_answers() -> None:
    assert derive_visits(VALUES) == [
        {"state": "l", "item": None, "prompt": "L", "output": '{"xs": ["a"]}'},
        {"state": "p", "item": "a", "prompt": "do a", "output": "P"},
    ]


def test_context_and_messages_include_all_visits() -> None:
    assert derive_context(VALUES) == {"xs": ["a"], "k": 1}
    assert [message.text for message in derive_messages(VALUES)] == ["hi", '{"xs": ["a"]}', '{"k": 1}', "P"]


def test_the_result_is_the_final_output_or_the_summary() -> None:
    assert derive_result(VALUES) == "P"
    assert derive_result({**VALUES, "summary": "all in all"}) == "all in all"
    assert derive_result({"visits": VALUES["visits"][:2]}) == '{"xs": ["a"]}'
    assert derive_result({}) is None


def test_before_the_first_visit_the_context_is_the_input() -> None:
    assert derive_visits({"input": "hi"}) == []
    assert derive_context({"input": {"u": 1}}) == {"u": 1}
