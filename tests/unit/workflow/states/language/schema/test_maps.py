"""Maps with declared keys: presence, combinations and names of keys."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import pytest

from statewright.workflow.states.language.diagnostics import Diagnostics
from statewright.workflow.states.language.schema.keys import Ignored, Key, Renamed
from statewright.workflow.states.language.schema.maps import ExclusiveKeys, MapSchema, ParsedMap
from statewright.workflow.states.language.schema.value_types import INVALID, Number
from statewright.workflow.states.language.yaml.nodes import Mark
from statewright.workflow.states.language.yaml.read import read_document


@dataclass(frozen=True)
class Thing:
    """A thing."""

    schema: ClassVar = MapSchema(
        "thing",
        "a map of things",
        noun="The thing",
        one_of=("left", "right"),
        exclusive=(ExclusiveKeys("left", "right", "Keep one."),),
        requires=(("extra", "left"),),
    )
    id: Annotated[str, Key("Its name.", aliases=("called",))]
    left: Annotated[str | None, Key("One.")] = None
    right: Annotated[str | None, Key("Other.")] = None
    extra: Annotated[float | None, Number(0), Key("More.")] = None
    old_extra: ClassVar = Renamed("extra")
    older_extra: ClassVar = Renamed("extra", both_allowed=True)
    idle: ClassVar = Ignored("it never did.")


@dataclass(frozen=True)
class Outer:
    """A map with a thing."""

    schema: ClassVar = MapSchema("outer", "a map")
    thing: Annotated[Thing | None, Key("Inner.")] = None


def read(text: str) -> tuple[Any, list[str], list[str]]:
    diagnostics = Diagnostics()
    root = read_document(text).root
    assert root is not None
    part = Thing.schema.read(root, (), diagnostics)
    return part, [str(problem) for problem in diagnostics.problems], [str(warning) for warning in diagnostics.warnings]


def test_values_are_stored_under_the_names_of_their_keys() -> None:
    part, problems, warnings = read("id: a\nleft: b\nextra: 1\n")
    assert problems == warnings == []
    assert isinstance(part, ParsedMap)
    assert part.values == {"id": "a", "left": "b", "extra": 1.0}
    assert part.label == "The thing 'a'"
    assert (part.at("left"), part.key_at("left"), part.at("right")) == (Mark(2, 7), Mark(2, 1), Mark(1, 1))


def test_null_counts_as_absent() -> None:
    part, problems, _ = read("id: a\nleft: b\nright: ~\nextra:\n")
    assert problems == []
    assert not part.has_key("right")


def test_a_missing_required_key_is_reported() -> None:
    assert "The thing has no 'id'. Add 'id'. Its name." in read("left: b")[1][0]
    assert "The thing has 'id' without a value. Write it after the colon." in read("left: b\nid: ~")[1][0]


@pytest.mark.parametrize("name", ["called", "idd", "Id"])
def test_a_misspelled_required_key_is_one_problem(name: str) -> None:
    _, problems, warnings = read(f"left: b\n{name}: a\n")
    assert len(problems) == 1
    assert f"It has '{name}' instead. Write it as 'id'." in problems[0]
    assert warnings == []


def test_a_group_needs_one_of_its_keys() -> None:
    assert "has none of the keys 'left', 'right'. Write one of them." in read("id: a")[1][0]


def test_a_misspelled_key_of_a_group_is_one_problem() -> None:
    _, problems, warnings = read("id: a\nrigth: b\n")
    assert len(problems) == 1
    assert "It has 'rigth' instead. Write it as 'right'." in problems[0]
    assert warnings == []


def test_conflicting_keys_are_reported_at_the_later_one() -> None:
    _, problems, _ = read("id: a\nright: b\nleft: c\n")
    assert "has both 'left' and 'right', which cannot be combined. Keep one." in problems[0]
    assert "line 3" in problems[0]


def test_a_key_with_an_invalid_value_counts_as_present() -> None:
    _, problems, _ = read("id: a\nleft: 1\n")
    assert len(problems) == 1


def test_a_key_may_require_another_key() -> None:
    assert "'extra' without 'left'" in read("id: a\nright: b\nextra: 1\n")[1][0]
    assert len(read("id: a\nextra: 1\n")[1]) == 1


def test_a_deprecated_key_sets_its_successor_with_a_warning() -> None:
    part, problems, warnings = read("id: a\nleft: b\nold_extra: 2\n")
    assert problems == []
    assert part.values["extra"] == 2.0
    assert part.key_at("extra") == Mark(3, 1)
    assert "Write 'extra'." in warnings[0]


def test_a_deprecated_key_and_its_successor_exclude_each_other() -> None:
    assert "Keep only 'extra'." in read("id: a\nleft: b\nold_extra: 2\nextra: 3\n")[1][0]


def test_the_successor_wins_where_both_keys_are_allowed() -> None:
    part, problems, warnings = read("id: a\nleft: b\nolder_extra: 2\nextra: 3\n")
    assert problems == []
    assert part.values["extra"] == 3.0
    assert "'extra' takes precedence." in warnings[0]


def test_1_5_1_unknown_keys_cause_a_warning_with_a_suggestion() -> None:
    _, problems, warnings = read("id: a\nleft: b\nrigth: c\nfoo: 1\n")
    assert problems == []
    assert "Did you mean 'right'?" in warnings[0]
    assert "Keys: id, left, right, extra." in warnings[1]


def test_a_misplaced_key_of_an_inner_map_gets_a_suggestion() -> None:
    diagnostics = Diagnostics()
    root = read_document("extra: 1").root
    assert root is not None
    Outer.schema.read(root, (), diagnostics)
    assert diagnostics.warnings[0].suggestion == "Move it into 'thing'."


def test_1_5_1_ignored_keys_cause_a_warning() -> None:
    _, problems, warnings = read("id: a\nleft: b\nidle: {x: 1}\n")
    assert problems == []
    assert "has no effect here: it never did." in warnings[0]


def test_1_5_keys_of_a_user_interface_are_ignored_without_a_warning() -> None:
    assert read("id: a\nleft: b\nmeta_x: 1\n")[1:] == ([], [])


def test_a_value_other_than_a_map_is_rejected() -> None:
    part, problems, _ = read("[a]")
    assert part is INVALID
    assert "must be a map of things, but is a list." in problems[0]
