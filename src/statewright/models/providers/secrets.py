"""Secrets of a connection to a provider: servers and proxies repeat them in their errors.

The key may be an argument or stand in the environment; headers, settings and the address may contain others. Variables
are read when the model is connected and again at each error, since clients that are made in between read them too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

from statewright.models.providers.key import VARIABLES_BY_PROVIDER
from statewright.redaction import (
    Mask,
    is_secret_name,
    mask_of,
    secrets_in_environment,
    secrets_in_settings,
    secrets_in_url,
)

_NOT_SECRET: Final = frozenset({"PWD", "OLDPWD"})
"""Variables of the shell: folders."""


class ProviderSecrets:
    """The values to mask in the errors of one connection, with whatever else has the shape of a secret."""

    def __init__(
        self,
        provider: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._provider = provider
        self._values = (
            api_key or "",
            *secrets_in_url(base_url or ""),
            *secrets_in_settings(settings or {}),
            *_secrets_in_environment(provider),
        )

    def mask_for(self, settings: Mapping[str, Any], base_url: str) -> Mask:
        """Return a function that masks the secrets in a text about a request with these settings."""
        values = (*secrets_in_settings(settings), *secrets_in_url(base_url), *_secrets_in_environment(self._provider))
        return mask_of((*self._values, *values))


def _secrets_in_environment(provider: str) -> Iterator[str]:
    """Yield the keys of a provider; the values of all variables with the name of a secret, if its own are not known."""
    names = VARIABLES_BY_PROVIDER.get(provider, ())
    secret_names = (name for name in os.environ if is_secret_name(name) and name not in _NOT_SECRET)
    return secrets_in_environment(names or secret_names, os.environ)
