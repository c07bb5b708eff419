"""Checking values against the types of a schema."""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict

import pytest
import typing_extensions
from pydantic import BaseModel
from pydantic import Field as Described

from statewright.channels import Append, LastValue, Overwrite, Reduced, Topic, append
from statewright.errors import InvalidUpdateError
from statewright.state import (
    FieldCheck,
    SchemaChecks,
    StateSchema,
    check_value,
    constrained_annotations,
    read_schema,
    type_adapter,
)
from statewright.state.fields import Field
from statewright.state.validate import fast_check_for, is_checkable, modern_typeddict


class Colour(enum.Enum):
    RED = "red"


class Opaque:
    """A class that pydantic does not know."""


class OpaqueSubclass(Opaque):
    pass


@dataclass
class Point:
    x: int
    y: int = 0


class Model(BaseModel):
    n: int


class Inner(TypedDict):
    n: int
    note: NotRequired[str]


class Outer(TypedDict, total=False):
    inner: Inner


class Bounded(BaseModel):
    count: Annotated[int, Described(ge=0)] = 0
    name: str = Described(default="", max_length=3)
    free: int = 0
    best: Annotated[int, max, Described(ge=0)] = 0


OPAQUE, OPAQUE_SUBCLASS, POINT = Opaque(), OpaqueSubclass(), Point(1)


# -- one value


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, 3),
        (str, ""),
        (float, 0.5),
        (bool, False),
        (bytes, b""),
        (None, None),
        (type(None), None),
        (Any, OPAQUE),
        (object, OPAQUE),
        (Opaque, OPAQUE),
        (Opaque, OPAQUE_SUBCLASS),
        (Point, POINT),
        (Colour, Colour.RED),
        (Literal["a", 1], "a"),
        (Literal["a", 1], 1),
        (Optional[int], None),  # noqa: UP045
        (int | None, None),
        (int | str, "a"),
        (list, [1, "a"]),
        (list[int], []),
        (list[int], [1]),
        (list[Any], [OPAQUE]),
        (list[Opaque], [OPAQUE]),
        (dict, {1: 2}),
        (dict[str, int], {"a": 1}),
        (dict[str, Any], {"a": OPAQUE}),
        (set[int], {1}),
        (tuple[int, ...], (1, 2)),
        (tuple[int, str], (1, "a")),
        (Sequence[int], [1]),
        (Mapping[str, int], {"a": 1}),
        (Callable[[int], int], abs),
        (Inner, {"n": 1}),
        (Outer, {}),
        (Outer, {"inner": {"n": 1, "note": "a"}}),
    ],
)
def test_a_valid_value_is_returned_unchanged(hint: Any, value: Any) -> None:
    checked = check_value("x", hint, value)
    assert checked == value
    assert type(checked) is type(value)


@pytest.mark.parametrize(
    ("hint", "value", "converted"),
    [
        (int, "3", 3),
        (int, 3.0, 3),
        (float, 3, 3.0),
        (bool, "true", True),
        (Colour, "red", Colour.RED),
        (Point, {"x": "1"}, Point(1)),
        (Model, {"n": "1"}, Model(n=1)),
        (list[int], ["1"], [1]),
        (list[int], ("1",), [1]),
        (dict[str, int], {"a": "1"}, {"a": 1}),
        (set[int], [1], {1}),
        (tuple[int, ...], [1, "2"], (1, 2)),
        (Inner, {"n": "1"}, {"n": 1}),
        (Outer, {"inner": {"n": "1"}}, {"inner": {"n": 1}}),
        (Annotated[int, Described(gt=0)], "3", 3),
    ],
)
def test_a_value_is_converted_to_its_type(hint: Any, value: Any, converted: Any) -> None:
    checked = check_value("x", hint, value)
    assert checked == converted
    assert type(checked) is type(converted)


