"""The base of expressions and templates: texts that are parsed once."""

from __future__ import annotations

from typing import Any, Self


class ParsedText:
    """A parsed text. Immutable, compared by its text, and never copied."""

    __slots__ = ("text",)
    text: str
    """As the author wrote it."""

    @property
    def _arguments(self) -> tuple[Any, ...]:
        """The arguments that create an equal object."""
        return (self.text,)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"A parsed text is immutable: {name!r} cannot be set.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"A parsed text is immutable: {name!r} cannot be deleted.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ParsedText) or type(other) is not type(self):
            return NotImplemented
        return self._arguments == other._arguments

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._arguments

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self
