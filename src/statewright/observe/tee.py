"""A stream that somebody listens to: what is written goes on to where it went before."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TextIO, cast

Heard = Callable[[str], object]


class Tee:
    """Stands in the place of a text stream. Everything but writing is what the stream itself does."""

    def __init__(self, stream: TextIO, heard: Heard) -> None:
        self._stream = stream
        self._heard: Heard | None = heard

    @property
    def original(self) -> TextIO:
        """Where everything goes on to."""
        return self._stream

    def write(self, text: str) -> int:
        if self._heard is not None and isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            with suppress(Exception):  # whoever prints must not suffer from it
                self._heard(text)
        return self._stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def stop(self) -> None:
        """Listen no more: somebody may keep the stream for longer."""
        self._heard = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> Any:
        return iter(self._stream)

    def __enter__(self) -> Tee:
        self._stream.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stream.__exit__(*raised)


def untapped(stream: Any) -> TextIO:
    """The stream itself, without those who listen to it."""
    while isinstance(stream, Tee):
        stream = stream.original
    return cast(TextIO, stream)
