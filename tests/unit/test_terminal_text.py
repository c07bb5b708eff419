"""Text written for a terminal, made safe to store and print."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.work import spend_at_most

from statewright.terminal_text import cut_middle, last_written, printable, without_control_characters


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b[2K\x1b[1A\x1b(Bup", "up"),
        ("10%\r50%\r100%\ndone\r\n", "100%\ndone\n"),
        ("a\x00b\x07\tc\x9b", "ab\tc"),
        ("\x1b[12", "12"),
        ("grün \ud800", "grün ?"),
    ],
)
def test_control_sequences_are_removed(text: str, expected: str) -> None:
    assert without_control_characters(text) == expected


@given(st.text())
def test_the_result_has_no_control_characters_and_can_be_encoded(text: str) -> None:
    cleaned = without_control_characters(text)
    assert all(character in "\n\t" or character >= " " for character in cleaned)
    assert cleaned.encode().decode() == cleaned


@pytest.mark.parametrize("text", ["\x1b[" * 100_000, "\x1b]" * 100_000, "\x1b[" + "1" * 200_000, "\x1bP" * 100_000])
def test_hostile_text_takes_no_longer_than_other_text(text: str) -> None:
    with spend_at_most():
        without_control_characters(text)


@pytest.mark.parametrize(("line", "expected"), [("a\rb", "b"), ("a\r", "a"), ("", ""), ("\r\r", "")])
def test_the_last_text_written_to_a_line_remains(line: str, expected: str) -> None:
    assert last_written(line) == expected


def test_the_middle_of_a_long_line_is_cut() -> None:
    assert cut_middle("short", 5) == "short"
    line = cut_middle("a" * 50 + "b" * 50, 8)
    assert line == "aaaaaa ...(92 characters left out)... bb"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\tb\nc\r\x00\x7f\x85é", "a\tb\ncé"),
        ("ring\x07", "ring"),
        ("\x1b[31mred\x1b[0m \x1b[2Jclear", "red clear"),
        ("\x1b]8;;http://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;title\x07text", "text"),
        ("\x9b31mred\x9d0;title\x9ctext", "redtext"),
        ("user\u202egnp.exe\u2066\u2069", "usergnp.exe"),
        ("left\rright", "leftright"),
        ("half \ud83d", "half ?"),
        ("\x1b", ""),
        ("unfinished \x1b[", "unfinished "),
        ("שלום, 世界 🙂", "שלום, 世界 🙂"),
    ],
)
def test_printed_text_cannot_control_the_terminal(text: str, expected: str) -> None:
    assert printable(text) == expected
