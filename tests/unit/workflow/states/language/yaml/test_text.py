"""Texts that no parser should be given."""

import pytest
from tests.work import spend_at_most

from statewright.errors import Problem
from statewright.workflow.states.language.yaml.text import MAX_BYTES, UnreadableText, decode_text, split_lines


def refused(text: str | bytes) -> Problem:
    with pytest.raises(UnreadableText) as caught:
        decode_text(text)
    assert caught.value.problem.suggestion
    return caught.value.problem


def test_a_byte_order_mark_is_skipped() -> None:
    assert (
        decode_text("\ufeffa: 1") == decode_text(b"\xef\xbb\xbfa: 1") == decode_text("a: 1".encode("utf-16")) == "a: 1"
    )


@pytest.mark.parametrize(("text", "place"), [("a: \x00", (1, 4)), ("a:\n  \x07", (2, 3)), ("\x1b[0m", (1, 1))])
def test_control_characters_are_refused(text: str, place: tuple[int, int]) -> None:
    found = refused(text)
    assert "U+" in found.message
    assert (found.line, found.column) == place


@pytest.mark.parametrize("text", [b"a: \xff", b"\xc3\xa4: 1\nb: \xe4", b"\xff\xfea\x00:\x00 \x00\x00\xd8"])
def test_bytes_that_are_no_text_are_refused_with_their_place(text: bytes) -> None:
    assert "is not valid UTF-" in refused(text).message


def test_the_place_of_a_wrong_byte_is_counted_in_characters() -> None:
    found = refused("ä: 1\nüb: ".encode() + b"\xff")
    assert (found.line, found.column) == (2, 5)


def test_a_file_that_is_too_large_is_refused() -> None:
    assert "larger than" in refused("#" * (MAX_BYTES + 1)).message


def test_many_directives_are_refused() -> None:
    with spend_at_most():
        found = refused("".join(f"%TAG !a{i}! x\n" for i in range(200_000)) + "---\na: 1\n")
    assert "'%'" in found.message


def test_lines_are_counted_as_yaml_does() -> None:
    assert split_lines("a\r\nb\rc\u2028d\n") == ["a", "b", "c", "d", ""]
