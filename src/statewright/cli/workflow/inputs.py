"""Parsing of input on the command line: JSON, `@FILE`, `KEY=VALUE`, or text for agents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

from statewright.cli.console.failure import UsageError
from statewright.messages import Message

_MAX_QUOTE: Final = 40
"""The maximum length of an input that error messages quote, in characters."""


def read_input(inputs: Sequence[str], option: str = "--input") -> Any:
    """Parse the values of an option such as `--input`; several mappings are merged. Raises UsageError."""
    parts = [_read_part(text, option) for text in inputs]
    if len(parts) == 1:
        return parts[0]
    merged: dict[str, Any] = {}
    for part in parts:
        if not isinstance(part, dict):
            raise UsageError(
                f"Only JSON objects can be merged, but one {option} is {json.dumps(part)}. Pass a single value, or "
                f"several objects."
            )
        merged.update(cast(dict[str, Any], part))
    return merged


def read_message(inputs: Sequence[str]) -> Message:
    """Return the message to an agent: text, or the contents of `@FILE`. Raises UsageError."""
    if len(inputs) != 1:
        raise UsageError(f"An agent takes one message, but there are {len(inputs)}. Pass --input TEXT once.")
    return Message(read_text(inputs[0]))


def read_text(text: str) -> str:
    """Return the text itself, or the contents of the file for `@FILE`. Raises UsageError."""
    return read_file(Path(text[1:]), "input file") if text.startswith("@") else text


def read_file(path: Path, noun: str) -> str:
    """Return the contents of a file. Raises UsageError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"The {noun} {str(path)!r} cannot be read: {reason}.") from error


def _read_part(text: str, option: str) -> Any:
    if text.startswith("@"):
        return _parse(read_file(Path(text[1:]), "input file"), f"The file {text[1:]}")
    key, equals, value = text.partition("=")
    if equals and key.isidentifier():
        return {key: read_value(value, f"A value of {option}")}
    return _parse(text, f"{option} {text!r}" if len(text) <= _MAX_QUOTE else option)


def _parse(text: str, source: str) -> Any:
    """Parse JSON; `source` is the subject of error messages."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{source} is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}. "
            f"Pass a JSON object, @FILE or KEY=VALUE."
        ) from error
    except (ValueError, RecursionError) as error:  # a number with thousands of digits, or thousands of brackets
        raise UsageError(f"{source} is too large to be parsed: {error}.") from error


def read_value(text: str, noun: str = "The value") -> Any:
    """Parse a value as JSON, or return the text itself. Raises UsageError for JSON that is too large."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{noun} is too large to be parsed: {error}.") from error
