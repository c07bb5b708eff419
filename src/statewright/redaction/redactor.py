"""Masking of secrets in values that are shown or stored: logs, events, records.

A redactor never modifies its input, and returns the same object if there is nothing to mask. It takes time in
proportion to the size of its input, even if the input is hostile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from statewright.redaction.names import MAX_LENGTH, SECRET_NAMES, SecretNames, is_secret_name
from statewright.redaction.patterns import EMAILS, MARK, PATTERNS, Pattern, replace_secrets

MAX_DEPTH: Final = 100
"""Maximum levels of nested containers. Containers that are nested more deeply are masked as a whole."""


class Redactor:
    """Replaces secrets by `[redacted]`: values under the name of a secret, and text that has the shape of one.

    `keys` are additional names of secrets, and `patterns` additional regular expressions for their shapes. If a pattern
    has a group named `kept`, the text of that group is kept before the mark. If `emails` is true, email addresses are
    masked too.
    """

    def __init__(
        self, *, keys: Iterable[str] = (), patterns: Iterable[str | re.Pattern[str]] = (), emails: bool = False
    ) -> None:
        self._names = SecretNames((*SECRET_NAMES, *keys))
        custom_patterns = (Pattern(re.compile(pattern)) for pattern in patterns)
        self._patterns = (*PATTERNS, *((EMAILS,) if emails else ()), *custom_patterns)

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        return replace_secrets(text, self._patterns)

    def value(self, value: Any) -> Any:
        """Return a value without the secrets in its texts, at any depth of nested mappings and collections."""
        return _Traversal(self.text, self._names).redact(value, 0)

    def is_secret(self, name: str, value: object = "") -> bool:
        """Return True if a value is masked because of its name."""
        return self._names.is_secret(name, value)


def looks_secret(name: str, text: str) -> bool:
    """Return True if a text has the name or the shape of a secret."""
    return is_secret_name(name) or replace_secrets(text, PATTERNS) != text


class _Traversal:
    """One traversal of a value. Parts that occur several times are redacted once."""

    def __init__(self, text: Callable[[str], str], names: SecretNames) -> None:
        self._text = text
        self._names = names
        self._results: dict[int, Any] = {}

    def redact(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, Mapping | list | tuple | set | frozenset):
            return value
        if depth >= MAX_DEPTH:
            return MARK
        key = id(cast(object, value))
        if key not in self._results:
            self._results[key] = MARK  # used if the value contains itself
            self._results[key] = self._redact_contents(value, depth + 1)
        return self._results[key]

    def _redact_contents(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping):
            return self._redact_mapping(cast(Mapping[Any, Any], value), depth)
        items: list[Any] = list(value)
        redact = self._redact_pair if _are_pairs(items) else self.redact
        redacted = [redact(item, depth) for item in items]
        if all(new is old for new, old in zip(redacted, items, strict=True)):
            return value
        if isinstance(value, list):
            return redacted
        return type(value)(redacted) if type(value) in (set, frozenset) else tuple(redacted)

    def _redact_mapping(self, value: Mapping[Any, Any], depth: int) -> Any:
        # The mapping itself may consist of a name and a value: {"name": "password", "value": "..."}.
        name = value.get("name", value.get("key")) if "value" in value else None
        redacted: dict[Any, Any] = {}
        is_changed = False
        for key, item in value.items():
            is_secret = self._is_secret(key, item) or (key == "value" and self._is_secret(name, item))
            new_key = self._text(key) if isinstance(key, str) else key
            redacted[new_key] = new = MARK if is_secret else self.redact(item, depth)
            is_changed = is_changed or new is not item or new_key != key
        return redacted if is_changed else value

    def _redact_pair(self, pair: Any, depth: int) -> Any:
        """Redact a pair that may consist of a name and a value, as in a list of headers."""
        if self._is_secret(pair[0], pair[1]):
            return [pair[0], MARK] if isinstance(pair, list) else (pair[0], MARK)
        return self.redact(pair, depth)

    def _is_secret(self, name: Any, value: Any) -> bool:
        if isinstance(name, bytes):  # the name of a header
            name = name[-MAX_LENGTH:].decode("latin-1")
        return isinstance(name, str) and self._names.is_secret(name, value)


def _are_pairs(items: list[Any]) -> bool:
    return bool(items) and all(
        isinstance(item, list | tuple) and len(cast("list[Any]", item)) == 2 and isinstance(item[0], str | bytes)
        for item in items
    )
