"""Secrets whose values are known, which are masked wherever they occur, in all common spellings.

A service that echoes a key may write it unchanged, in JSON or HTML, in a URL, in hexadecimal digits, or in Base64
together with surrounding text. All spellings are computed in advance and replaced in one pass. Longer spellings come
first, so that no part of a longer secret remains.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, cast
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit

from statewright.data.encodable import map_texts
from statewright.redaction.redactor import Redactor, looks_secret

Mask = Callable[[str], str]
"""A function that returns a text without secrets."""
HIDDEN: Final = "***"
"""Replaces a known value."""
MIN_LENGTH: Final = 6
"""Minimum length of a value that is masked, in characters. Shorter values may be parts of ordinary words."""
_REDACTOR: Final = Redactor()
_UNESCAPED_BY_JAVASCRIPT: Final = "!'()*"
"""Characters that `encodeURIComponent` of JavaScript does not escape, in contrast to `quote`."""


class KnownSecrets:
    """A set of secret values, which it finds and masks in text and JSON. Thread-safe."""

    __slots__ = ("_compiled", "_lock", "_min_length", "_spellings")

    def __init__(self, values: Iterable[str] = (), *, min_length: int = MIN_LENGTH) -> None:
        self._min_length = min_length
        self._lock = threading.Lock()
        """Held while values are added."""
        self._spellings: frozenset[str] = frozenset()
        self._compiled: tuple[frozenset[str], re.Pattern[str]] | None = None
        """A regular expression, and the spellings from which it was compiled; others may have been added since."""
        for value in values:
            self.add(value)

    def __bool__(self) -> bool:
        return bool(self._spellings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._spellings)} spellings)"

    def __reduce__(self) -> Any:
        raise TypeError("KnownSecrets cannot be pickled, so that secrets are not stored or sent by accident.")

    def add(self, value: str) -> None:
        """Add a value, and each of its lines. A value or line that is too short is ignored."""
        parts = {part for part in (value, value.strip(), *value.splitlines()) if len(part.strip()) >= self._min_length}
        spellings = {spelling for part in parts for spelling in _spellings(part)}
        with self._lock:
            # A new set, because another thread may be reading the old one.
            self._spellings = self._spellings | spellings

    def occur_in(self, text: str) -> bool:
        """Return True if the text contains one of the values."""
        return any(spelling in text for spelling in self._spellings)

    def mask(self, text: str) -> str:
        """Replace each of the values in a text with a mark."""
        if not self.occur_in(text):
            return text
        spellings, compiled = self._spellings, self._compiled
        if compiled is None or compiled[0] is not spellings:
            longest_first = sorted(spellings, key=lambda spelling: (-len(spelling), spelling))
            self._compiled = compiled = spellings, re.compile("|".join(map(re.escape, longest_first)))
        return compiled[1].sub(HIDDEN, text)

    def mask_json(self, value: Any) -> Any:
        """Replace each of the values in a JSON value with a mark, including the keys of objects."""
        return map_texts(value, self.mask) if self._spellings else value


def make_mask(values: Iterable[str]) -> Mask:
    """Return a function that masks these values, and text that has the shape of a secret."""
    secrets = KnownSecrets(values)
    return lambda text: _REDACTOR.text(secrets.mask(text))


def secrets_in_header(value: str) -> Iterator[str]:
    """Yield the secrets in the value of a header: the whole value, and the credentials after a scheme like `Bearer`."""
    yield value
    scheme, _, credentials = value.strip().partition(" ")
    if not credentials:
        return
    yield credentials.strip()
    if scheme.lower() == "basic":
        yield from _basic_credentials(credentials.strip())


def secrets_in_url(url: str) -> Iterator[str]:
    """Yield the possible secrets in a URL: the user name, the password and the values of the query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    yield from (text for text in (parts.username, parts.password) if text)
    yield from (value for _, value in parse_qsl(parts.query))


def secrets_in_settings(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts in nested settings, such as headers, that have the name or the shape of a secret."""
    for name, value in settings.items():
        if isinstance(value, str):
            if looks_secret(name, value):
                yield from secrets_in_header(value)
        elif isinstance(value, Mapping):
            yield from secrets_in_settings(cast("Mapping[str, Any]", value))


def secrets_in_environment(names: Iterable[str], environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the values of environment variables. Variables that are not set or empty are skipped."""
    yield from (environ[name] for name in names if environ.get(name))


def _basic_credentials(encoded: str) -> Iterator[str]:
    try:
        decoded = base64.b64decode(encoded).decode()
    except ValueError:
        return
    yield from (decoded, decoded.partition(":")[2])


def _spellings(value: str) -> Iterator[str]:
    """Yield the ways in which software may write a value; some may be yielded more than once."""
    yield from (value, repr(value)[1:-1])
    yield from _json_spellings(value)
    yield from _html_spellings(value)
    yield from _url_spellings(value)
    data = value.encode(errors="replace")
    yield from (data.hex(), data.hex().upper())
    for spelling in _base64_spellings(data):
        yield spelling
        yield spelling.replace("+", "-").replace("/", "_")


def _json_spellings(value: str) -> Iterator[str]:
    for text in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield text
        yield text.replace("/", r"\/")  # as PHP escapes slashes
        yield json.dumps(text)[1:-1]  # JSON within JSON


def _html_spellings(value: str) -> Iterator[str]:
    from html import escape  # imported here because it loads the names of all characters

    escaped = escape(value)
    yield from (escaped, escape(value, quote=False))
    yield escaped.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    yield escaped.replace("&#x27;", "&apos;")


def _url_spellings(value: str) -> Iterator[str]:
    for safe in ("", "/", _UNESCAPED_BY_JAVASCRIPT):
        for text in (quote(value, safe=safe, errors="replace"), quote_plus(value, safe=safe, errors="replace")):
            yield text
            yield re.sub("%[0-9A-F]{2}", lambda match: match[0].lower(), text)


def _base64_spellings(data: bytes) -> Iterator[str]:
    """Yield the encodings of data by itself, and of data that is surrounded by other data.

    Three bytes become a group of four characters, so the data begins at one of three positions in a group. Characters
    that also depend on surrounding bytes are omitted.
    """
    yield base64.b64encode(data).decode()
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + data).decode()
        start = -(-offset * 8 // 6)
        end = (offset + len(data)) * 8 // 6
        yield encoded[start:end]
