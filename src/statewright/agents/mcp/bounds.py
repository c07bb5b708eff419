"""Limits on the length of descriptions and errors from MCP servers, which would otherwise fill a model's context."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

LONGEST_TEXT: Final = 10_000
"""Characters of a description, or of an error."""
LONGEST_TEXTS: Final = 50_000
"""Characters of all descriptions of a schema together. Later ones are dropped."""
_IN_WORDS: Final = ("description", "title", "$comment", "examples", "markdownDescription", "enumDescriptions")
"""Keywords that document a schema and do not affect validation."""
_OF_NAMES: Final = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
"""Keywords below which keys are names, and not keywords."""
_OF_VALUES: Final = ("default", "const", "enum")


def bounded(text: str, noun: str = "text", longest: int = LONGEST_TEXT) -> str:
    """Return a text, or its beginning with a note."""
    return text if len(text) <= longest else f"{text[:longest]} [The {noun} was cut off here.]"


def bounded_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema whose descriptions have a bound, each and all together: itself if they are within it."""
    return _Bounds().schema(schema)


class _Bounds:
    """Truncates the descriptions of one schema, and counts the characters that remain for the next ones."""

    def __init__(self) -> None:
        self._left = LONGEST_TEXTS

    def schema(self, schema: Any) -> Any:
        if isinstance(schema, list):
            items = cast("list[Any]", schema)
            shorter = [self.schema(item) for item in items]
            return shorter if any(new is not old for new, old in zip(shorter, items, strict=True)) else items
        if not isinstance(schema, Mapping):
            return schema
        known = cast("Mapping[str, Any]", schema)
        found = {key: self._value(key, value) for key, value in known.items()}
        if all(found[key] is value for key, value in known.items()):
            return known
        return {key: value for key, value in found.items() if value is not None or known[key] is None}

    def _value(self, key: str, value: Any) -> Any:
        if key in _IN_WORDS:
            return self._words(value)
        if key in _OF_VALUES:
            return value
        if key in _OF_NAMES and isinstance(value, Mapping):
            named = cast("Mapping[str, Any]", value)
            shorter = {name: self.schema(one) for name, one in named.items()}
            return shorter if any(shorter[name] is not one for name, one in named.items()) else named
        return self.schema(value)

    def _words(self, value: Any) -> Any:
        """Return a description, truncated to the remaining characters; None if none remain."""
        if isinstance(value, str):
            short = bounded(value, "description", min(LONGEST_TEXT, self._left)) if self._left > 0 else None
            self._left -= min(len(value), LONGEST_TEXT)
            return short
        size = len(str(value))
        self._left -= size
        return value if self._left > 0 and size <= LONGEST_TEXT else None
