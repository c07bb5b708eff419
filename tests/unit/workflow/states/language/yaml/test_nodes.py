"""Values with their positions, and paths to them."""

from typing import Any

from statewright.workflow.states.language.yaml.nodes import Mark, format_path, shorten
from statewright.workflow.states.language.yaml.read import read_document


def test_each_call_of_plain_builds_new_values() -> None:
    root = read_document("a: &x [1]\nb: *x\n").root
    assert root is not None
    first, second = root.to_plain(), root.to_plain()
    first["a"].append(2)
    assert first["b"] == [1]
    assert second == {"a": [1], "b": [1]}


def test_every_key_and_value_has_its_position() -> None:
    root: Any = read_document("states:\n  - id: é\n    next: {state_id: end}\n").root
    state = root.content["states"].content[0]
    transition = state.content["next"]
    assert (root.at, state.at, transition.at) == (Mark(1, 1), Mark(2, 5), Mark(3, 11))
    assert transition.content["state_id"].at == Mark(3, 22)
    assert transition.key_marks == {"state_id": Mark(3, 12)}


def test_paths_are_formatted_as_an_author_would_write_them() -> None:
    assert format_path(("states", 2, "next", "two words")) == "states[2].next['two words']"
    assert format_path(()) == ""


def test_shorten_keeps_the_beginning() -> None:
    assert shorten("abc", 3) == "abc"
    assert shorten("abcdefgh", 6) == "abc..."


def test_shorten_removes_control_characters() -> None:
    assert shorten("a\x1b[31m\nb") == "a [31m b"
