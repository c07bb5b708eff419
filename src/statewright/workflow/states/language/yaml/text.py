"""Processing of the text of a YAML file: decoding, limits, forbidden characters, and the line numbers of scalars."""

from __future__ import annotations

import codecs
import itertools
import re
from collections.abc import Sequence
from typing import Final

from statewright.workflow.states.language.yaml.nodes import Mark, problem_at

MAX_BYTES: Final = 5_000_000
MAX_DIRECTIVES: Final = 20
"""The maximum number of lines that start with `%`, because the parser compares each of them with all earlier ones."""

_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LINE_END: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_DIRECTIVE: Final = re.compile("(?m)^%|(?<=[\r\x85\u2028\u2029])%")


class UnreadableText(Exception):
    """The text cannot be parsed any further. `read_document` catches this error."""

    def __init__(self, at: Mark, message: str, suggestion: str) -> None:
        self.problem = problem_at(at, message, suggestion)
        super().__init__(message)


def decode_text(text: str | bytes) -> str:
    """Decode a file, and remove its byte order mark.

    Raises UnreadableText if the file cannot be decoded, or is unsafe to parse.
    """
    if len(text) > MAX_BYTES:
        raise UnreadableText(
            Mark(1, 1),
            f"The file is larger than {MAX_BYTES:,} bytes.",
            "Move long texts to other files, and have a tool read them.",
        )
    if isinstance(text, bytes):
        is_utf16 = text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        text = _decode(text, "utf-16" if is_utf16 else "utf-8")
    text = text.removeprefix("\ufeff")
    _check_characters(text)
    return text


def split_lines(text: str) -> list[str]:
    """Split text into lines at the line ends that YAML recognizes."""
    return _LINE_END.split(text)


def _decode(text: bytes, encoding: str) -> str:
    try:
        return text.decode(encoding)
    except UnicodeDecodeError as error:
        before = text[: error.start].decode(encoding, errors="replace")
        raise UnreadableText(
            _end_mark(before.removeprefix("\ufeff")),
            f"The byte 0x{text[error.start]:02x} is not valid {encoding.upper()}.",
            "Save the file as UTF-8.",
        ) from None


def _check_characters(text: str) -> None:
    """Raise UnreadableText if the text is unsafe to parse."""
    if match := _FORBIDDEN.search(text):
        raise UnreadableText(
            _end_mark(text[: match.start()]),
            f"The character U+{ord(match[0]):04X} is not allowed in YAML.",
            'Remove it, or write it as an escape in double quotes, such as "\\u0007".',
        )
    excess = next(itertools.islice(_DIRECTIVE.finditer(text), MAX_DIRECTIVES, None), None)
    if excess is not None:
        raise UnreadableText(
            _end_mark(text[: excess.start()]),
            f"More than {MAX_DIRECTIVES} lines begin with '%'.",
            "Indent lines that are not YAML directives.",
        )


def _end_mark(before: str) -> Mark:
    """Return the position after some text at the beginning of a file."""
    lines = split_lines(before)
    return Mark(len(lines), len(lines[-1]) + 1)


# -- line numbers of multi-line scalars
#
# In quoted, plain and folded scalars, several lines of the file become one line of the text, and blank lines become
# line breaks. The parser reports only the start and end of a scalar, so the line numbers are computed from the lines of
# the file. The result is checked against the text, so that an unusual notation leads to no position instead of a wrong
# position.

_ESCAPE: Final = re.compile(r"\\(.)")


def compute_line_numbers(text: str, source_lines: Sequence[str], first: int, style: str | None) -> tuple[int, ...]:
    """Return the line of the file on which each line of a scalar's text starts.

    `source_lines` are the lines of the scalar in the file, and `first` is the line number of the first of them. Returns
    an empty tuple if the lines cannot be determined.
    """
    if style == ">":
        numbers = _number_folded_lines(source_lines, first)
    else:
        numbers = _number_flow_lines(source_lines, first, has_escapes=style == '"')
    return tuple(numbers) if len(numbers) == text.rstrip("\n").count("\n") + 1 else ()


def _number_flow_lines(source_lines: Sequence[str], first: int, *, has_escapes: bool) -> list[int]:
    """Return the line numbers of a quoted or plain scalar.

    In such a scalar, a blank line is a line break, and all other line ends are spaces.
    """
    numbers: list[int] = [first]
    blank_lines = 0
    for number, line in enumerate(source_lines, first):
        if number > first and not line.strip(" \t"):
            blank_lines += 1
            continue
        escaped_breaks = _ESCAPE.findall(line).count("n") if has_escapes else 0
        numbers += [number] * (blank_lines + escaped_breaks)
        blank_lines = 0
    return numbers


def _number_folded_lines(source_lines: Sequence[str], first: int) -> list[int]:
    """Return the line numbers of a folded block scalar (`>`), which keeps the line breaks around indented lines."""
    body = [(number, line) for number, line in enumerate(source_lines, first) if number > first]
    indent = min((len(line) - len(line.lstrip(" ")) for _, line in body if line.strip()), default=0)
    numbers: list[int] = []
    blank_lines = 0
    was_indented = False
    for number, line in body:
        if not line.strip():
            blank_lines += 1
            continue
        is_indented = line[indent : indent + 1] in (" ", "\t")
        keeps_break = not numbers or is_indented or was_indented
        numbers += [number] * (blank_lines + keeps_break)
        blank_lines, was_indented = 0, is_indented
    return numbers
