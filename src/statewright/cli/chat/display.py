"""Display of a conversation: answers on standard output, everything else on standard error.

On a terminal everything but answers is dim; elsewhere all lines are plain. Control characters in the output of models
and tools never reach the terminal.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import IO, Any, Final

from statewright.cli.chat.pieces import OutputPiece, OutputSequencer
from statewright.cli.console.printing import pluralize, printable_for
from statewright.models import Usage
from statewright.text import printable, shorten

DIM, RED, BOLD, BLUE = "2", "31", "1", "34"
_WIDTH: Final = 160
"""The longest line about a tool without a terminal, in characters."""
_NARROWEST: Final = 10
"""The shortest line to which text is cut, in characters, however narrow the terminal is."""


class Display:
    """Writes one conversation to standard output and standard error."""

    def __init__(self, *, reasoning: bool = False, quiet: bool = False, show_speakers: bool = False) -> None:
        self._reasoning = reasoning
        self._quiet = quiet
        self._show_speakers = show_speakers
        self._pieces = OutputSequencer()
        self._unfinished: IO[str] | None = None
        """The stream whose last line is unfinished, if any."""
        self._is_speaking = False
        """True while a message is being written."""
        self._is_waiting = False
        """True while the activity sign is on the screen."""
        self.last_text = ""
        """The text of the last message of this run."""

    # -- turns

    def begin_turn(self) -> None:
        """Begin a turn."""
        self._pieces = OutputSequencer()

    def end_turn(self) -> None:
        """End the turn, and show its token usage if that is known."""
        if usage := format_usage(self._pieces.usage):
            self.hint(usage)

    def begin_run(self) -> None:
        """Begin a run. A terminal shows an activity sign until the first output."""
        self._is_speaking, self.last_text = False, ""
        if sys.stderr.isatty():
            self._write(sys.stderr, styled("…", DIM, sys.stderr))
            self._is_waiting, self._unfinished = True, None

    def show_part(self, mode: str, part: Any) -> None:
        """Show a part of the stream."""
        for piece in self._pieces.feed(mode, part):
            self._show(piece)

    def end_run(self) -> None:
        """End a run, and show what is still buffered."""
        for piece in self._pieces.end():
            self._show(piece)
        self.stop_waiting()
        self._end_line()

    def stop_waiting(self) -> None:
        """Remove the activity sign."""
        if self._is_waiting:
            self._is_waiting = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def leave(self) -> None:
        """Leave the cursor on a new line, even in the middle of an answer."""
        self.stop_waiting()
        self._write(sys.stderr, "\n")

    def answer(self, text: str) -> None:
        """Show an answer that was not streamed."""
        self._show(OutputPiece("text", text))
        self._show(OutputPiece("end"))

    def _show(self, piece: OutputPiece) -> None:
        match piece.kind:
            case "text":
                self._say(piece)
            case "thought":
                if self._reasoning:
                    self._write(sys.stderr, styled(piece.text, DIM, sys.stderr))
            case "call":
                self.note(f"→ {piece.name} {piece.text}")
            case "result":
                self.note(f"← {piece.name}: {piece.text}")
            case "failure":
                self.note(f"✗ {piece.name}: {piece.text}")
            case "again":
                self.note("(the answer broke off; asking again)")
            case "end":
                self._is_speaking = False
                self._end_line()

    def _say(self, piece: OutputPiece) -> None:
        if not self._is_speaking:
            self._is_speaking, self.last_text = True, ""
            self._end_line()
            if self._show_speakers and piece.name:
                self._write(sys.stdout, f"{styled(piece.name, BOLD, sys.stdout)}: ")
        self.last_text += piece.text
        self._write(sys.stdout, printable_for(piece.text, sys.stdout))

    # -- lines

    def note(self, text: str) -> None:
        """Show a note, cut to one line of the terminal."""
        self.line(to_one_line(text), DIM)

    def hint(self, text: str) -> None:
        """Show hints, unless the display is quiet."""
        if not self._quiet:
            self.line(text, DIM)

    def line(self, text: str, style: str = "") -> None:
        """Write lines to standard error."""
        self._end_line()
        self._write(sys.stderr, styled(text, style, sys.stderr) + "\n")

    def error(self, text: str, *details: str) -> None:
        """Show an error on one line, followed by a line for each detail."""
        self.line(f"Error: {' '.join(text.split())}", RED)
        for detail in details:
            self.line(detail, DIM)

    def _end_line(self) -> None:
        if self._unfinished is not None:
            self._write(self._unfinished, "\n")

    def _write(self, file: IO[str], text: str) -> None:
        self.stop_waiting()
        if self._unfinished is not None and self._unfinished is not file and text != "\n":
            self._write(self._unfinished, "\n")
        file.write(text)
        file.flush()
        self._unfinished = None if text.endswith("\n") else file


def styled(text: str, style: str, file: IO[str]) -> str:
    """Return text for a stream: styled and without control characters for a terminal, else unchanged."""
    if not file.isatty():
        return text
    safe = printable(text)
    return f"\x1b[{style}m{safe}\x1b[0m" if style and "NO_COLOR" not in os.environ else safe


def to_one_line(text: str) -> str:
    """Return text on one line, cut to the width of the terminal."""
    width = shutil.get_terminal_size().columns - 1 if sys.stderr.isatty() else _WIDTH
    return shorten(" ".join(text.split()), max(width, _NARROWEST))


def format_usage(usage: Usage) -> str:
    """Return the token usage and cost as text; empty if unknown."""
    if not usage.tokens:
        return ""
    cost = f", ${usage.cost:.4f}" if usage.cost else ""
    return f"{pluralize(usage.input_tokens, 'token')} in, {usage.output_tokens} out{cost}"