@pytest.mark.parametrize(
    ("hint", "value", "path", "actual"),
    [
        (int, "three", "", "'three' of type str"),
        (int, None, "", "None of type NoneType"),
        (int, 3.5, "", "3.5 of type float"),
        (str, 3, "", "3 of type int"),
        (None, 0, "", "0 of type int"),
        (Colour, "blue", "", "'blue' of type str"),
        (Literal["a"], "b", "", "'b' of type str"),
        (Literal["a"], [], "", r"\[\] of type list"),
        (int | None, "a", "", "'a' of type str"),
        (Opaque, 3, "", "3 of type int"),
        (list[int], "ab", "", "'ab' of type str"),
        (list[int], ["1", "b"], r"\[1\]", "'b' of type str"),
        (list[list[int]], [[1], ["b"]], r"\[1\]\[0\]", "'b' of type str"),
        (dict[str, int], {"a": "b"}, r"\['a'\]", "'b' of type str"),
        (Point, {"x": "b"}, r"\['x'\]", "'b' of type str"),
        (Model, {}, r"\['n'\]", r"\{\} of type dict"),
        (Inner, {"note": ""}, r"\['n'\]", "of type dict"),
        (Outer, {"inner": {"n": "b"}}, r"\['inner'\]\['n'\]", "'b' of type str"),
        (Annotated[int, Described(gt=0)], 0, "", "0 of type int"),
    ],
)
def test_an_invalid_value_is_refused_with_its_path(hint: Any, value: Any, path: str, actual: str) -> None:
    with pytest.raises(InvalidUpdateError, match=rf"^Field 'count'{path}: .*; found .*{actual}\.$"):
        check_value("count", hint, value)


def test_a_check_can_be_reused() -> None:
    check = FieldCheck(Field("x", int, LastValue(), None))
    for _ in range(2):
        assert [check(value) for value in (1, "2", 3.0)] == [1, 2, 3]
        with pytest.raises(InvalidUpdateError):
            check("a")


def test_another_annotation_replaces_the_type_of_the_field() -> None:
    check = FieldCheck(Field("x", int, LastValue(), None), Annotated[int, Described(gt=0)])
    assert check(1) == 1
    with pytest.raises(InvalidUpdateError, match="greater than 0"):
        check(-1)


# -- the fast check


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, 1),
        (Any, OPAQUE),
        (object, None),
        (None, None),
        (int | None, None),
        (int | Sequence[int], 1),
        (Literal["a", 1], 1),
        (list, [1]),
        (list[int], [1, 2]),
        (list[list[str]], [["a"], []]),
        (dict[str, list[int]], {"a": [1]}),
        (set[str], {"a"}),
        (Opaque, OPAQUE),
        (Model, Model(n=1)),
    ],
)
def test_a_fast_check_accepts_valid_values(hint: Any, value: Any) -> None:
    fast_check = fast_check_for(hint)
    assert fast_check is not None
    assert fast_check(value) is True


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, True),
        (int, 1.0),
        (float, 1),
        (str, None),
        (int | None, True),
        (Literal[1], True),
        (Literal["a"], "b"),
        (Literal["a"], []),
        (Literal[Colour.RED], Colour.RED),
        (list[int], [True]),
        (list[int], [1, "a"]),
        (list[int], (1,)),
        (dict[str, int], {1: 1}),
        (dict[str, int], {"a": "b"}),
        (set[int], frozenset({1})),
        (Opaque, OPAQUE_SUBCLASS),
        (int | Sequence[int], [1]),
    ],
)
def test_a_fast_check_leaves_uncertain_values_to_the_full_check(hint: Any, value: Any) -> None:
    fast_check = fast_check_for(hint)
    assert fast_check is not None
    assert fast_check(value) is False


@pytest.mark.parametrize(
    "hint",
    [Inner, Sequence[int], tuple[int, str], list[Sequence[int]], list[Inner], Callable[[], int], Annotated[int, "a"]],
)
def test_complex_types_have_no_fast_check(hint: Any) -> None:
    assert fast_check_for(hint) is None


# -- all fields of a schema


def checks(**fields: Any) -> SchemaChecks:
    return SchemaChecks(StateSchema(fields).fields, {})


