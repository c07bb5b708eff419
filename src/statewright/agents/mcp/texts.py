"""Texts from MCP servers: bounded descriptions, messages of errors, and the end of standard error.

Unbounded descriptions and errors would fill a model's context.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TextIO, cast

LONGEST_TEXT: Final = 10_000
"""Characters of a description, or of an error."""
LONGEST_TEXTS: Final = 50_000
"""Characters of all descriptions of a schema together. Later ones are dropped."""
_PROSE_KEYWORDS: Final = ("description", "title", "$comment", "examples", "markdownDescription", "enumDescriptions")
"""Keywords that document a schema and do not affect validation."""
_MAP_KEYWORDS: Final = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
"""Keywords whose keys are names, not keywords."""
_VALUE_KEYWORDS: Final = ("default", "const", "enum")


def truncate(text: str, noun: str = "text", longest: int = LONGEST_TEXT) -> str:
    """Return a text, truncated with a note if it is too long."""
    return text if len(text) <= longest else f"{text[:longest]} [The {noun} was cut off here.]"


def truncate_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema with its descriptions truncated, each and in total; unchanged if they are short enough."""
    shorter = _SchemaTruncation().schema(schema)
    return schema if shorter == schema else shorter


class _SchemaTruncation:
    """Truncates the descriptions of one schema, and counts the characters that remain for the next ones."""

    def __init__(self) -> None:
        self._remaining = LONGEST_TEXTS

    def schema(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return [self.schema(item) for item in cast("list[Any]", schema)]
        if not isinstance(schema, Mapping):
            return schema
        keywords = cast("Mapping[str, Any]", schema)
        shortened = {key: self._value(key, value) for key, value in keywords.items()}
        return {key: value for key, value in shortened.items() if value is not None or keywords[key] is None}

    def _value(self, key: str, value: Any) -> Any:
        if key in _PROSE_KEYWORDS:
            return self._prose(value)
        if key in _VALUE_KEYWORDS:
            return value
        if key in _MAP_KEYWORDS and isinstance(value, Mapping):
            return {name: self.schema(subschema) for name, subschema in cast("Mapping[str, Any]", value).items()}
        return self.schema(value)

    def _prose(self, value: Any) -> Any:
        """Return a description, truncated to the remaining characters; None if none remain."""
        if isinstance(value, str):
            short = truncate(value, "description", min(LONGEST_TEXT, self._remaining)) if self._remaining > 0 else None
            self._remaining -= min(len(value), LONGEST_TEXT)
            return short
        size = len(str(value))
        self._remaining -= size
        return value if self._remaining > 0 and size <= LONGEST_TEXT else None


# -- errors


def error_text(error: BaseException) -> str:
    """Return the text of an error, or of the first in a group, with its type if the text alone is unclear."""
    first = error
    while isinstance(first, BaseExceptionGroup):
        first = cast("BaseExceptionGroup[Any]", first).exceptions[0]
    text, kind = str(first), type(first).__name__
    if not text:
        return kind
    return text if kind in ("MCPError", "TimeoutError") else f"{kind}: {text}"


# -- standard error

_TAIL_BYTES: Final = 4096  # bytes; earlier output is dropped
_TAIL_LINES: Final = 8
_PAUSE: Final = 0.01  # seconds


class StderrTail:
    """Keeps the last output written to a pipe. A thread reads it, so that no program blocks on a full pipe."""

    def __init__(self) -> None:
        self._end = b""
        self._is_cut = False
        self._reader: threading.Thread | None = None

    @contextmanager
    def pipe(self) -> Generator[TextIO]:
        """Open a file for a program to write to. Leave the context once it is started: it has its own handle."""
        reading, writing = os.pipe()
        self._reader = threading.Thread(
            target=self._read_pipe, args=(reading,), name="statewright-mcp-stderr", daemon=True
        )
        self._reader.start()
        with open(writing, "w", encoding="utf-8") as file:
            yield file

    async def read(self, *, patience: float) -> str:
        """Return the last lines, after waiting up to `patience` seconds for the output of a dying program to end."""
        waited = 0.0
        while self._reader is not None and self._reader.is_alive() and waited < patience:
            await asyncio.sleep(_PAUSE)
            waited += _PAUSE
        lines = self._end.decode(errors="replace").splitlines()
        complete_lines = lines[1:] if self._is_cut else lines  # a truncated secret would not be recognised
        return "\n".join(complete_lines[-_TAIL_LINES:]).strip()

    def _read_pipe(self, reading: int) -> None:
        with open(reading, "rb", buffering=0) as file:
            while read := file.read(_TAIL_BYTES):
                output = self._end + read
                self._is_cut = self._is_cut or len(output) > _TAIL_BYTES
                self._end = output[-_TAIL_BYTES:]
