"""What a run gives, worked out of its visits."""

from typing import Any

from statewright.workflow.states.engine.state import context_of, messages_of, result_of_run, visits_of
from statewright.workflow.states.engine.visit import ANSWER, ItemRef, Visit

VALUES: dict[str, Any] = {
    "input": "hi",
    "visits": [
        Visit("l", "l", '{"xs": ["a"]}', prompt="L", is_entry=True),
        Visit("answer", ANSWER, '{"k": 1}'),
        Visit("p", "p", "P", ("l", "answer"), "0/1", "do a", ItemRef("l", "xs", 0), into=("end",), iteration="l"),
    ],
}


def test_visits_are_shown_with_their_items_and_answers_are_none() -> None:
    assert visits_of(VALUES) == [
        {"state": "l", "item": None, "prompt": "L", "output": '{"xs": ["a"]}'},
        {"state": "p", "item": "a", "prompt": "do a", "output": "P"},
    ]


def test_the_context_and_the_messages_are_those_of_everything() -> None:
    assert context_of(VALUES) == {"xs": ["a"], "k": 1}
    assert [message.text for message in messages_of(VALUES)] == ["hi", '{"xs": ["a"]}', '{"k": 1}', "P"]


def test_the_result_is_the_output_that_ended_the_run_or_its_summary() -> None:
    assert result_of_run(VALUES) == "P"
    assert result_of_run({**VALUES, "summary": "all in all"}) == "all in all"
    assert result_of_run({"visits": VALUES["visits"][:2]}) == '{"xs": ["a"]}'
    assert result_of_run({}) is None


def test_before_anything_was_done_there_is_the_input() -> None:
    assert visits_of({"input": "hi"}) == []
    assert context_of({"input": {"u": 1}}) == {"u": 1}
