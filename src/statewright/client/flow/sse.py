"""Incremental parser of server-sent events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Message:
    """One event of a stream."""

    event: str
    data: str
    id: str | None


class Parser:
    """Parses pieces of a stream into messages."""

    def __init__(self) -> None:
        self._buffer = b""
        self._has_started = False
        self._event = ""
        self._data: list[str] = []
        self._id: str | None = None

    def feed(self, piece: bytes) -> Iterator[Message]:
        """Yield the messages that end in this piece."""
        for line in self._lines(piece):
            if line:
                self._parse_line(line.decode("utf-8", "replace"))
            elif (message := self._dispatch()) is not None:
                yield message

    def _lines(self, piece: bytes) -> Iterator[bytes]:
        """Yield complete lines, which end with CR, LF or both. A final CR is kept, because an LF may follow."""
        text = self._buffer + piece
        if not self._has_started and len(text) < len(_BOM) and _BOM.startswith(text):
            self._buffer = text
            return
        if not self._has_started:
            self._has_started, text = True, text.removeprefix(_BOM)
        ends_with_cr = text[-1:] == b"\r"
        text = (text[:-1] if ends_with_cr else text).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, remainder = text.split(b"\n")
        self._buffer = remainder + b"\r" if ends_with_cr else remainder
        yield from lines

    def _parse_line(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._event = value
            case "data":
                self._data.append(value)
            case "id" if "\0" not in value:
                self._id = value
            case _:  # a comment, or an unknown field
                pass

    def _dispatch(self) -> Message | None:
        event, data = self._event, self._data
        self._event, self._data = "", []
        return Message(event or "message", "\n".join(data), self._id) if data else None
