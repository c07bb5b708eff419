"""Credentials of one integration for one call, which templates, models and logs must not see.

Their repr does not show values, and answers and errors of the tool are masked where they repeat one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from statewright.redaction import KnownSecrets


class Credentials(Mapping[str, Any]):
    """The values of one integration, for one call."""

    __slots__ = ("_secrets", "_values", "alias")

    def __init__(self, alias: str, values: Mapping[str, Any], secrets: frozenset[str] = frozenset()) -> None:
        self.alias = alias
        self._values = values
        self._secrets = KnownSecrets(secrets)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Credentials({self.alias!r}: {', '.join(self._values) or 'nothing'})"

    def __reduce__(self) -> Any:
        raise TypeError("Credentials are not stored or sent anywhere.")

    def keep_secret(self, text: str) -> None:
        """Mask another text too, such as one derived from a secret."""
        self._secrets.add(text)

    def appear_in(self, text: str) -> bool:
        """Return True if the text contains a secret."""
        return self._secrets.appear_in(text)

    def hidden_in(self, value: Any) -> Any:
        """Return the text, or the value of JSON, with its secrets masked."""
        return self._secrets.mask_json(value)


NO_CREDENTIALS: Final = Credentials("", {})
