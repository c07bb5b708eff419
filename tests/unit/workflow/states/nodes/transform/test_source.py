"""The input of a transform node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from statewright.errors import RoutingError
from statewright.messages import Message
from statewright.workflow.states.handlers import Call
from statewright.workflow.states.nodes.transform.node import Source, select_part

DATA = {"user": {"name": "Ada"}, "rows": [{"n": 1}, {"n": 2}, {"n": 3}], "count": 3, "a.b": {"odd": 1}}


@pytest.mark.parametrize(
    ("key", "data"),
    [
        ("user", {"name": "Ada"}),
        ("count", {"count": 3}),
        ("rows", {"rows": [{"n": 1}, {"n": 2}, {"n": 3}]}),
        ("user.name", {"name": "Ada"}),
        ("rows[0]", {"rows": {"n": 1}}),
        ("rows[-1]", {"rows": {"n": 3}}),
        ("rows[1:3]", {"rows": [{"n": 2}, {"n": 3}]}),
        ("rows[:-1]", {"rows": [{"n": 1}, {"n": 2}]}),
        ("rows[1:][0].n", {"n": 2}),
        ("rows[0].n", {"n": 1}),
        ("a.b", {"odd": 1}),
    ],
)
def test_2_10_an_input_key_selects_a_part(key: str, data: Any) -> None:
    assert select_part(DATA, key) == data


def test_2_10_without_a_key_the_input_is_the_whole_context(call_with: Callable[..., Call]) -> None:
    assert Source().read(call_with({"a": 1, "b": 2})) == {"a": 1, "b": 2}


@pytest.mark.parametrize(("text", "data"), [('{"a": 1}', {"a": 1}), ("[1, 2]", {"raw": [1, 2]}), ("15", {"raw": "15"})])
def test_json_text_is_parsed(text: str, data: Any) -> None:
    assert select_part({"raw": text}, "raw") == data


def test_json_text_within_a_path_is_parsed() -> None:
    assert select_part({"raw": '{"rows": [{"n": 1}]}'}, "raw.rows[0].n") == {"n": 1}


@pytest.mark.parametrize("key", ["nowhere", "user.nmae", "rows[7]", "count[0]", "rows.name", "rows[0", "[0]", ""])
def test_a_key_to_a_missing_value_is_an_error(key: str) -> None:
    with pytest.raises(RoutingError, match=r"does not exist|not a path"):
        select_part(DATA, key)


def test_the_error_suggests_the_nearest_key() -> None:
    with pytest.raises(RoutingError, match=r"there is no 'nmae'\. Did you mean 'name'\?"):
        select_part(DATA, "user.nmae")


@pytest.mark.parametrize(
    ("history", "key", "data"),
    [
        ([Message("old"), Message('Here: {"a": 1}')], None, {"a": 1}),
        ([Message("plain")], None, {"messages": "plain"}),
        ([Message("[1, 2]")], "messages[0]", {"messages": 1}),
        ([], None, {}),
    ],
)
def test_2_10_messages_reads_the_content_of_the_last_message(
    history: Any, key: str | None, data: Any, call_with: Callable[..., Call]
) -> None:
    assert Source("messages", key).read(call_with({"a": "context"}, history=history)) == data


@pytest.mark.parametrize(
    ("run_input", "data"), [('{"a": 1}', {"a": 1}), ({"a": 1}, {"a": 1}), ("hello", {"user_input": "hello"})]
)
def test_2_10_user_input_reads_the_input_of_the_run(run_input: Any, data: Any, call_with: Callable[..., Call]) -> None:
    assert Source("user_input").read(call_with({"a": "context"}, run_input=run_input)) == data


def test_2_10_state_schema_reads_the_parts_of_the_state(call_with: Callable[..., Call]) -> None:
    call = call_with({"a": 1}, history=[Message("hi", name="plan")], run_input="hi", task="before")
    assert Source("state_schema").read(call) == {
        "context_store": {"a": 1},
        "messages": [{"role": "user", "content": "hi", "name": "plan"}],
        "user_input": "hi",
        "task": "before",
        "state_id": "own",
    }
    assert Source("state_schema", "messages[-1].content").read(call) == {"content": "hi"}
