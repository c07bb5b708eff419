"""Secrets in nested values: hidden by key and by pattern, without changing the input."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.redaction.redactor import MAX_DEPTH, Redactor

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["password", "x"]), inner),
    max_leaves=20,
)
SECRET = "correct horse battery staple"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"password": "x", "n": 1}, {"password": "[redacted]", "n": 1}),
        ({"a": [{"apiKey": {"deep": 1}}]}, {"a": [{"apiKey": "[redacted]"}]}),
        ([("authorization", "x"), ("accept", "y")], [("authorization", "[redacted]"), ("accept", "y")]),
        ([[b"Cookie", b"x"]], [[b"Cookie", "[redacted]"]]),
        ({"name": "api_key", "value": "x"}, {"name": "api_key", "value": "[redacted]"}),
        ({"key": "colour", "value": "x"}, {"key": "colour", "value": "x"}),
        (("sk-abcdefghijklmnop", 1), ("[redacted]", 1)),
        ({"tags": ["password", "reset"]}, {"tags": ["password", "reset"]}),
        ({"input_tokens": 3, "password": None}, {"input_tokens": 3, "password": None}),
        ({"x": {"whsec_abcdef"}}, {"x": {"[redacted]"}}),
        (7, 7),
    ],
)
def test_secrets_are_hidden_by_key_and_by_pattern(value: Any, expected: Any) -> None:
    assert Redactor().value(value) == expected


def test_custom_keys_patterns_and_emails_are_hidden() -> None:
    redactor = Redactor(keys=["iban"], patterns=[r"\bcase-\d+", re.compile(r"(?P<kept>id=)\d+")], emails=True)
    assert redactor.value({"IBAN": "DE1", "t": "case-17 id=4 of ann@example.com"}) == {
        "IBAN": "[redacted]",
        "t": "[redacted] id=[redacted] of [redacted]",
    }
    assert Redactor().text("ann@example.com") == "ann@example.com"
    assert redactor.is_secret("iban")
    assert not Redactor().is_secret("iban")


@given(JSON)
def test_the_input_is_not_changed(value: Any) -> None:
    before = copy.deepcopy(value)
    redacted = Redactor().value(value)
    assert value == before
    assert Redactor().value(redacted) == redacted


def _nested_secret(value: Any, path: list[str | int]) -> Any:
    """Nest the value, under the key of a secret, at the end of a path."""
    inner: Any = {"Client-Secret": value}
    for step in path:
        inner = [inner] * step if isinstance(step, int) else {step: inner}
    return inner


@given(
    st.lists(st.text(max_size=5) | st.integers(1, 3), max_size=8), st.sampled_from([SECRET, [SECRET], {"a": SECRET}])
)
def test_a_secret_is_hidden_at_any_depth(path: list[str | int], secret: Any) -> None:
    assert SECRET not in repr(Redactor().value(_nested_secret(secret, path)))


def test_a_value_without_secrets_is_returned_itself() -> None:
    value = {"a": [1, {"b": "c"}]}
    assert Redactor().value(value) is value


def test_values_below_the_maximum_depth_are_hidden() -> None:
    value: Any = SECRET
    for _ in range(10_000):
        value = [value]
    redacted, depth = Redactor().value(value), 0
    while isinstance(redacted, list):
        redacted, depth = redacted[0], depth + 1
    assert (redacted, depth) == ("[redacted]", MAX_DEPTH)


def test_a_value_that_contains_itself_is_hidden_there() -> None:
    value: dict[str, Any] = {"password": "x"}
    value["again"] = value
    assert Redactor().value(value) == {"password": "[redacted]", "again": "[redacted]"}


def test_shared_parts_are_redacted_once() -> None:
    value: Any = ["token=abc"]
    for _ in range(60):
        value = [value, value]
    redacted = Redactor().value(value)
    while isinstance(redacted[0], list):
        assert redacted[0] is redacted[1]
        redacted = redacted[0]
    assert redacted == ["token=[redacted]"]
