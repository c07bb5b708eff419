"""Names under which secrets are kept: of fields, headers and settings, however they are written.

A name is seen as its words, so `api_key`, `api-key`, `apiKey` and `X-API-Key` are one name, and `tokenizer` is none of
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

DEFAULT_NAMES: Final = (
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "secret",
    "secrets",
    "token",
    "api key",
    "access key",
    "private key",
    "signing key",
    "encryption key",
    "authorization",
    "auth header",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "session id",
    "otp",
    "cvv",
    "cvc",
)
"""What fields that hold secrets are called."""
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")
LONGEST: Final = 200
"""Signs of a key that are looked at."""


def words_of(name: str) -> tuple[str, ...]:
    """The words of a name, in lower case."""
    return tuple(word.lower() for word in _WORD.findall(name[:LONGEST]))


class SecretNames:
    """Tells names of secrets from others."""

    def __init__(self, names: Iterable[str] = DEFAULT_NAMES) -> None:
        self._parts = frozenset(parts for name in names for parts in _forms(name))
        self._longest = max(map(len, self._parts), default=0)

    def holds(self, name: str, value: object) -> bool:
        """Whether what stands under a name is a secret.

        What a name says beside a number is often about the secret, and not the secret: `token_count`.
        """
        found = self._place(words_of(name))
        if found is None or value is None or isinstance(value, bool):
            return False
        return found == "end" or not isinstance(value, int | float)

    def _place(self, words: tuple[str, ...]) -> str | None:
        """Whether the words end in a name of a secret, or have one in them."""
        place = None
        for length in range(1, self._longest + 1):
            for begin in range(len(words) - length + 1):
                if words[begin : begin + length] in self._parts:
                    place = "end" if begin + length == len(words) else place or "within"
                    if place == "end":
                        return place
        return place


def _forms(name: str) -> Iterable[tuple[str, ...]]:
    """A name as its words, and written as one."""
    words = words_of(name)
    return (words, ("".join(words),)) if words else ()
