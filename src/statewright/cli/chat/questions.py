"""Questions of a run, answered where they come up."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from statewright.checkpoint import Interrupt
from statewright.cli.chat.display import BLUE, Display
from statewright.cli.chat.input import Command, Lines, read_command
from statewright.cli.console.failure import WrongUse
from statewright.cli.console.values import as_json
from statewright.cli.workflow.resume import read_value

YES: Final = frozenset({"y", "yes"})
NO: Final = frozenset({"n", "no"})
EDIT: Final = frozenset({"e", "edit"})
_CHOICES: Final = "y: yes; n: no; e: edit the arguments; anything else: no, and why"


class Asker:
    """Asks questions on the terminal, or reads the answers from the lines of another input."""

    def __init__(self, lines: Lines, display: Display) -> None:
        self._lines = lines
        self._display = display

    def ask(self, question: Interrupt) -> Any:
        """The answer to a question; or the command that was given instead of one: `/exit` at the end of the input."""
        approval = _approval(question.value)
        if approval is None:
            self._display.line(f"? {told_value(question.value)}", BLUE)
            return self._read(read_value)
        self._display.line(f"? May {approval['tool']} be called?", BLUE)
        self._display.line(as_json(approval.get("arguments")))
        self._display.note(_CHOICES)
        return self._read(lambda text: self._decided(text, approval))

    def ask_at(self, told: str) -> Any:
        """What is typed at a breakpoint, as text; or the command that was given instead."""
        self._display.line(f"? {told}", BLUE)
        return self._read(str)

    def _read(self, understand: Callable[[str], Any]) -> Any:
        """What the next line means that means something."""
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
            except WrongUse as error:
                self._display.error(str(error))

    def _decided(self, text: str, approval: Mapping[str, Any]) -> Any:
        """What was decided about a call of a tool, in the form that tools read."""
        word, _, rest = text.partition(" ")
        if text.lower() in YES:
            return {"approved": True}
        if text.lower() in NO:
            return {"approved": False}
        if word.lower() in EDIT and (not rest or rest.lstrip().startswith("{")):
            return self._edited(rest, approval)
        return {"approved": False, "reason": text}

    def _edited(self, text: str, approval: Mapping[str, Any]) -> Any:
        """The call with other arguments, which are read if they do not stand behind the word."""
        if not text:
            self._display.note("The arguments as a JSON object; those that are left out stay as they are.")
            text = self._lines.read("arguments> ") or ""
        try:
            found: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise WrongUse(f"The arguments are not JSON ({error}). Nothing was decided.") from error
        if not isinstance(found, dict):
            raise WrongUse("The arguments are not a JSON object. Nothing was decided.")
        asked = cast("Mapping[str, Any]", approval.get("arguments") or {})
        return {"approved": True, "arguments": {**asked, **cast("dict[str, Any]", found)}}


def _approval(value: Any) -> Mapping[str, Any] | None:
    """A question whether a tool may be called, if it is one."""
    if not isinstance(value, Mapping):
        return None
    asked = cast("Mapping[str, Any]", value)
    return asked if asked.get("kind") == "approval" and "tool" in asked else None


def told_value(value: Any) -> str:
    """A question in words: its text, or all of it as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        asked = cast("Mapping[str, Any]", value)
        if set(asked) == {"question"} and isinstance(asked["question"], str):
            return asked["question"]
    return as_json(value)
