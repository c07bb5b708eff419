"""Integrations: the credentials of a project by alias, which must not reach templates, models or logs.

A secret is written as `env:NAME`, and is read from the environment when a tool is called. The tool receives a
`Credentials` object, which hides its values and masks its secrets in the output of the tool.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, cast

from statewright.agents import NO_CREDENTIALS, Credentials
from statewright.errors import MissingApiKey, ToolError, suggestion
from statewright.http import Url
from statewright.redaction import looks_secret
from statewright.text import toml_key
from statewright.workflow.states.tools.guard import read_url


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

    def credentials(self, alias: str | None, environ: Mapping[str, str] = os.environ) -> Credentials:
        """Return the current credentials of an integration; empty credentials for None.

        Raises ToolError for an unknown alias, and MissingApiKey for an environment variable that is not set.
        """
        if alias is None:
            return NO_CREDENTIALS
        if alias not in self._values:
            raise ToolError(
                f"Integration {alias!r} does not exist. {suggestion(alias, self._values, noun='Integrations')} "
                f"To add it, write in statewright.toml:\n{integration_snippet(alias)}"
            )
        secrets: set[str] = set()
        values = {name: _resolve(value, name, alias, environ, secrets) for name, value in self._values[alias].items()}
        return Credentials(alias, values, frozenset(secrets))


def _resolve(value: Any, name: str, alias: str, environ: Mapping[str, str], secrets: set[str]) -> Any:
    """Return a value with each `env:NAME` in it replaced by the variable, and add the secrets in it to `secrets`."""
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value).items()
        return {key: _resolve(item, key, alias, environ, secrets) for key, item in items}
    if not isinstance(value, str):
        return value
    variable = read_variable(value, f"Integration {alias!r} takes {name!r}", environ)
    text = value if variable is None else variable
    if variable is not None or looks_secret(name, text):
        secrets.add(text)
    return text


def read_variable(text: str, label: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the value of the environment variable in `env:NAME`; None for any other text.

    Raises MissingApiKey if the variable is not set. The message begins with `label`, such as "Model 'a' takes api_key".
    """
    if not text.startswith("env:"):
        return None
    variable = text.removeprefix("env:")
    value = environ.get(variable)
    if not value:
        raise MissingApiKey(
            f"{label} from the environment variable {variable}, which is not set. Set it where Statewright runs."
        )
    return value


def base_url(credentials: Credentials) -> Url | None:
    """Return the `base_url` or `url` of an integration; None if it has none."""
    value = credentials.get("base_url", credentials.get("url"))
    return read_url(value) if isinstance(value, str) else None


def check_origin(credentials: Credentials, base: Url, url: Url) -> None:
    """Raise ToolError for a URL whose origin is not that of `base`, the base URL of an integration."""
    if base.origin != url.origin:
        raise ToolError(
            f"Integration {credentials.alias!r} is for {base.scheme}://{base.host}, but was used for {url.host!r}. "
            f"Use it only for its own host, or omit it."
        )


def integration_snippet(alias: str) -> str:
    """Return the lines of statewright.toml that define an integration."""
    variable = re.sub(r"\W+", "_", alias, flags=re.ASCII).strip("_").upper() or "SERVICE"
    variable = f"_{variable}" if variable[0].isdigit() else variable
    return f'[integrations.{toml_key(alias)}]\ntoken = "env:{variable}_TOKEN"'
