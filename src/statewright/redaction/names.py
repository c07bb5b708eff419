"""Names of secrets: fields, headers, settings and variables, in any spelling.

Names are compared word by word, so `api_key`, `api-key`, `apiKey` and `X-API-Key` all match, but `tokenizer` does not
match `token`. Masking by key, the search for `name=value` in text, and warnings about project files share one list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal

SECRET_NAMES: Final = (
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "passcode",
    "secret",
    "token",
    "access tokens",
    "api tokens",
    "auth tokens",
    "bearer tokens",
    "refresh tokens",
    "session tokens",
    "api key",
    "access key",
    "account key",
    "auth key",
    "encryption key",
    "master key",
    "private key",
    "secret key",
    "shared key",
    "signing key",
    "ssh key",
    "storage key",
    "subscription key",
    "authorization",
    "auth header",
    "bearer",
    "jwt",
    "cookie",
    "credential",
    "connection string",
    "session id",
    "sess id",
    "otp",
    "totp",
    "otp code",
    "cvv",
    "cvc",
    "card number",
    "ssn",
    "social security number",
)
"""Names of secrets, as words. Their plurals match too, except `tokens`, because `max_tokens` is a count. Therefore
plurals such as `access tokens` are listed here."""
WITHOUT_PLURAL: Final = frozenset({"token"})
"""The names whose plurals do not match."""
MAX_LENGTH: Final = 200
"""Only this many characters at the end of a name are compared, so that long names, probably hostile, take no longer."""
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")
_MIN_SUFFIX: Final = 5
"""Minimum length of a name that also matches the end of a word, as in `pgpassword`. Shorter names such as `otp` do not,
because ordinary words end in them."""

_Position = Literal["end", "within"]


def split_words(name: str) -> tuple[str, ...]:
    """Return the words of a name, in lower case."""
    return tuple(word.lower() for word in _WORD.findall(name[-MAX_LENGTH:]))


class SecretNames:
    """A set of names of secrets."""

    def __init__(self, names: Iterable[str] = SECRET_NAMES) -> None:
        self._phrases = frozenset(phrase for name in names for phrase in _phrases(name))
        self._longest = max(map(len, self._phrases), default=0)
        self._suffixes = tuple(phrase[0] for phrase in self._phrases if len(phrase) == 1 and _is_suffix(phrase[0]))

    def is_secret(self, name: str, value: object = "") -> bool:
        """Return True if the value under a name is a secret.

        Booleans and None are never secrets. A number is one only if `name` ends with the name of a secret: if the name
        of a secret is elsewhere in it, as in `token_count`, the number probably describes the secret.
        """
        position = self._find(split_words(name))
        if position is None or value is None or isinstance(value, bool):
            return False
        return position == "end" or not isinstance(value, int | float)

    def _find(self, words: tuple[str, ...]) -> _Position | None:
        """Return the position of a secret's name among the words. A number at the end is ignored, as in `password2`."""
        ends = {len(words), len(words) - sum(word.isdigit() for word in words[-1:])}
        position: _Position | None = None
        for length in range(1, self._longest + 1):
            for begin in range(len(words) - length + 1):
                if self._is_secret_phrase(words[begin : begin + length]):
                    if begin + length in ends:
                        return "end"
                    position = "within"
        return position

    def _is_secret_phrase(self, words: tuple[str, ...]) -> bool:
        return words in self._phrases or (len(words) == 1 and words[0].endswith(self._suffixes))


def is_secret_name(name: str) -> bool:
    """Return True if a text under this name is probably a secret."""
    return _DEFAULT.is_secret(name)


def _phrases(name: str) -> Iterable[tuple[str, ...]]:
    """Yield the words of a name, the name written as a single word, and the plurals of both."""
    words = split_words(name)
    if not words:
        return
    last = words[-1]
    last_words = (last,) if last in WITHOUT_PLURAL or last.endswith("s") else (last, f"{last}s")
    for last_word in last_words:
        yield (*words[:-1], last_word)
        yield ("".join((*words[:-1], last_word)),)


def _is_suffix(word: str) -> bool:
    return len(word) >= _MIN_SUFFIX and word.isascii()


_DEFAULT: Final = SecretNames()