def test_a_valid_update_is_returned_itself() -> None:
    update = {"a": 1, "b": "x"}
    assert checks(a=int, b=str).check(update) is update


def test_a_converted_value_is_in_a_new_update() -> None:
    update = {"a": "1", "b": "x", "c": "2"}
    assert checks(a=int, b=str, c=int).check(update) == {"a": 1, "b": "x", "c": 2}
    assert update == {"a": "1", "b": "x", "c": "2"}


@pytest.mark.parametrize(
    ("update", "checked"),
    [
        ({}, {}),
        ({"z": "unknown"}, {"z": "unknown"}),
        ({"a": Overwrite("1")}, {"a": Overwrite(1)}),
        ({"a": Overwrite(1)}, {"a": Overwrite(1)}),
    ],
)
def test_a_check_converts_overwrites_and_ignores_unknown_keys(update: dict[str, Any], checked: dict[str, Any]) -> None:
    assert checks(a=int).check(update) == checked


@pytest.mark.parametrize("update", [{"a": "x"}, {"a": Overwrite("x")}, {"a": None}, {"b": "x", "a": Overwrite(None)}])
def test_an_invalid_value_is_refused_with_the_name_of_its_field(update: dict[str, Any]) -> None:
    with pytest.raises(InvalidUpdateError, match="Field 'a'"):
        checks(a=int, b=str).check(update)


@pytest.mark.parametrize(
    ("channel", "expected"),
    [
        (LastValue(), True),
        (Append(items=False), True),
        (Append(), False),
        (Reduced(max), False),
        (Topic(), False),
    ],
)
def test_fields_whose_updates_have_their_type_are_checkable(channel: Any, expected: bool) -> None:
    assert is_checkable(Field("x", list[int], channel, None)) is expected


def test_updates_of_fields_with_reducers_are_not_checked() -> None:
    fields = {"x": Field("x", int, Reduced(max), None), "log": Field("log", list[int], Append(), None)}
    update = {"x": "text", "log": "text"}
    assert SchemaChecks(fields, {}).check(update) is update


# -- pydantic's constraints


def test_the_constraints_of_a_model_are_checked() -> None:
    schema = read_schema(Bounded)
    bounded = SchemaChecks(schema.fields, constrained_annotations(schema))

    assert bounded.check({"count": "1", "name": "abc", "free": -1, "best": -1}) == {
        "count": 1,
        "name": "abc",
        "free": -1,
        "best": -1,
    }
    for update in ({"count": -1}, {"name": "abcd"}, {"count": Overwrite(-1)}):
        with pytest.raises(InvalidUpdateError, match=f"Field '{next(iter(update))}'"):
            bounded.check(update)


def test_constrained_annotations_are_of_fields_with_constraints_only() -> None:
    assert set(constrained_annotations(read_schema(Bounded))) == {"count", "name", "best"}


@pytest.mark.parametrize("source", [Inner, Point, int, {"x": append}])
def test_other_kinds_of_schema_have_no_constraints(source: Any) -> None:
    assert constrained_annotations(read_schema(source)) == {}


# -- pydantic's adapters


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(int, 1), (Opaque, OPAQUE), (list[Opaque], [OPAQUE]), (Model, Model(n=1)), (Point, POINT), (Inner, {"n": 1})],
)
def test_every_kind_of_annotation_has_a_type_adapter(annotation: Any, value: Any) -> None:
    assert type_adapter(annotation).validate_python(value) == value


def test_modern_typeddict_keeps_the_name_and_keys() -> None:
    modern = modern_typeddict(Outer)
    assert typing_extensions.is_typeddict(modern)
    assert (modern.__name__, modern.__required_keys__, modern.__optional_keys__) == ("Outer", set(), {"inner"})
    assert modern_typeddict(Inner).__required_keys__ == {"n"}


@pytest.mark.parametrize("annotation", [int, list[int], Point, Model, None, Any])
def test_modern_typeddict_returns_other_annotations_unchanged(annotation: Any) -> None:
    assert modern_typeddict(annotation) is annotation
