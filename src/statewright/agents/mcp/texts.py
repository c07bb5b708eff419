"""Texts from MCP servers: descriptions and errors, which are truncated because models read them; and the last output on
the standard error of server programs."""

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
"""Maximum characters of all descriptions in a schema together. Descriptions after that are dropped."""
_PROSE_KEYWORDS: Final = ("description", "title", "$comment", "examples", "markdownDescription", "enumDescriptions")
"""Keywords that document a schema and do not affect validation."""
_MAP_KEYWORDS: Final = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
"""Keywords whose value maps names to schemas."""
_VALUE_KEYWORDS: Final = ("default", "const", "enum")
"""Keywords whose value is data, not a schema."""


def truncate(text: str, label: str = "text", length: int = MAX_TEXT) -> str:
    """Return the text; if it has more than `length` characters, its beginning, and a note that calls it `label`."""
    return text if len(text) <= length else f"{text[:length]} [The {label} was cut off here.]"


def truncate_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema whose descriptions are truncated if they, or all of them together, are too long."""
    truncated = _SchemaTruncation().truncate_schema(schema)
    return schema if truncated == schema else truncated


class _SchemaTruncation:
    """Truncates the descriptions in one schema, and counts the characters that remain for later descriptions."""

    def __init__(self) -> None:
        self._remaining = MAX_SCHEMA_TEXT

    def truncate_schema(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return [self.truncate_schema(item) for item in cast("list[Any]", schema)]
        if not isinstance(schema, Mapping):
            return schema
        keywords = cast("Mapping[str, Any]", schema)
        shortened = {key: self._truncate_value(key, value) for key, value in keywords.items()}
        return {key: value for key, value in shortened.items() if value is not None or keywords[key] is None}

    def _truncate_value(self, keyword: str, value: Any) -> Any:
        if keyword in _PROSE_KEYWORDS:
            return self._truncate_prose(value)
        if keyword in _VALUE_KEYWORDS:
            return value
        if keyword in _MAP_KEYWORDS and isinstance(value, Mapping):
            schemas = cast("Mapping[str, Any]", value)
            return {name: self.truncate_schema(subschema) for name, subschema in schemas.items()}
        return self.truncate_schema(value)

    def _truncate_prose(self, value: Any) -> Any:
        """Return a description, truncated to the number of remaining characters; None to drop it if none remain."""
        if isinstance(value, str):
            shorter = truncate(value, "description", min(MAX_TEXT, self._remaining)) if self._remaining > 0 else None
            self._remaining -= min(len(value), MAX_TEXT)
            return shorter
        size = len(str(value))
        self._remaining -= size
        return value if self._remaining > 0 and size <= MAX_TEXT else None


# -- errors


def error_text(error: BaseException) -> str:
    """Return the text of an error, or of the first error in a group, after the name of its type.

    The type is omitted for errors whose texts are clear without it.
    """
    first = error
    while isinstance(first, BaseExceptionGroup):
        first = cast("BaseExceptionGroup[Any]", first).exceptions[0]
    text, type_name = str(first), type(first).__name__
    if not text:
        return type_name
    return text if type_name in ("MCPError", "TimeoutError") else f"{type_name}: {text}"


# -- standard error

_TAIL_BYTES: Final = 4096  # earlier output is dropped
_TAIL_LINES: Final = 8
_POLL_INTERVAL: Final = 0.01  # seconds


class StderrTail:
    """The last output that was written to a pipe. A thread reads the pipe, so that the program never has to wait."""

    def __init__(self) -> None:
        self._tail = b""
        self._is_truncated = False
        self._reader: threading.Thread | None = None

    @contextmanager
    def pipe(self) -> Generator[TextIO]:
        """Open the file to which a program writes.

        Exit the `with` block once the program has started: it has inherited a handle of its own, and the pipe ends only
        after all handles are closed.
        """
        reading, writing = os.pipe()
        self._reader = threading.Thread(
            target=self._read_pipe, args=(reading,), name="statewright-mcp-stderr", daemon=True
        )
        self._reader.start()
        with open(writing, "w", encoding="utf-8") as file:
            yield file

    async def read(self, *, timeout: float) -> str:
        """Return the last lines, after waiting up to `timeout` seconds for the end of the output."""
        waited = 0.0
        while self._reader is not None and self._reader.is_alive() and waited < timeout:
            await asyncio.sleep(_POLL_INTERVAL)
            waited += _POLL_INTERVAL
        lines = self._tail.decode(errors="replace").splitlines()
        complete_lines = lines[1:] if self._is_truncated else lines  # a truncated secret would not be recognised
        return "\n".join(complete_lines[-_TAIL_LINES:]).strip()

    def _read_pipe(self, reading: int) -> None:
        with open(reading, "rb", buffering=0) as file:
            while chunk := file.read(_TAIL_BYTES):
                output = self._tail + chunk
                self._is_truncated = self._is_truncated or len(output) > _TAIL_BYTES
                self._tail = output[-_TAIL_BYTES:]
