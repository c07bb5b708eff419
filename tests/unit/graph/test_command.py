"""`Command`, `Send` and the reserved node names."""

from typing import Any

import pytest

from statewright import END, START, STOP, Command, Send
from statewright.graph.command import RESERVED


def test_start_end_and_stop_are_reserved_names() -> None:
    assert len(RESERVED) == 3
    assert {START, END, STOP} == RESERVED


def test_equality_of_sends_compares_node_argument_and_gather() -> None:
    assert Send("a", [1]) == Send("a", [1])
    assert Send("a", [1]) != Send("a", [2])
    assert Send("a", 1) != Send("b", 1)
    assert Send("a", 1) != Send("a", 1, gather=True)
    assert Send("a", 1) != "a"


def test_a_send_is_unhashable() -> None:
    with pytest.raises(TypeError):
        hash(Send("a", 1))


def test_gather_is_keyword_only() -> None:
    with pytest.raises(TypeError):
        Send("a", 1, True)  # type: ignore[misc]


def test_a_command_resumes_with_none_but_not_without_resume() -> None:
    assert Command(resume=None).resumes
    assert not Command().resumes
    assert not Command(update={}).resumes


@pytest.mark.parametrize(
    ("goto", "targets"),
    [((), ()), ("a", ("a",)), (["a", "b"], ["a", "b"]), (Send("a", 1), (Send("a", 1),))],
)
def test_targets_of_a_command_are_its_goto_as_a_sequence(goto: object, targets: object) -> None:
    assert Command(goto=goto).targets == targets  # type: ignore[arg-type]


def test_the_repr_of_a_command_shows_its_arguments() -> None:
    assert repr(Command()) == "Command()"
    assert repr(Command(update={"x": 1}, goto="a")) == "Command(update={'x': 1}, goto='a')"
    assert repr(Command(resume=None)) == "Command(resume=None)"
    assert repr(Command(graph=Command.PARENT)) == "Command(graph='__parent__')"


def test_the_repr_does_not_compare_the_update() -> None:
    class Array:
        def __eq__(self, other: object) -> Any:
            raise ValueError("the truth value of an array is ambiguous")

        def __repr__(self) -> str:
            return "array"

    assert repr(Command(update=Array())) == "Command(update=array)"
    assert repr(Send("a", 1, gather=True)) == "Send('a', 1, gather=True)"
    assert repr(Send("a", 1)) == "Send('a', 1)"


def test_the_arguments_of_a_command_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        Command({"x": 1})  # type: ignore[misc]


def test_command_can_be_subscripted_with_its_targets() -> None:
    from typing import Literal

    assert Command[Literal["a"]](goto="a").targets == ("a",)
