"""Reading the output of a node, without a graph."""

from types import SimpleNamespace
from typing import Any

import pytest

from statewright import Command, Send
from statewright.channels import Append, LastValue, Messages
from statewright.errors import InvalidUpdateError
from statewright.graph.node_output import ParentCommand, read_node_output
from statewright.messages import Message
from statewright.state import UpdateReader

IDS = SimpleNamespace(id="task")


def reader(**options: Any) -> UpdateReader:
    return UpdateReader({"log": Append(), "x": LastValue(), "y": LastValue()}, closed=True, **options)


def read(output: Any, **options: Any) -> tuple[list[tuple[str, Any]], Any]:
    answer = read_node_output(output, reader(**options), "node", IDS)
    writes = answer.writes
    return list(writes.items()) if isinstance(writes, dict) else list(writes), answer.targets


@pytest.mark.parametrize(
    ("output", "writes", "targets"),
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
def test_reading_an_output_returns_its_writes_and_targets(output: Any, writes: Any, targets: Any) -> None:
    assert read(output) == (writes, targets)


@pytest.mark.parametrize("output", ["text", 3, [3], [Command(), 3], Command(update=3), object(), Send, Command])
def test_an_invalid_output_is_refused(output: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="'node'"):
        read(output)


@pytest.mark.parametrize("goto", [3, None, [3], [["a"]], {"a": 1}])
def test_an_invalid_goto_is_refused(goto: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="goto="):
        read(Command(goto=goto))


def test_a_node_cannot_return_a_resume() -> None:
    with pytest.raises(InvalidUpdateError, match="Only the input of a run"):
        read(Command(resume=None))


def test_a_command_for_the_parent_is_raised() -> None:
    command = Command(graph=Command.PARENT, update={"z": 1}, goto="elsewhere")

    with pytest.raises(ParentCommand) as caught:
        read(command)
    assert caught.value.commands == (command,)
    assert not isinstance(caught.value, Exception)


def test_an_unknown_key_in_one_part_of_a_list_is_refused() -> None:
    with pytest.raises(InvalidUpdateError, match="'z'"):
        read([{"x": 1}, Command(update={"z": 1})], unknown_keys="error")


def test_a_mapping_that_needs_no_change_is_not_copied() -> None:
    update = {"x": 1}

    assert read_node_output(update, reader(), "node", IDS).writes is update


def test_messages_in_several_parts_of_a_list_get_different_ids() -> None:
    messages = UpdateReader({"messages": Messages()}, closed=True, bare_messages="messages")
    parts = [Command(update={"messages": "one"}), {"messages": ["two", "three"]}, Message("four")]
    output = read_node_output(parts, messages, "node", IDS)

    ids = [message.id for _, batch in output.writes for message in batch.items]
    assert len(set(ids)) == 4
    assert all(ids)


def test_a_bare_list_is_messages_in_a_messages_state() -> None:
    messages = UpdateReader({"messages": Messages()}, closed=True, bare_messages="messages")

    writes = dict(read_node_output(["one", ("user", "two")], messages, "node", IDS).writes)
    assert list(writes) == ["messages"]


def test_a_list_is_the_update_of_a_root_state() -> None:
    root = UpdateReader({"__root__": LastValue()}, closed=True)

    assert read_node_output([1, 2], root, "node", IDS).writes == {"__root__": [1, 2]}
