"""What a conversation looks like: answers on standard output, everything else on standard error.

On a terminal what is not an answer is dim. Elsewhere all are plain lines. What models and tools say is never let
command the terminal.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import IO, Any, Final

from statewright.cli.chat.pieces import Pieces, Shown
from statewright.cli.console.printing import fit
from statewright.models import Usage
from statewright.terminal_text import printable

DIM, RED, BOLD, BLUE = "2", "31", "1", "34"
_WIDTH: Final = 160
"""Of lines about tools where there is no terminal."""


class Display:
    """Shows one conversation."""

    def __init__(self, *, reasoning: bool = False, quiet: bool = False, names_speakers: bool = False) -> None:
        self._reasoning = reasoning
        self._quiet = quiet
        self._names_speakers = names_speakers
        self._pieces = Pieces()
        self._open: IO[str] | None = None
        """Where a line has been begun."""
        self._is_speaking = False
        """Whether a message has begun and has not ended."""
        self._waits = False
        """Whether the sign of life is on the screen."""
        self.last_text = ""
        """What was said last in this run."""

    # -- turns

    def begin_turn(self) -> None:
        """A turn begins."""
        self._pieces = Pieces()

    def end_turn(self) -> None:
        """The turn is over: say what it has used up, if that is known and wanted."""
        if told := told_usage(self._pieces.usage):
            self.hint(told)

    def begin(self) -> None:
        """A run begins: on a terminal there is a sign of life until something is said."""
        self._is_speaking, self.last_text = False, ""
        if sys.stderr.isatty():
            self._write(sys.stderr, styled("…", DIM, sys.stderr))
            self._waits, self._open = True, None

    def take(self, mode: str, part: Any) -> None:
        """Show what a part of the stream brings."""
        for shown in self._pieces.take(mode, part):
            self._show(shown)

    def end(self) -> None:
        """The run is at rest."""
        for shown in self._pieces.end():
            self._show(shown)
        self.stop_waiting()
        self._end_line()

    def stop_waiting(self) -> None:
        """Take the sign of life away."""
        if self._waits:
            self._waits = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def leave(self) -> None:
        """Give the terminal back in the middle of something."""
        self.stop_waiting()
        self._write(sys.stderr, "\n")

    def answer(self, text: str) -> None:
        """Show an answer that did not come in pieces."""
        self._show(Shown("text", text))
        self._show(Shown("end"))

    def _show(self, shown: Shown) -> None:
        match shown.kind:
            case "text":
                self._say(shown)
            case "thought":
                if self._reasoning:
                    self._write(sys.stderr, styled(shown.text, DIM, sys.stderr))
            case "call":
                self.note(f"→ {shown.name} {shown.text}")
            case "result":
                self.note(f"← {shown.name}: {shown.text}")
            case "failure":
                self.note(f"✗ {shown.name}: {shown.text}")
            case "again":
                self.note("(the answer broke off; asking again)")
            case "end":
                self._is_speaking = False
                self._end_line()

    def _say(self, shown: Shown) -> None:
        if not self._is_speaking:
            self._is_speaking, self.last_text = True, ""
            self._end_line()
            if self._names_speakers and shown.name:
                self._write(sys.stdout, f"{styled(shown.name, BOLD, sys.stdout)}: ")
        self.last_text += shown.text
        self._write(sys.stdout, fit(shown.text, sys.stdout))

    # -- lines

    def note(self, text: str) -> None:
        """A line beside the conversation, shortened to one line of the terminal."""
        self.line(shortened(text), DIM)

    def hint(self, text: str) -> None:
        """Lines that help, for those who want help."""
        if not self._quiet:
            self.line(text, DIM)

    def line(self, text: str, style: str = "") -> None:
        """Lines on standard error."""
        self._end_line()
        self._write(sys.stderr, styled(text, style, sys.stderr) + "\n")

    def error(self, text: str, *details: str) -> None:
        """What went wrong, on one line, and details on lines of their own."""
        self.line(f"Error: {' '.join(text.split())}", RED)
        for detail in details:
            self.line(detail, DIM)

    def _end_line(self) -> None:
        if self._open is not None:
            self._write(self._open, "\n")

    def _write(self, file: IO[str], text: str) -> None:
        self.stop_waiting()
        if self._open is not None and self._open is not file and text != "\n":
            self._write(self._open, "\n")
        file.write(text)
        file.flush()
        self._open = None if text.endswith("\n") else file


def styled(text: str, style: str, file: IO[str]) -> str:
    """Text in a style where the file is a terminal, without what would command it."""
    if not file.isatty():
        return text
    plain = printable(text)
    return f"\x1b[{style}m{plain}\x1b[0m" if style and "NO_COLOR" not in os.environ else plain


def shortened(text: str) -> str:
    """Text on one line, cut where the terminal ends."""
    line = " ".join(text.split())
    width = shutil.get_terminal_size().columns - 1 if sys.stderr.isatty() else _WIDTH
    return line if len(line) <= width else f"{line[: max(width - 1, 1)]}…"


def told_usage(usage: Usage) -> str:
    """What a turn has used up, in words; empty if that is not known."""
    if not usage.tokens:
        return ""
    cost = f", ${usage.cost:.4f}" if usage.cost else ""
    return f"{usage.input_tokens} tokens in, {usage.output_tokens} out{cost}"
