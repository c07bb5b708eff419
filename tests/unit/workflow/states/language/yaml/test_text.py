"""Texts that are rejected before parsing."""

import pytest
from tests.work import spend_at_most

from statewright.errors import Problem
from statewright.workflow.states.language.yaml.text import MAX_BYTES, UnreadableText, decode_text, split_lines


def decode_problem(text: str | bytes) -> Problem:
    with pytest.raises(UnreadableText) as caught:
        decode_text(text)
    assert caught.value.problem.suggestion
    return caught.value.problem


def test_a_byte_order_mark_is_skipped() -> None:
    assert (
        decode_text("\ufeffa: 1") == decode_text(b"\xef\xbb\xbfa: 1") == decode_text("a: 1".encode("utf-16")) == "a: 1"
    )


@pytest.mark.parametrize(("text", "position"), [("a: \x00", (1, 4)), ("a:\n  \x07", (2, 3)), ("\x1b[0m", (1, 1))])
def test_control_characters_are_rejected(text: str, position: tuple[int, int]) -> None:
    problem = decode_problem(text)
    assert "U+" in problem.message
    assert (problem.line, problem.column) == position


@pytest.mark.parametrize("text", [b"a: \xff", b"\xc3\xa4: 1\nb: \xe4", b"\xff\xfea\x00:\x00 \x00\x00\xd8"])
def test_invalid_bytes_are_rejected(text: bytes) -> None:
    assert "is not valid UTF-" in decode_problem(text).message


def test_the_position_of_an_invalid_byte_is_counted_in_characters() -> None:
    problem = decode_problem("ä: 1\nüb: ".encode() + b"\xff")
    assert (problem.line, problem.column) == (2, 5)


def test_a_file_above_the_size_limit_is_rejected() -> None:
    assert "larger than" in decode_problem("#" * (MAX_BYTES + 1)).message


def test_many_directives_are_rejected() -> None:
    with spend_at_most():
        problem = decode_problem("".join(f"%TAG !a{i}! x\n" for i in range(200_000)) + "---\na: 1\n")
    assert "'%'" in problem.message


def test_lines_are_split_as_in_yaml() -> None:
    assert split_lines("a\r\nb\rc\u2028d\n") == ["a", "b", "c", "d", ""]
