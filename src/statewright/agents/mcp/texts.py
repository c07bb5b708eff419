"""Texts from MCP servers: descriptions and errors, truncated since models read them, and the tail of standard error."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TextIO, cast

MAX_TEXT: Final = 10_000
"""Maximum characters of a description, or of an error."""
MAX_SCHEMA_TEXT: Final = 50_000
"""Maximum characters of all descriptions in a schema together. Later ones are dropped."""
_PROSE_KEYWORDS: Final = ("description", "title", "$comment", "examples", "markdownDescription", "enumDescriptions")
"""Keywords that document a schema and do not affect validation."""
_MAP_KEYWORDS: Final = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
"""Keywords whose keys are names, not keywords."""
_VALUE_KEYWORDS: Final = ("default", "const", "enum")
"""Keywords whose values are values, not schemas."""


def truncate(text: str, noun: str = "text", length: int = MAX_TEXT) -> str:
    """Return a text; if it is too long, truncated and with a note."""
    return text if len(text) <= length else f"{text[:length]} [The {noun} was cut off here.]"


def truncate_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema with its descriptions truncated, individually and in total; unchanged if they are short."""
    shorter = _SchemaTruncation().schema(schema)
    return schema if shorter == schema else shorter


class _SchemaTruncation:
    """Truncates the descriptions in one schema, and counts the characters that remain for later ones."""

    def __init__(self) -> None:
        self._remaining = MAX_SCHEMA_TEXT

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
        """Return a description, truncated to the remaining characters; None to drop it if none remain."""
        if isinstance(value, str):
            shorter = truncate(value, "description", min(MAX_TEXT, self._remaining)) if self._remaining > 0 else None
            self._remaining -= min(len(value), MAX_TEXT)
            return shorter
        size = len(str(value))
        self._remaining -= size
        return value if self._remaining > 0 and size <= MAX_TEXT else None


# -- errors


def error_text(error: BaseException) -> str:
    """Return the text of an error, or of the first error in a group, with its type unless the text alone is clear."""
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
    """The last output that was written to a pipe. A thread reads the pipe, so that no program blocks on a full one."""

    def __init__(self) -> None:
        self._tail = b""
        self._is_truncated = False
        self._reader: threading.Thread | None = None

    @contextmanager
    def pipe(self) -> Generator[TextIO]:
        """Open the file that a program writes to. Exit once the program has started: it inherits a handle."""
        reading, writing = os.pipe()
        self._reader = threading.Thread(
            target=self._read_pipe, args=(reading,), name="statewright-mcp-stderr", daemon=True
        )
        self._reader.start()
        with open(writing, "w", encoding="utf-8") as file:
            yield file

    async def read(self, *, patience: float) -> str:
        """Return the last lines, after waiting up to `patience` seconds for the output of an exiting program."""
        waited = 0.0
        while self._reader is not None and self._reader.is_alive() and waited < patience:
            await asyncio.sleep(_PAUSE)
            waited += _PAUSE
        lines = self._tail.decode(errors="replace").splitlines()
        complete_lines = lines[1:] if self._is_truncated else lines  # a truncated secret would not be recognised
        return "\n".join(complete_lines[-_TAIL_LINES:]).strip()

    def _read_pipe(self, reading: int) -> None:
        with open(reading, "rb", buffering=0) as file:
            while read := file.read(_TAIL_BYTES):
                output = self._tail + read
                self._is_truncated = self._is_truncated or len(output) > _TAIL_BYTES
                self._tail = output[-_TAIL_BYTES:]
