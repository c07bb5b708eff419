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
    """Parse the values of an option such as `--input`, and merge several mappings into one. Raises UsageError."""
    values = [_parse_option_value(text, option) for text in inputs]
    if len(values) == 1:
        return values[0]
    merged: dict[str, Any] = {}
    for value in values:
        if not isinstance(value, dict):
            raise UsageError(
                f"Only JSON objects can be merged, but one {option} is {json.dumps(value)}. Pass a single value, or "
                f"several objects."
            )
        merged.update(cast(dict[str, Any], value))
    return merged


def read_message(inputs: Sequence[str]) -> Message:
    """Parse the input of an agent, text or `@FILE`, into a message. Raises UsageError unless there is exactly one."""
    if len(inputs) != 1:
        raise UsageError(f"An agent takes one message, but there are {len(inputs)}. Pass --input TEXT once.")
    return Message(read_text(inputs[0]))


def read_text(text: str) -> str:
    """Return the text itself or, for `@FILE`, the contents of the file. Raises UsageError."""
    return read_file(Path(text[1:]), "input file") if text.startswith("@") else text


def read_file(path: Path, file_description: str) -> str:
    """Return the contents of a text file. Raises UsageError if it cannot be read.

    `file_description` says in the error message what the file is, e.g. `input file`.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"The {file_description} {str(path)!r} cannot be read: {reason}.") from error


def _parse_option_value(text: str, option: str) -> Any:
    if text.startswith("@"):
        return _parse_json(read_file(Path(text[1:]), "input file"), f"The file {text[1:]}")
    key, equals, value = text.partition("=")
    if equals and key.isidentifier():
        return {key: read_value(value, f"A value of {option}")}
    return _parse_json(text, f"{option} {text!r}" if len(text) <= _MAX_QUOTE else option)


def _parse_json(text: str, subject: str) -> Any:
    """Parse JSON. Error messages begin with `subject`, which says where the text comes from. Raises UsageError."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{subject} is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}. "
            f"Pass a JSON object, @FILE or KEY=VALUE."
        ) from error
    except (ValueError, RecursionError) as error:  # a number has too many digits, or values are nested too deeply
        raise UsageError(f"{subject} is too large to be parsed: {error}.") from error


def read_value(text: str, subject: str = "The value") -> Any:
    """Return the value of a text in JSON, or the text itself if it is not JSON.

    Raises UsageError, with a message that begins with `subject`, for JSON that is too large.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{subject} is too large to be parsed: {error}.") from error
