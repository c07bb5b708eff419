"""The words with which a node answers."""

from typing import Any

import pytest

from statewright import END, START, STOP, Command, Send
from statewright.graph.command import RESERVED


def test_the_places_that_are_no_nodes_have_names_of_their_own() -> None:
    assert len(RESERVED) == 3
    assert {START, END, STOP} == RESERVED


def test_sends_are_equal_by_node_argument_and_gathering() -> None:
    assert Send("a", [1]) == Send("a", [1])
    assert Send("a", [1]) != Send("a", [2])
    assert Send("a", 1) != Send("b", 1)
    assert Send("a", 1) != Send("a", 1, gather=True)
    assert Send("a", 1) != "a"


def test_a_send_cannot_be_hashed_because_its_argument_may_not() -> None:
    with pytest.raises(TypeError):
        hash(Send("a", 1))


def test_gathering_is_keyword_only() -> None:
    with pytest.raises(TypeError):
        Send("a", 1, True)  # type: ignore[misc]


def test_none_is_an_answer_and_no_answer_is_none() -> None:
    assert Command(resume=None).resumes
    assert not Command().resumes
    assert not Command(update={}).resumes


@pytest.mark.parametrize(
    ("goto", "targets"),
    [((), ()), ("a", ("a",)), (["a", "b"], ["a", "b"]), (Send("a", 1), (Send("a", 1),))],
)
def test_targets_are_the_goto_as_a_sequence(goto: object, targets: object) -> None:
    assert Command(goto=goto).targets == targets  # type: ignore[arg-type]


def test_a_command_is_shown_with_what_it_says() -> None:
    assert repr(Command()) == "Command()"
    assert repr(Command(update={"x": 1}, goto="a")) == "Command(update={'x': 1}, goto='a')"
    assert repr(Command(resume=None)) == "Command(resume=None)"
    assert repr(Command(graph=Command.PARENT)) == "Command(graph='__parent__')"


def test_an_update_whose_comparison_is_not_a_bool_can_be_shown() -> None:
    class Array:
        def __eq__(self, other: object) -> Any:
            raise ValueError("the truth value of an array is ambiguous")

        def __repr__(self) -> str:
            return "array"

    assert repr(Command(update=Array())) == "Command(update=array)"
    assert repr(Send("a", 1, gather=True)) == "Send('a', 1, gather=True)"
    assert repr(Send("a", 1)) == "Send('a', 1)"


def test_everything_in_a_command_is_named() -> None:
    with pytest.raises(TypeError):
        Command({"x": 1})  # type: ignore[misc]


def test_a_command_may_be_annotated_with_its_targets() -> None:
    from typing import Literal

    assert Command[Literal["a"]](goto="a").targets == ("a",)
