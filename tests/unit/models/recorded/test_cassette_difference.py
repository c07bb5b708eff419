"""The difference between a request and the recorded ones."""

from typing import Any

import pytest

from statewright.models.recorded.cassette import describe_difference


@pytest.mark.parametrize(
    ("recorded", "requested", "expected"),
    [
        ({"system": "a"}, {"system": "b"}, "system: recorded 'a', requested 'b'"),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1]}}, "a.b[1]: recorded 2, requested nothing"),
        ({}, {"seed": 3}, "seed: recorded nothing, requested 3"),
        ({"t": 1}, {"t": "1"}, "t: recorded 1, requested '1'"),
        ({"t": "a" * 99 + "b"}, {"t": "a" * 99 + "c"}, f"t: recorded '...{'a' * 20}b', requested '...{'a' * 20}c'"),
        ({"t": "x" * 99}, {"t": 0}, f"t: recorded '{'x' * 60}...', requested 0"),
        ({"t": "ab"}, {"t": "abc"}, "t: recorded 'ab', requested 'abc'"),
    ],
)
def test_a_difference_names_its_path_and_both_values(recorded: Any, requested: Any, expected: str) -> None:
    assert describe_difference(requested, [recorded]) == expected


def test_the_most_similar_record_is_compared() -> None:
    assert describe_difference({"a": 1, "b": 2}, [{"a": 0, "b": 0}, {"a": 1, "b": 3}]) == "b: recorded 3, requested 2"


def test_at_most_three_differences_are_listed() -> None:
    description = describe_difference(dict.fromkeys("abcde", 1), [dict.fromkeys("abcde", 2)])
    assert description.count("recorded") == 3
    assert description.endswith("; and 2 more")
