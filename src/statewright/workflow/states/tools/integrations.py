"""Credentials by alias: what a project keeps for tools, and what no template, model or log may see.

Values are written as `env:NAME` and looked up when a tool is called. What comes of it lives in `Credentials`, which
shows nothing of itself and finds its secrets again in whatever a tool says.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast
from urllib.parse import quote, quote_plus

from statewright.errors import MissingKey, ToolError, suggestion

FROM_ENVIRONMENT: Final = "env:"
HIDDEN: Final = "***"
"""What stands where a secret was."""
SHORTEST_SECRET: Final = 6
"""Characters; what is shorter is not looked for, or half of every text would be taken for it."""
_SECRET_NAME: Final = re.compile(
    r"token|secret|passw|pwd|credential|private|(api|access|auth)[_-]?key|authorization", re.I
)


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


class Integrations:
    """What a project keeps for its tools."""

    def __init__(self, values: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._values = dict(values or {})

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(self._values)

    def __contains__(self, alias: object) -> bool:
        return alias in self._values

    def __repr__(self) -> str:
        return f"Integrations({', '.join(self._values)})"

    def credentials(self, alias: str | None, environ: Mapping[str, str] | None = None) -> Credentials:
        """The values of an integration as they are now; none for no alias.

        Raises ToolError for an alias that is nowhere, MissingKey for a variable of the environment that is not set.
        """
        if alias is None:
            return NO_CREDENTIALS
        if alias not in self._values:
            raise ToolError(
                f"There is no integration {alias!r}. {suggestion(alias, self._values, noun='Integrations')} "
                f"To add it, write in statewright.toml:\n{integration_stanza(alias)}"
            )
        reading = _Reading(alias, os.environ if environ is None else environ)
        values = {name: reading.value(name, written) for name, written in self._values[alias].items()}
        return Credentials(alias, values, frozenset(reading.secrets))


class _Reading:
    """The values of an integration being looked up, and which of them are secret."""

    def __init__(self, alias: str, environ: Mapping[str, str]) -> None:
        self._alias = alias
        self._environ = environ
        self.secrets: set[str] = set()

    def value(self, name: str, written: Any) -> Any:
        if isinstance(written, Mapping):
            inner = cast("Mapping[str, Any]", written)
            return {key: self.value(key, one) for key, one in inner.items()}
        if not isinstance(written, str):
            return written
        is_elsewhere = written.startswith(FROM_ENVIRONMENT)
        text = self._from_environment(name, written[len(FROM_ENVIRONMENT) :]) if is_elsewhere else written
        if is_elsewhere or is_secret_name(name):
            self.secrets.add(text)
        return text

    def _from_environment(self, name: str, variable: str) -> str:
        found = self._environ.get(variable)
        if not found:
            raise MissingKey(
                f"Integration {self._alias!r} takes {name!r} from the environment variable {variable}, which is not "
                f"set. Set it where Statewright runs."
            )
        return found


def is_secret_name(name: str) -> bool:
    """Whether a value of this name is probably one that nobody should see."""
    return _SECRET_NAME.search(name) is not None


def integration_stanza(alias: str) -> str:
    """What to add to statewright.toml for an integration."""
    key = alias if re.fullmatch(r"[A-Za-z0-9_-]+", alias) else json.dumps(alias, ensure_ascii=False)
    variable = re.sub(r"\W+", "_", alias, flags=re.ASCII).strip("_").upper() or "SERVICE"
    variable = f"_{variable}" if variable[0].isdigit() else variable
    return f'[integrations.{key}]\ntoken = "env:{variable}_TOKEN"'


def _forms_of(secret: str) -> set[str]:
    """How a secret may be spelled in what a service says: as it is, in JSON, in a URL, in base 64."""
    if len(secret.strip()) < SHORTEST_SECRET:
        return set()
    in_base_64 = base64.b64encode(secret.encode(errors="replace")).decode()
    spelled = (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    in_url = (quote(secret, safe="", errors="replace"), quote_plus(secret, errors="replace"))
    in_small_letters = (re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), one) for one in in_url)
    return {*spelled, *in_url, *in_small_letters, in_base_64, repr(secret)[1:-1]}
