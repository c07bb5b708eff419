"""Input of a conversation: lines of standard input, slash commands, and answers to questions."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, cast

from statewright.checkpoint import Interrupt
from statewright.cli.chat.display import BLUE, Display
from statewright.cli.console.failure import UsageError
from statewright.cli.console.printing import warn
from statewright.cli.console.values import to_json
from statewright.cli.workflow.inputs import read_value
from statewright.errors import nearest, suggestion


class LineReader:
    """Standard input, line by line. On a terminal, lines can be edited and recalled with the arrow keys."""

    def __init__(self) -> None:
        stdin: Any = sys.stdin
        self.is_terminal: bool = stdin.isatty()
        if self.is_terminal:
            with suppress(ImportError):  # not available on all systems
                import readline  # noqa: F401  # pyright: ignore[reportUnusedImport]  # makes input() use it
        elif isinstance(stdin, io.TextIOWrapper):
            stdin.reconfigure(errors="replace")

    def read(self, prompt: str) -> str | None:
        """Return the next line, or None at the end of the input. The prompt is only shown on a terminal."""
        if not self.is_terminal:
            line = sys.stdin.readline()
            return line.rstrip("\r\n") if line else None
        try:
            return input(prompt)
        except EOFError:
            warn("")  # Ctrl-D leaves the cursor after the prompt
            return None


# -- slash commands

COMMANDS: Final = {
    "exit": "exit; the thread is saved",
    "new": "start a new thread",
    "thread": "show the thread, and the command that continues it",
    "history": "show the conversation so far",
    "retry": "continue a turn that failed or was stopped",
    "skip": "leave a question open, and end the turn",
    "help": "show this list",
}


class SlashCommand(NamedTuple):
    """A command that the user has typed."""

    name: str


def read_command(text: str) -> SlashCommand | None:
    """Return the slash command on a line; None if the line is not one."""
    slash, name = text.strip()[:1], text.strip()[1:]
    return SlashCommand(name) if slash == "/" and name in COMMANDS else None


def check_is_not_command(text: str) -> None:
    """Raise UsageError for a slash command that does not exist.

    That is a line of one word that begins with a slash, or a longer line whose first word resembles a command.
    """
    word, *other_words = text.split()
    commands = [f"/{name}" for name in COMMANDS]
    if word.startswith("/") and word[1:].isalpha() and (not other_words or nearest(word, commands)):
        raise UsageError(f"Command {word!r} does not exist. {suggestion(word, commands, noun='Commands')}")


def format_commands() -> str:
    """Format the list of commands with their descriptions."""
    return "\n".join(f"/{name:8} {description}" for name, description in COMMANDS.items())


YES: Final = frozenset({"y", "yes"})
NO: Final = frozenset({"n", "no"})
EDIT: Final = frozenset({"e", "edit"})
_CHOICES: Final = "y: yes; n: no; e: edit the arguments; any other text: no, with this text as the reason"


class QuestionPrompt:
    """Shows questions and reads the answers from standard input."""

    def __init__(self, lines: LineReader, display: Display) -> None:
        self._lines = lines
        self._display = display

    def ask(self, question: Interrupt) -> Any:
        """Return the answer to a question, or the slash command typed instead. The end of the input means `/exit`."""
        approval = _approval_request(question.value)
        if approval is None:
            self._display.show_lines(f"? {question_text(question.value)}", BLUE)
            return self._read(read_value)
        self._display.show_lines(f"? Allow the call of {approval['tool']}?", BLUE)
        self._display.show_lines(to_json(approval.get("arguments")))
        self._display.show_note(_CHOICES)
        return self._read(lambda text: self._read_decision(text, approval))

    def ask_at_breakpoint(self, prompt: str) -> Any:
        """Return the text typed at a breakpoint, or the slash command typed instead."""
        self._display.show_lines(f"? {prompt}", BLUE)
        return self._read(str)

    def _read(self, parse: Callable[[str], Any]) -> Any:
        """Read lines until one of them is a slash command, or can be parsed as an answer."""
        while True:
            text = self._lines.read("answer> ")
            if text is None:
                return SlashCommand("exit")
            command = read_command(text)
            if command is not None:
                return command
            if not text.strip():
                continue
            try:
                return parse(text.strip())
            except UsageError as error:
                self._display.show_error(str(error))

    def _read_decision(self, text: str, approval: Mapping[str, Any]) -> Any:
        """Return the decision about a tool call, in the form in which the tool expects its answer."""
        word, _, arguments = text.partition(" ")
        if text.lower() in YES:
            return {"approved": True}
        if text.lower() in NO:
            return {"approved": False}
        if word.lower() in EDIT and (not arguments or arguments.lstrip().startswith("{")):
            return self._read_edit(arguments, approval)
        return {"approved": False, "reason": text}

    def _read_edit(self, text: str, approval: Mapping[str, Any]) -> Any:
        """Return an approval with edited arguments. They are read from the next line if `text` is empty."""
        if not text:
            self._display.show_note("Type a JSON object with the arguments to change.")
            text = self._lines.read("arguments> ") or ""
        try:
            arguments: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"The arguments are not valid JSON ({error}). The call is still pending.") from error
        if not isinstance(arguments, dict):
            raise UsageError("The arguments are not a JSON object. The call is still pending.")
        proposed_arguments = cast("Mapping[str, Any]", approval.get("arguments") or {})
        return {"approved": True, "arguments": {**proposed_arguments, **cast("dict[str, Any]", arguments)}}


def _approval_request(value: Any) -> Mapping[str, Any] | None:
    """Return the value of a question if the question asks for the approval of a tool call, else None."""
    if not isinstance(value, Mapping):
        return None
    request = cast("Mapping[str, Any]", value)
    return request if request.get("kind") == "approval" and "tool" in request else None


def question_text(value: Any) -> str:
    """Return the text of a question, or its value as JSON if it has no text."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, Any]", value)
        if set(mapping) == {"question"} and isinstance(mapping["question"], str):
            return mapping["question"]
    return to_json(value)
