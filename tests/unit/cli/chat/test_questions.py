"""Questions, and the parsing of typed answers."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from statewright.agents.tools.calling import read_decision
from statewright.checkpoint import Interrupt
from statewright.cli.chat.display import Display
from statewright.cli.chat.input import LineReader, QuestionPrompt, SlashCommand, question_text
from statewright.ids import InterruptId

APPROVAL = {"kind": "approval", "tool": "delete", "arguments": {"path": "a.py", "deep": True}, "tool_call_id": "1"}
Ask = Callable[..., Any]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    def ask_question(value: Any, *lines: str) -> Any:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return QuestionPrompt(LineReader(), Display()).ask(Interrupt(id=InterruptId("1"), value=value))

    return ask_question


@pytest.mark.parametrize(
    ("line", "decided"),
    [
        ("y", (True, None, "")),
        ("YES", (True, None, "")),
        ("n", (False, None, "")),
        ("not that one", (False, None, "not that one")),
        ("eat it", (False, None, "eat it")),
        ("edit it first", (False, None, "edit it first")),
        ('e {"path": "b.py"}', (True, {"path": "b.py", "deep": True}, "")),
    ],
)
def test_an_approval_is_decided_with_one_line(ask: Ask, line: str, decided: Any) -> None:
    assert read_decision(ask(APPROVAL, line)) == decided


def test_arguments_can_be_edited_on_a_second_line(ask: Ask) -> None:
    assert read_decision(ask(APPROVAL, "edit", '{"deep": false}')) == (True, {"path": "a.py", "deep": False}, "")


@pytest.mark.parametrize(("arguments", "message"), [("{path", "are not valid JSON"), ("[1]", "not a JSON object")])
def test_invalid_arguments_decide_nothing(
    ask: Ask, capsys: pytest.CaptureFixture[str], arguments: str, message: str
) -> None:
    assert read_decision(ask(APPROVAL, "e", arguments, "n")) == (False, None, "")
    assert message in capsys.readouterr().err


def test_an_approval_shows_the_whole_call(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    ask(APPROVAL, "y")
    output = capsys.readouterr().err
    assert "Allow the call of delete?" in output
    assert '"path": "a.py"' in output


@pytest.mark.parametrize(("line", "answer"), [("text", "text"), ("5", 5), ('{"a": 1}', {"a": 1}), ('"5"', "5")])
def test_other_questions_take_json_or_text(ask: Ask, line: str, answer: Any) -> None:
    assert ask("how many?", "", line) == answer


def test_a_command_or_the_end_of_the_input_is_not_an_answer(ask: Ask) -> None:
    assert ask("how many?", "/skip") == SlashCommand("skip")
    assert ask("how many?") == SlashCommand("exit")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("how many?", "how many?"),
        ({"question": "how many?"}, "how many?"),
        ({"question": "which?", "of": [1]}, '{\n  "question": "which?",\n  "of": [\n    1\n  ]\n}'),
        (5, "5"),
    ],
)
def test_the_text_of_a_question(value: Any, text: str) -> None:
    assert question_text(value) == text
