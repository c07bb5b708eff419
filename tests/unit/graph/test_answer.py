"""The funnel of answers, without any graph around it."""

from types import SimpleNamespace
from typing import Any

import pytest

from statewright import Command, Send, StateSchema
from statewright.channels import Append, LastValue, Messages
from statewright.errors import InvalidUpdateError
from statewright.graph.answer import ParentCommand, read_node_output
from statewright.messages import Message
from statewright.state import UpdateReader

IDS = SimpleNamespace(id="task")


def reader(**options: Any) -> UpdateReader:
    return UpdateReader({"log": Append(), "x": LastValue(), "y": LastValue()}, closed=True, **options)


def read(answer: Any, **options: Any) -> tuple[list[tuple[str, Any]], Any]:
    found = read_node_output(answer, reader(**options), "node", IDS)
    writes = found.writes
    return list(writes.items()) if isinstance(writes, dict) else list(writes), found.targets


@pytest.mark.parametrize(
    ("answer", "writes", "targets"),
    [
        (None, [], None),
        ({"x": 1}, [("x", 1)], None),
        (Command(), [], None),
        (Command(update={"x": 1}), [("x", 1)], None),
        (Command(goto="a"), [], ["a"]),
        (Command(goto=["a", Send("b", 1)]), [], ["a", Send("b", 1)]),
        (Command(update=[("x", 1), ("y", 2)]), [("x", 1), ("y", 2)], None),
        (Send("a", 1), [], [Send("a", 1)]),
        ([{"x": 1}, {"x": 2}], [("x", 1), ("x", 2)], None),
        ([Send("a", 1), Send("b", 2)], [], [Send("a", 1), Send("b", 2)]),
        ([{"x": 1}, Command(update={"y": 2}, goto="a"), Send("b", 1)], [("x", 1), ("y", 2)], ["a", Send("b", 1)]),
        ((Command(goto="a"), Command(goto="b")), [], ["a", "b"]),
        ([Command(update={"x": 1}), None], [("x", 1)], None),
        ([("x", 1), ("y", 2)], [("x", 1), ("y", 2)], None),
        ([[{"x": 1}, Send("a", 1)], {"y": 1}], [("x", 1), ("y", 1)], [Send("a", 1)]),
    ],
)
def test_what_an_answer_means(answer: Any, writes: Any, targets: Any) -> None:
    assert read(answer) == (writes, targets)


@pytest.mark.parametrize("answer", ["text", 3, [3], [Command(), 3], Command(update=3), object(), Send, Command])
def test_what_no_answer_is(answer: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="'node'"):
        read(answer)


@pytest.mark.parametrize("goto", [3, None, [3], [["a"]], {"a": 1}])
def test_a_goto_names_nodes_or_is_a_send(goto: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="goto="):
        read(Command(goto=goto))


def test_only_input_answers_questions() -> None:
    with pytest.raises(InvalidUpdateError, match="Only the input of a run"):
        read(Command(resume=None))


def test_a_command_for_the_parent_leaves_the_graph() -> None:
    command = Command(graph=Command.PARENT, update={"z": 1}, goto="elsewhere")

    with pytest.raises(ParentCommand) as caught:
        read(command)
    assert caught.value.commands == (command,)
    assert not isinstance(caught.value, Exception)


def test_an_unknown_key_in_one_part_of_a_list_is_found() -> None:
    with pytest.raises(InvalidUpdateError, match="'z'"):
        read([{"x": 1}, Command(update={"z": 1})], unknown_keys="error")


def test_a_mapping_is_not_copied_where_nothing_has_to_change() -> None:
    update = {"x": 1}

    assert read_node_output(update, reader(), "node", IDS).writes is update


def test_messages_in_the_parts_of_a_list_get_ids_of_their_own() -> None:
    messages = UpdateReader({"messages": Messages()}, closed=True, bare_messages="messages")
    parts = [Command(update={"messages": "one"}), {"messages": ["two", "three"]}, Message("four")]
    found = read_node_output(parts, messages, "node", IDS)

    ids = [one.id for _, batch in found.writes for one in batch.items]
    assert len(set(ids)) == 4
    assert all(ids)


def test_a_bare_list_is_messages_where_the_state_is() -> None:
    messages = UpdateReader({"messages": Messages()}, closed=True, bare_messages="messages")

    writes = dict(read_node_output(["one", ("user", "two")], messages, "node", IDS).writes)
    assert list(writes) == ["messages"]


def test_a_list_is_the_update_of_a_root_state() -> None:
    root = StateSchema({}).fields
    assert root == {}
    whole = UpdateReader({"__root__": LastValue()}, closed=True)

    assert read_node_output([1, 2], whole, "node", IDS).writes == {"__root__": [1, 2]}
