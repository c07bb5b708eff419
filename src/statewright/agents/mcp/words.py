"""The last words of a program: the end of what it wrote to its standard error."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, TextIO

_KEPT: Final = 4096  # bytes; what came before is forgotten, however much it was
_LINES: Final = 8
_PAUSE: Final = 0.01  # seconds


class StderrTail:
    """Keeps the end of what is written to a pipe. A thread reads it, so that no program ever waits for us to read."""

    def __init__(self) -> None:
        self._end = b""
        self._is_cut = False
        self._reader: threading.Thread | None = None

    @contextmanager
    def pipe(self) -> Generator[TextIO]:
        """A file for the program to write to. Leave the context once it has been started: it has its own handle."""
        reading, writing = os.pipe()
        self._reader = threading.Thread(target=self._read, args=(reading,), name="statewright-mcp-stderr", daemon=True)
        self._reader.start()
        with open(writing, "w", encoding="utf-8") as file:
            yield file

    async def heard(self, *, patience: float) -> str:
        """The last lines; of a program that has just died all of them, if it does not take longer than `patience`."""
        waited = 0.0
        while self._reader is not None and self._reader.is_alive() and waited < patience:
            await asyncio.sleep(_PAUSE)
            waited += _PAUSE
        lines = self._end.decode(errors="replace").splitlines()
        whole = lines[1:] if self._is_cut else lines  # half of a secret would not be known for one
        return "\n".join(whole[-_LINES:]).strip()

    def _read(self, reading: int) -> None:
        with open(reading, "rb", buffering=0) as file:
            while read := file.read(_KEPT):
                everything = self._end + read
                self._is_cut = self._is_cut or len(everything) > _KEPT
                self._end = everything[-_KEPT:]
