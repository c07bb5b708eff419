"""Plain scalars of YAML 1.1 and their JSON values."""

import re

import pytest

from statewright.workflow.states.language.yaml.scalars import read_as, read_plain


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("yes", True),
        ("No", False),
        ("on", True),
        ("OFF", False),
        ("true", True),
        ("~", None),
        ("", None),
        ("Null", None),
        ("12", 12),
        ("-7", -7),
        ("1_000", 1000),
        ("0x1f", 31),
        ("017", 15),
        ("0b11", 3),
        ("1:30", 90),
        ("1.5", 1.5),
        ("1.0e+3", 1000.0),
    ],
)
def test_1_0_plain_scalars_follow_yaml_1_1(word: str, value: object) -> None:
    assert read_plain(word) == value
    assert type(read_plain(word)) is type(value)


@pytest.mark.parametrize("word", ["y", "n", "1e3", "2020-01-02", "2020-01-02 10:00:00", "<<", "=", "0x_", "9" * 101])
def test_other_scalars_are_strings(word: str) -> None:
    assert read_plain(word) == word


@pytest.mark.parametrize("word", [".inf", "-.INF", ".nan", "1.0e+999"])
def test_infinite_numbers_are_rejected(word: str) -> None:
    with pytest.raises(ValueError, match=re.escape(word)):
        read_plain(word)


@pytest.mark.parametrize(("kind", "word", "value"), [("str", "5", "5"), ("int", "5", 5), ("bool", "yes", True)])
def test_a_tagged_scalar_is_read_as_its_type(kind: str, word: str, value: object) -> None:
    assert read_as(kind, word) == value


@pytest.mark.parametrize(("kind", "word"), [("int", "x"), ("int", ""), ("bool", "maybe"), ("float", "?"), ("set", "x")])
def test_a_scalar_that_does_not_match_its_tag_is_rejected(kind: str, word: str) -> None:
    with pytest.raises(LookupError):
        read_as(kind, word)
