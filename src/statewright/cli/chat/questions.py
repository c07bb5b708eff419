"""Questions of a run (interrupts), answered in the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from statewright.checkpoint import Interrupt
from statewright.cli.chat.display import BLUE, Display
from statewright.cli.chat.input import Command, Lines, read_command
from statewright.cli.console.failure import UsageError
from statewright.cli.console.values import to_json
from statewright.cli.workflow.inputs import read_value

YES: Final = frozenset({"y", "yes"})
NO: Final = frozenset({"n", "no"})
EDIT: Final = frozenset({"e", "edit"})
_CHOICES: Final = "y: yes; n: no; e: edit the arguments; anything else: no, and why"


class QuestionPrompt:
    """Shows questions and reads the answers from the terminal or another input."""

    def __init__(self, lines: Lines, display: Display) -> None:
        self._lines = lines
        self._display = display

    def ask(self, question: Interrupt) -> Any:
        """Return the answer to a question, or the command that was typed instead: `/exit` at the end of the input."""
        approval = _approval(question.value)
        if approval is None:
            self._display.line(f"? {question_text(question.value)}", BLUE)
            return self._read(read_value)
        self._display.line(f"? May {approval['tool']} be called?", BLUE)
        self._display.line(to_json(approval.get("arguments")))
        self._display.note(_CHOICES)
        return self._read(lambda text: self._read_decision(text, approval))

    def ask_at_breakpoint(self, prompt: str) -> Any:
        """Return the text typed at a breakpoint, or the command that was typed instead."""
        self._display.line(f"? {prompt}", BLUE)
        return self._read(str)

    def _read(self, understand: Callable[[str], Any]) -> Any:
        """Read lines until one is a command or can be parsed."""
        while True:
            text = self._lines.read("answer> ")
            if text is None:
                return Command("exit")
            command = read_command(text)
            if command is not None:
                return command
            if not text.strip():
                continue
            try:
                return understand(text.strip())
            except UsageError as error:
                self._display.error(str(error))

    def _read_decision(self, text: str, approval: Mapping[str, Any]) -> Any:
        """Return the decision about a tool call, in the form that tools read."""
        word, _, rest = text.partition(" ")
        if text.lower() in YES:
            return {"approved": True}
        if text.lower() in NO:
            return {"approved": False}
        if word.lower() in EDIT and (not rest or rest.lstrip().startswith("{")):
            return self._read_edit(rest, approval)
        return {"approved": False, "reason": text}

    def _read_edit(self, text: str, approval: Mapping[str, Any]) -> Any:
        """Return an approval with edited arguments, which are read from the next line if none were given."""
        if not text:
            self._display.note("The arguments as a JSON object; those that are left out stay as they are.")
            text = self._lines.read("arguments> ") or ""
        try:
            arguments: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"The arguments are not JSON ({error}). Nothing was decided.") from error
        if not isinstance(arguments, dict):
            raise UsageError("The arguments are not a JSON object. Nothing was decided.")
        proposed = cast("Mapping[str, Any]", approval.get("arguments") or {})
        return {"approved": True, "arguments": {**proposed, **cast("dict[str, Any]", arguments)}}


def _approval(value: Any) -> Mapping[str, Any] | None:
    """Return the value of a question that asks for the approval of a tool call; None for other questions."""
    if not isinstance(value, Mapping):
        return None
    request = cast("Mapping[str, Any]", value)
    return request if request.get("kind") == "approval" and "tool" in request else None


def question_text(value: Any) -> str:
    """Return the text of a question; as JSON if it has no text."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, Any]", value)
        if set(mapping) == {"question"} and isinstance(mapping["question"], str):
            return mapping["question"]
    return to_json(value)
