"""Secrets kept out of what is shown: of logs, of events, of records that people look at.

A redactor never changes what it is given; where there is nothing to hide it gives back the very object. It takes time
in proportion to its input, also to one that was made to slow it down.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from statewright.observe.secret_names import DEFAULT_NAMES, LONGEST, SecretNames
from statewright.observe.secret_patterns import EMAILS, KNOWN, MARK, Pattern, without_cards

DEEPEST: Final = 100
"""Levels of nested values that are looked into; what lies deeper is hidden as a whole."""


class Redactor:
    """Replaces secrets by `[redacted]`: values of keys that are called like one, and text that looks like one.

    `keys` are names of keys, and `patterns` regular expressions, that are looked for besides those that are known.
    `emails` hides addresses of people too. Of a pattern with a group named `kept`, that group stays.
    """

    def __init__(
        self, *, keys: Iterable[str] = (), patterns: Iterable[str | re.Pattern[str]] = (), emails: bool = False
    ) -> None:
        self._names = SecretNames((*DEFAULT_NAMES, *keys))
        own = (Pattern(re.compile(one)) for one in patterns)
        self._patterns = (*KNOWN, *((EMAILS,) if emails else ()), *own)

    def text(self, text: str) -> str:
        """The text without secrets."""
        folded = text.casefold()
        for pattern in self._patterns:
            if pattern.may_match(folded):
                text = pattern.regex.sub(_marked, text)
        return without_cards(text)

    def value(self, value: Any) -> Any:
        """A value without secrets: text, and whatever maps and lists hold, at any depth."""
        return _Walk(self.text, self._names).seen(value, 0)

    def is_secret(self, name: str, value: object = "") -> bool:
        """Whether the value of a key is hidden whatever it is."""
        return self._names.holds(name, value)


def _marked(found: re.Match[str]) -> str:
    kept = found.groupdict().get("kept")
    return f"{kept or ''}{MARK}"


class _Walk:
    """One way through a value. What is met twice is worked out once, so shared parts cost nothing."""

    def __init__(self, text: Callable[[str], str], names: SecretNames) -> None:
        self._text = text
        self._names = names
        self._done: dict[int, Any] = {}

    def seen(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if not isinstance(value, Mapping | list | tuple | set | frozenset):
            return value
        if depth >= DEEPEST:
            return MARK
        known = id(cast(object, value))
        if known not in self._done:
            self._done[known] = MARK  # what holds itself
            self._done[known] = self._looked_through(value, depth + 1)
        return self._done[known]

    def _looked_through(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping):
            return self._map(cast(Mapping[Any, Any], value), depth)
        items: list[Any] = list(value)
        if _are_pairs(items):
            found = [self._pair(one, depth) for one in items]
        else:
            found = [self.seen(one, depth) for one in items]
        if all(new is old for new, old in zip(found, items, strict=True)):
            return value
        if isinstance(value, list):
            return found
        return type(value)(found) if type(value) in (set, frozenset) else tuple(found)

    def _map(self, value: Mapping[Any, Any], depth: int) -> Any:
        called = value.get("name", value.get("key")) if "value" in value else None
        found = {
            key: MARK
            if self._is_secret(key, one) or (key == "value" and self._is_secret(called, one))
            else self.seen(one, depth)
            for key, one in value.items()
        }
        return value if all(found[key] is one for key, one in value.items()) else found

    def _pair(self, pair: Any, depth: int) -> Any:
        """A name and its value, such as headers are kept in lists of."""
        if self._is_secret(pair[0], pair[1]):
            return [pair[0], MARK] if isinstance(pair, list) else (pair[0], MARK)
        return self.seen(pair, depth)

    def _is_secret(self, name: Any, value: Any) -> bool:
        """Whether it is the name of a secret, as text or as the bytes of a header, and the secret."""
        if isinstance(name, bytes):
            name = name[:LONGEST].decode("latin-1")
        return isinstance(name, str) and self._names.holds(name, value)


def _are_pairs(items: list[Any]) -> bool:
    return bool(items) and all(
        isinstance(one, list | tuple) and len(cast("list[Any]", one)) == 2 and isinstance(one[0], str | bytes)
        for one in items
    )
