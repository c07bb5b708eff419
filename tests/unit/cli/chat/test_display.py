"""The output of a conversation on standard output and standard error."""

from __future__ import annotations

from typing import Any

import pytest

from statewright.cli.chat.display import Display, format_usage, printable, to_one_line
from statewright.messages import Message
from statewright.models import MessageChunk, Usage

Capture = pytest.CaptureFixture[str]


def piece(text: str, message_id: str = "t-0", name: str = "bot", **fields: Any) -> Any:
    return MessageChunk(text, id=message_id, name=name, **fields), {"node": "model"}


def end_of(task: str) -> Any:
    return {"id": task, "name": "model", "error": None, "interrupts": [], "result": {}}


def show(display: Display, *parts: Any) -> None:
    display.begin_turn()
    display.begin_run()
    for part in parts:
        display.show_part("tasks" if isinstance(part, dict) else "messages", part)
    display.end_run()
    display.end_turn()


def test_only_answers_are_written_to_standard_output(capsys: Capture) -> None:
    result = (Message("5", role="tool", name="add", id="r"), {})
    show(Display(), result, piece("It is"), piece(" 5."), piece("", usage=Usage(12, 3, 0.01)))
    assert capsys.readouterr() == ("It is 5.\n", "← add: 5\n12 tokens in, 3 out, $0.0100\n")


def test_a_quiet_display_shows_tools_but_no_usage(capsys: Capture) -> None:
    display = Display(quiet=True)
    show(display, (Message("5", role="tool", name="add", id="r"), {}), piece("", usage=Usage(12, 3)))
    display.show_hint("a hint")
    assert capsys.readouterr() == ("", "← add: 5\n")


@pytest.mark.parametrize(("reasoning", "output"), [(True, "hm, yes\n"), (False, "")])
def test_reasoning_is_shown_on_request(capsys: Capture, reasoning: bool, output: str) -> None:
    show(Display(reasoning=reasoning), piece("", reasoning="hm, "), piece("", reasoning="yes"), piece("So."))
    assert capsys.readouterr() == ("So.\n", output)


def test_several_speakers_are_named(capsys: Capture) -> None:
    first, second = piece("one", "a-0", "planner"), piece("two", "b-0", "writer")
    show(Display(show_speakers=True), first, end_of("a"), second, end_of("b"))
    assert capsys.readouterr().out == "planner: one\nwriter: two\n"


def test_the_speaker_of_several_lines_is_named_once(capsys: Capture) -> None:
    display = Display(show_speakers=True)
    show(display, piece("one\n", name="writer"), piece("two", name="writer"))
    assert capsys.readouterr().out == "writer: one\ntwo\n"
    assert display.last_text == "one\ntwo"


def test_the_last_text_is_that_of_the_last_message(capsys: Capture) -> None:
    display = Display()
    show(display, piece("one", "a-0"), end_of("a"), piece("two", "b-0"))
    assert display.last_text == "two"
    show(display)
    assert display.last_text == ""


def test_an_interrupted_answer_and_its_replacement_are_on_separate_lines(capsys: Capture) -> None:
    display = Display(quiet=True)
    show(display, piece("It i", "t-0"), piece("It is", "t-0-2"), piece(" 5.", "t-0-2"))
    assert capsys.readouterr() == ("It i\nIt is 5.\n", "(the answer broke off; trying again)\n")
    assert display.last_text == "It is 5."


def test_an_error_is_one_line(capsys: Capture) -> None:
    display = Display()
    display.show_part("messages", piece("It i"))
    display.show_error("It broke\nin the middle.")
    assert capsys.readouterr() == ("It i\n", "Error: It broke in the middle.\n")


def test_notes_on_a_terminal_are_dim_and_without_control_characters(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    Display().show_note("evil \x1b[2J\x9b31m text\a")
    assert capsys.readouterr().err == "\x1b[2mevil  text\x1b[0m\n"


def test_no_color_disables_colours(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    Display().show_note("plain")
    assert capsys.readouterr().err == "plain\n"


def test_output_to_a_file_is_unchanged(capsys: Capture) -> None:
    Display().show_answer("with \x1b[1mescapes\x1b[0m")
    assert capsys.readouterr().out == "with \x1b[1mescapes\x1b[0m\n"


def test_printable_text_keeps_lines_and_tabs() -> None:
    assert printable("a\tb\nc\r\x00\x7f\x85é") == "a\tb\ncé"


def test_a_long_line_is_cut_and_many_lines_become_one() -> None:
    assert to_one_line("a\n  b\tc") == "a b c"
    assert to_one_line("x" * 500) == "x" * 157 + "..."


@pytest.mark.parametrize(
    ("usage", "text"),
    [(Usage(), ""), (Usage(1, 2), "1 token in, 2 out"), (Usage(2, 1, 0.00012), "2 tokens in, 1 out, $0.0001")],
)
def test_token_usage_as_text(usage: Usage, text: str) -> None:
    assert format_usage(usage) == text
