"""Shortening of values for messages."""

from statewright.text import short_repr, shorten


class _Broken:
    def __repr__(self) -> str:
        raise ValueError


def test_long_texts_are_cut() -> None:
    assert (shorten("abcdef", 6), shorten("abcdefg", 6)) == ("abcdef", "abc...")


def test_representations_of_values_are_cut() -> None:
    assert short_repr("a" * 100, 10) == "'aaaaaa..."
    assert short_repr([1]) == "[1]"
    assert short_repr(_Broken()) == "a value of type _Broken"
