"""What a tool is given to prove who asks, and what no template, model or log may see.

They show nothing of themselves, and find their secrets again in whatever a tool says.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast
from urllib.parse import quote, quote_plus

HIDDEN: Final = "***"
"""What stands where a secret was."""
SHORTEST_SECRET: Final = 6
"""Characters; what is shorter is not looked for, or half of every text would be taken for it."""


class Credentials(Mapping[str, Any]):
    """The values of one integration, for one call."""

    __slots__ = ("_secrets", "_values", "alias")

    def __init__(self, alias: str, values: Mapping[str, Any], secrets: frozenset[str] = frozenset()) -> None:
        self.alias = alias
        self._values = values
        self._secrets = {form for secret in secrets for form in _forms_of(secret)}

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
        """Look for another text too: one that a tool has made of a secret."""
        self._secrets |= _forms_of(text)

    def appear_in(self, text: str) -> bool:
        """Whether a secret stands in a text."""
        return any(secret in text for secret in self._secrets)

    def hidden_in(self, value: Any) -> Any:
        """The same text, or value of JSON, without the secrets."""
        if not self._secrets:
            return value
        if isinstance(value, str):
            for secret in sorted(self._secrets, key=len, reverse=True):
                value = value.replace(secret, HIDDEN)
            return value
        if isinstance(value, dict):
            found = cast("dict[str, Any]", value)
            return {self.hidden_in(key): self.hidden_in(inner) for key, inner in found.items()}
        if isinstance(value, list):
            return [self.hidden_in(inner) for inner in cast("list[Any]", value)]
        return value


NO_CREDENTIALS: Final = Credentials("", {})


def _forms_of(secret: str) -> set[str]:
    """How a secret may be spelled in what a service says: as it is, in JSON, in a URL, in base 64."""
    if len(secret.strip()) < SHORTEST_SECRET:
        return set()
    in_base_64 = base64.b64encode(secret.encode(errors="replace")).decode()
    spelled = (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    in_url = (quote(secret, safe="", errors="replace"), quote_plus(secret, errors="replace"))
    in_small_letters = (re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), one) for one in in_url)
    return {*spelled, *in_url, *in_small_letters, in_base_64, repr(secret)[1:-1]}
