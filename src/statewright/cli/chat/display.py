"""Display of a conversation: answers on standard output, everything else on standard error.

On a terminal, notes and hints are dim; elsewhere, all lines are plain. Control characters in the output of models and
tools never reach the terminal.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import IO, Any, Final

from statewright.cli.chat.pieces import OutputPiece, OutputSequencer
from statewright.cli.console.printing import pluralize, printable_for
from statewright.models import Usage
from statewright.terminal_text import printable
from statewright.text import shorten

DIM, RED, BOLD, BLUE = "2", "31", "1", "34"
"""ANSI codes of text styles."""
_DEFAULT_WIDTH: Final = 160
"""The maximum length of a note if there is no terminal, in characters."""
_MIN_WIDTH: Final = 10
"""The minimum length to which notes are cut, even on a narrower terminal, in characters."""


class Display:
    """Writes one conversation to standard output and standard error."""

    def __init__(self, *, reasoning: bool = False, quiet: bool = False, show_speakers: bool = False) -> None:
        self._reasoning = reasoning
        self._quiet = quiet
        self._show_speakers = show_speakers
        self._sequencer = OutputSequencer()
        self._unfinished_stream: IO[str] | None = None
        """The stream whose last line has no line break yet, if any."""
        self._is_in_message = False
        """True while the text of a message is being written."""
        self._is_indicator_shown = False
        """True while the activity indicator `…` is on the screen."""
        self.last_text = ""
        """The text of the last message of the current run."""

    # -- turns

    def begin_turn(self) -> None:
        """Begin a turn."""
        self._sequencer = OutputSequencer()

    def end_turn(self) -> None:
        """End the turn, and show its token usage if it is known."""
        if usage := format_usage(self._sequencer.usage):
            self.show_hint(usage)

    def begin_run(self) -> None:
        """Begin a run. On a terminal, show an activity indicator until the first output."""
        self._is_in_message, self.last_text = False, ""
        if sys.stderr.isatty():
            self._write(sys.stderr, styled("…", DIM, sys.stderr))
            self._is_indicator_shown, self._unfinished_stream = True, None

    def show_part(self, mode: str, part: Any) -> None:
        """Show a part of the stream of a run, which has the stream mode `mode`."""
        for piece in self._sequencer.feed(mode, part):
            self._show(piece)

    def end_run(self) -> None:
        """End a run, and show output that is still buffered."""
        for piece in self._sequencer.end():
            self._show(piece)
        self._hide_indicator()
        self._end_line()

    def _hide_indicator(self) -> None:
        if self._is_indicator_shown:
            self._is_indicator_shown = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def move_to_new_line(self) -> None:
        """Move the cursor to a new line, even in the middle of an answer, before the program exits."""
        self._hide_indicator()
        self._write(sys.stderr, "\n")

    def show_answer(self, text: str) -> None:
        """Show an answer that was not streamed."""
        self._show(OutputPiece("text", text))
        self._show(OutputPiece("end"))

    def _show(self, piece: OutputPiece) -> None:
        match piece.kind:
            case "text":
                self._show_text(piece)
            case "thought":
                if self._reasoning:
                    self._write(sys.stderr, styled(piece.text, DIM, sys.stderr))
            case "call":
                self.show_note(f"→ {piece.name} {piece.text}")
            case "result":
                self.show_note(f"← {piece.name}: {piece.text}")
            case "failure":
                self.show_note(f"✗ {piece.name}: {piece.text}")
            case "restart":
                self.show_note("(the answer broke off; trying again)")
            case "end":
                self._is_in_message = False
                self._end_line()

    def _show_text(self, piece: OutputPiece) -> None:
        if not self._is_in_message:
            self._is_in_message, self.last_text = True, ""
            self._end_line()
            if self._show_speakers and piece.name:
                self._write(sys.stdout, f"{styled(piece.name, BOLD, sys.stdout)}: ")
        self.last_text += piece.text
        self._write(sys.stdout, printable_for(piece.text, sys.stdout))

    # -- lines

    def show_note(self, text: str) -> None:
        """Show a dim note, cut to one line of the terminal."""
        self.show_lines(to_one_line(text), DIM)

    def show_hint(self, text: str) -> None:
        """Show a dim hint, unless the display is quiet."""
        if not self._quiet:
            self.show_lines(text, DIM)

    def show_lines(self, text: str, style: str = "") -> None:
        """Show one or more lines."""
        self._end_line()
        self._write(sys.stderr, styled(text, style, sys.stderr) + "\n")

    def show_error(self, text: str, *details: str) -> None:
        """Show an error on one line, followed by a line for each detail."""
        self.show_lines(f"Error: {' '.join(text.split())}", RED)
        for detail in details:
            self.show_lines(detail, DIM)

    def _end_line(self) -> None:
        if self._unfinished_stream is not None:
            self._write(self._unfinished_stream, "\n")

    def _write(self, file: IO[str], text: str) -> None:
        """Write text to a stream, after a line break if the last line of the other stream is unfinished."""
        self._hide_indicator()
        if self._unfinished_stream is not None and self._unfinished_stream is not file and text != "\n":
            self._write(self._unfinished_stream, "\n")
        file.write(text)
        file.flush()
        self._unfinished_stream = None if text.endswith("\n") else file


def styled(text: str, style: str, file: IO[str]) -> str:
    """Return text with a style and without control characters if the stream is a terminal, else unchanged."""
    if not file.isatty():
        return text
    safe_text = printable(text)
    return f"\x1b[{style}m{safe_text}\x1b[0m" if style and "NO_COLOR" not in os.environ else safe_text


def to_one_line(text: str) -> str:
    """Return text on one line, cut to the width of the terminal."""
    width = shutil.get_terminal_size().columns - 1 if sys.stderr.isatty() else _DEFAULT_WIDTH
    return shorten(" ".join(text.split()), max(width, _MIN_WIDTH))


def format_usage(usage: Usage) -> str:
    """Format token usage and cost; empty if unknown."""
    if not usage.tokens:
        return ""
    cost = f", ${usage.cost:.4f}" if usage.cost else ""
    return f"{pluralize(usage.input_tokens, 'token')} in, {usage.output_tokens} out{cost}"
