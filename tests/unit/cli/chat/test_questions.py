"""How questions are asked, and what is understood of what is typed."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from statewright.agents.tools.calling import read_decision
from statewright.checkpoint import Interrupt
from statewright.cli.chat.display import Display
from statewright.cli.chat.input import Lines, QuestionPrompt, SlashCommand, question_text
from statewright.ids import InterruptId

APPROVAL = {"kind": "approval", "tool": "delete", "arguments": {"path": "a.py", "deep": True}, "tool_call_id": "1"}
Ask = Callable[..., Any]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    def asked(value: Any, *lines: str) -> Any:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return QuestionPrompt(Lines(), Display()).ask(Interrupt(id=InterruptId("1"), value=value))

    return asked


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
def test_an_approval_is_decided_in_one_line(ask: Ask, line: str, decided: Any) -> None:
    assert read_decision(ask(APPROVAL, line)) == decided


def test_arguments_are_edited_in_a_line_of_their_own(ask: Ask) -> None:
    assert read_decision(ask(APPROVAL, "edit", '{"deep": false}')) == (True, {"path": "a.py", "deep": False}, "")


@pytest.mark.parametrize(("wrong", "said"), [("{path", "are not valid JSON"), ("[1]", "not a JSON object")])
def test_wrong_arguments_decide_nothing(ask: Ask, capsys: pytest.CaptureFixture[str], wrong: str, said: str) -> None:
    assert read_decision(ask(APPROVAL, "e", wrong, "n")) == (False, None, "")
    assert said in capsys.readouterr().err


def test_an_approval_shows_the_whole_call(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    ask(APPROVAL, "y")
    said = capsys.readouterr().err
    assert "May delete be called?" in said
    assert '"path": "a.py"' in said


@pytest.mark.parametrize(("line", "answer"), [("text", "text"), ("5", 5), ('{"a": 1}', {"a": 1}), ('"5"', "5")])
def test_another_question_takes_json_or_text(ask: Ask, line: str, answer: Any) -> None:
    assert ask("how many?", "", line) == answer


def test_a_command_or_the_end_of_the_input_is_no_answer(ask: Ask) -> None:
    assert ask("how many?", "/skip") == SlashCommand("skip")
    assert ask("how many?") == SlashCommand("exit")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("how many?", "how many?"),
        ({"question": "how many?"}, "how many?"),
        ({"question": "which?", "of": [1]}, '{\n  "question": "which?",\n  "of": [\n    1\n  ]\n}'),
        (5, "5"),
    ],
)
def test_a_question_in_words(value: Any, told: str) -> None:
    assert question_text(value) == told
