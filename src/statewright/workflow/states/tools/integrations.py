"""Integrations: the credentials of a project by alias, which no template, model or log may see.

Values are written as `env:NAME` and resolved when a tool is called. The result is a `Credentials`, which hides its
values and masks its secrets in the output of tools.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from statewright.agents import NO_CREDENTIALS, Credentials
from statewright.errors import MissingApiKey, ToolError, suggestion
from statewright.redaction import looks_secret

FROM_ENVIRONMENT: Final = "env:"


class Integrations:
    """The integrations of a project."""

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
        """Return the current credentials of an integration; empty credentials for None.

        Raises ToolError for an unknown alias, MissingApiKey for an unset environment variable.
        """
        if alias is None:
            return NO_CREDENTIALS
        if alias not in self._values:
            raise ToolError(
                f"Integration {alias!r} does not exist. {suggestion(alias, self._values, noun='Integrations')} "
                f"To add it, write in statewright.toml:\n{integration_stanza(alias)}"
            )
        reading = _Reading(alias, os.environ if environ is None else environ)
        values = {name: reading.value(name, written) for name, written in self._values[alias].items()}
        return Credentials(alias, values, frozenset(reading.secrets))


class _Reading:
    """Resolves the values of an integration, and collects its secrets."""

    def __init__(self, alias: str, environ: Mapping[str, str]) -> None:
        self._alias = alias
        self._environ = environ
        self.secrets: set[str] = set()

    def value(self, name: str, written: Any) -> Any:
        if isinstance(written, Mapping):
            inner = cast("Mapping[str, Any]", written)
            return {key: self.value(key, item) for key, item in inner.items()}
        if not isinstance(written, str):
            return written
        is_elsewhere = written.startswith(FROM_ENVIRONMENT)
        text = self._from_environment(name, written[len(FROM_ENVIRONMENT) :]) if is_elsewhere else written
        if is_elsewhere or looks_secret(name, text):
            self.secrets.add(text)
        return text

    def _from_environment(self, name: str, variable: str) -> str:
        value = self._environ.get(variable)
        if not value:
            raise MissingApiKey(
                f"Integration {self._alias!r} takes {name!r} from the environment variable {variable}, which is not "
                f"set. Set it where Statewright runs."
            )
        return value


def integration_stanza(alias: str) -> str:
    """Return the lines of statewright.toml that define an integration."""
    key = alias if re.fullmatch(r"[A-Za-z0-9_-]+", alias) else json.dumps(alias, ensure_ascii=False)
    variable = re.sub(r"\W+", "_", alias, flags=re.ASCII).strip("_").upper() or "SERVICE"
    variable = f"_{variable}" if variable[0].isdigit() else variable
    return f'[integrations.{key}]\ntoken = "env:{variable}_TOKEN"'
