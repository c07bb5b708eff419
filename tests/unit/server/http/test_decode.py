"""Bodies are decoded strictly: values that would cause trouble later are refused with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.errors import InvalidRequest
from statewright.server.http.decode import MAX_DEPTH, decode

HOSTILE = {
    "nothing": (b"", "not valid JSON"),
    "half": (b'{"a": ', "not valid JSON"),
    "two values": (b"{} {}", "not valid JSON"),
    "python": (b"{'a': 1}", "not valid JSON"),
    "comment": (b'{"a": 1 /* one */}', "not valid JSON"),
    "trailing comma": (b"[1,]", "not valid JSON"),
    "byte order mark": (b"\xef\xbb\xbf{}", "not valid JSON"),
    "invalid UTF-8": (b'{"a": "\xff\xfe"}', "not valid JSON"),
    "overlong UTF-8": (b'"\xc0\xaf"', "not valid JSON"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "not valid JSON"),
    "lone surrogate": (b'{"a": "\\ud800"}', "not valid JSON"),
    "lone surrogate as a name": (b'{"\\udfff": 1}', "not valid JSON"),
    "raw control character": (b'{"a": "\x01"}', "not valid JSON"),
    "raw NUL": (b'{"a": "\x00"}', "not valid JSON"),
    "NUL": (b'{"a": "b\\u0000c"}', "NUL"),
    "NUL as a name": (b'{"a\\u0000": 1}', "NUL"),
    "NUL deep": (b'{"a": [{"b": ["\\u0000"]}]}', "NUL"),
    "NaN": (b'{"a": NaN}', "not valid JSON"),
    "Infinity": (b"[Infinity]", "not valid JSON"),
    "minus Infinity": (b"[-Infinity]", "not valid JSON"),
    "too large": (b'{"a": 1e999}', "1e999"),
    "too large below zero": (b"[-1e400]", "-1e400"),
    "digits": (b"[" + b"9" * 101 + b"]", "101 digits"),
    "thousands of digits": (b"[" + b"9" * 5000 + b"]", "not valid JSON"),
    "a million digits": (b"[" + b"9" * 1_000_000 + b"]", "not valid JSON"),
    "a name twice": (b'{"a": 1, "b": 2, "a": 3}', "'a' appears twice"),
    "a name twice deep": (b'{"x": [{"a": 1, "\\u0061": 3}]}', "'a' appears twice"),
    "deep lists": (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "deep"),
    "deep maps": (b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), "deep"),
    "very deep": (b"[" * 100_000 + b"]" * 100_000, "not valid JSON"),
    "very deep and never closed": (b"[" * 1_000_000, "not valid JSON"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bodies_are_refused_with_a_reason(name: str):
    body, reason = HOSTILE[name]
    with pytest.raises(InvalidRequest, match=reason):
        decode(body)


def test_the_largest_depth_is_accepted():
    text = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert decode(text) == json.loads(text)


def test_many_sibling_containers_are_not_deep():
    assert decode(b"[" + b",".join([b"[]"] * 5000) + b"]") == [[]] * 5000


def test_an_escaped_backslash_before_u0000_is_not_a_nul():
    assert decode(b'"\\\\u0000"') == "\\u0000"


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_every_other_value_is_decoded_unchanged(value: Any):
    assert decode(json.dumps(value).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_an_invalid_request(body: bytes):
    try:
        value = decode(body)
    except InvalidRequest:
        return
    assert decode(json.dumps(value).encode()) == value
