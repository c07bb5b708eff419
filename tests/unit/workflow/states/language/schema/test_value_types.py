"""Types of values: valid and invalid values, and their JSON Schema."""

from typing import Any

import jsonschema_rs
import pytest

from statewright.errors import Problem
from statewright.workflow.states.language.diagnostics import Diagnostics
from statewright.workflow.states.language.schema.value_types import (
    INVALID,
    Anything,
    Choice,
    Flag,
    ListOf,
    Map,
    Number,
    Text,
    ValueType,
)
from statewright.workflow.states.language.yaml.read import read_document


def read(kind: ValueType, text: str) -> tuple[Any, tuple[Problem, ...]]:
    diagnostics = Diagnostics()
    root = read_document(f"key: {text}").root
    assert root is not None
    assert isinstance(root.content, dict)
    assert kind.json_schema() is not None
    return kind.read(root.content["key"], ("key",), diagnostics), diagnostics.problems


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Text(), "abc", "abc"),
        (Text(), "''", ""),
        (Number(0), "1", 1.0),
        (Number(0, 2), "0.5", 0.5),
        (Number(1, 5, is_whole=True), "5", 5),
        (Number(1, 5, is_whole=True), "2.0", 2),
        (Flag(), "yes", True),
        (Flag(("keep_current",)), "keep_current", "keep_current"),
        (Choice(("a", "b")), "b", "b"),
        (Anything(), "[1, {a: null}]", [1, {"a": None}]),
        (Map(), "{a: [1]}", {"a": [1]}),
        (ListOf(Text()), "[a, b]", ("a", "b")),
        (ListOf(Text()), "[]", ()),
    ],
)
def test_valid_values_are_read(kind: ValueType, text: str, value: object) -> None:
    read_value, problems = read(kind, text)
    assert problems == ()
    assert read_value == value
    assert type(read_value) is type(value)
    plain = read_document(f"key: {text}").root
    assert plain is not None
    assert jsonschema_rs.is_valid(kind.json_schema(), plain.to_plain()["key"])


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        (Text(), "5", "Put it in quotes: '5'"),
        (Text(), "no", "Put it in quotes: 'no'"),
        (Text(), "[a]", "a list"),
        (Text(may_be_empty=False), "''", "not empty"),
        (Number(0), "'5'", "without quotes"),
        (Number(0), "1e3", "write 1000.0"),
        (Number(0), "true", "true"),
        (Number(0), "abc", "a number of at least 0"),
        (Number(1, 5), "6", "from 1 to 5"),
        (Number(1, 5), "0", "from 1 to 5"),
        (Number(1, 5, is_whole=True), "2.5", "a whole number"),
        (Flag(), "'true'", "without quotes"),
        (Flag(), "1", "true or false"),
        (Flag(("keep_current",)), "keep", "'keep_current'"),
        (Choice(("Sequential",)), "sequental", "Did you mean 'Sequential'?"),
        (Choice(("a",)), "[a]", "'a'"),
        (Map(), "[a]", "a map"),
        (ListOf(Text()), "a", "Write it as a list: [a]"),
        (ListOf(Text()), "{a: 1}", "'- '"),
        (ListOf(Text(), min_items=1, advice="Write one."), "[]", "Write one."),
        (ListOf(Text()), "[a, 1]", "An item of 'key'"),
        (ListOf(Text(), distinct=True), "[a, b, a]", "twice"),
    ],
)
def test_messages_describe_the_value_and_a_correction(kind: ValueType, text: str, expected: str) -> None:
    _, problems = read(kind, text)
    assert len(problems) == 1
    assert expected in str(problems[0])
    assert problems[0].suggestion
    plain = read_document(f"key: {text}").root
    assert plain is not None
    assert not jsonschema_rs.is_valid(kind.json_schema(), plain.to_plain()["key"])


def test_invalid_items_of_a_list_are_omitted() -> None:
    assert read(ListOf(Text()), "[a, 1, b]")[0] == ("a", "b")


@pytest.mark.parametrize("kind", [Text(), Number(0), Flag(), Choice(("a",)), Map(), ListOf(Text()), Anything()])
def test_a_value_with_invalid_yaml_is_not_reported_again(kind: ValueType) -> None:
    assert read(kind, "*nowhere") == (INVALID, ())


def test_long_texts_are_shortened_in_messages() -> None:
    assert len(str(read(Number(0), "x" * 1000)[1][0])) < 250
