"""Credentials by alias: what a project keeps for tools, and what no template, model or log may see.

Values are written as `env:NAME` and looked up when a tool is called. What comes of it lives in `Credentials`, which
shows nothing of itself and finds its secrets again in whatever a tool says.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from statewright.agents import NO_CREDENTIALS, Credentials
from statewright.errors import MissingKey, ToolError, suggestion
from statewright.redaction import looks_secret

FROM_ENVIRONMENT: Final = "env:"


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
        if is_elsewhere or looks_secret(name, text):
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


def integration_stanza(alias: str) -> str:
    """What to add to statewright.toml for an integration."""
    key = alias if re.fullmatch(r"[A-Za-z0-9_-]+", alias) else json.dumps(alias, ensure_ascii=False)
    variable = re.sub(r"\W+", "_", alias, flags=re.ASCII).strip("_").upper() or "SERVICE"
    variable = f"_{variable}" if variable[0].isdigit() else variable
    return f'[integrations.{key}]\ntoken = "env:{variable}_TOKEN"'
