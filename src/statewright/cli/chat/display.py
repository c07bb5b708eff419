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
from statewright.cli.console.printing import printable_for
from statewright.models import Usage
from statewright.terminal_text import printable

DIM, RED, BOLD, BLUE = "2", "31", "1", "34"
_WIDTH: Final = 160
"""Characters of a line about a tool where there is no terminal."""


class Display:
    """Writes one conversation to standard output and standard error."""

    def __init__(self, *, reasoning: bool = False, quiet: bool = False, names_speakers: bool = False) -> None:
        self._reasoning = reasoning
        self._quiet = quiet
        self._names_speakers = names_speakers
        self._pieces = OutputSequencer()
        self._open: IO[str] | None = None
        """The stream with an unfinished line, if any."""
        self._is_speaking = False
        """True while a message is being written."""
        self._waits = False
        """True while the activity sign is on the screen."""
        self.last_text = ""
        """The last message of this run."""

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
            self._waits, self._open = True, None

    def show_part(self, mode: str, part: Any) -> None:
        """Show a part of the stream."""
        for piece in self._pieces.take(mode, part):
            self._show(piece)

    def end_run(self) -> None:
        """End a run, and show what is still buffered."""
        for piece in self._pieces.end():
            self._show(piece)
        self.stop_waiting()
        self._end_line()

    def stop_waiting(self) -> None:
        """Remove the activity sign."""
        if self._waits:
            self._waits = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def leave(self) -> None:
        """Leave the terminal on a new line, in the middle of whatever was shown."""
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
            if self._names_speakers and piece.name:
                self._write(sys.stdout, f"{styled(piece.name, BOLD, sys.stdout)}: ")
        self.last_text += piece.text
        self._write(sys.stdout, printable_for(piece.text, sys.stdout))

    # -- lines

    def note(self, text: str) -> None:
        """Show a note, cut to one line of the terminal."""
        self.line(shortened(text), DIM)

    def hint(self, text: str) -> None:
        """Show hints, unless the display is quiet."""
        if not self._quiet:
            self.line(text, DIM)

    def line(self, text: str, style: str = "") -> None:
        """Write lines to standard error."""
        self._end_line()
        self._write(sys.stderr, styled(text, style, sys.stderr) + "\n")

    def error(self, text: str, *details: str) -> None:
        """Show an error on one line, and each detail on a line of its own."""
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
    """Return text for a stream: styled and without control characters for a terminal, else unchanged."""
    if not file.isatty():
        return text
    plain = printable(text)
    return f"\x1b[{style}m{plain}\x1b[0m" if style and "NO_COLOR" not in os.environ else plain


def shortened(text: str) -> str:
    """Return text on one line, cut to the width of the terminal."""
    line = " ".join(text.split())
    width = shutil.get_terminal_size().columns - 1 if sys.stderr.isatty() else _WIDTH
    return line if len(line) <= width else f"{line[: max(width - 1, 1)]}…"


def format_usage(usage: Usage) -> str:
    """Return the token usage and cost as text; empty if unknown."""
    if not usage.tokens:
        return ""
    cost = f", ${usage.cost:.4f}" if usage.cost else ""
    return f"{usage.input_tokens} tokens in, {usage.output_tokens} out{cost}"
