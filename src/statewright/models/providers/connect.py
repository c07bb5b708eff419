"""`connect_model`: resolve a model name to a connected model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from statewright.errors import ModelError
from statewright.extras import missing_library
from statewright.models.providers.client import Clients
from statewright.models.providers.names import (
    ModelName,
    ProviderSecrets,
    check_key,
    key_variables_in,
    missing_key_error,
    parse_name,
)
from statewright.models.providers.pydantic_ai_model import PydanticAIModel

if TYPE_CHECKING:
    from pydantic_ai.providers import Provider

_BUNDLED_VENDORS = ("openai", "anthropic", "google")
"""The vendors whose libraries come with the extra `models`."""


def connect_model(
    name: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    timeout: float | None = None,
    settings: Mapping[str, Any] | None = None,
    http_headers: Mapping[str, str] | None = None,
) -> PydanticAIModel:
    """Return a model of a provider by name. Nothing is sent before its first call.

    `"openai:gpt-5"` uses the Responses API, `"openai-chat:gpt-5"` chat completions; `"anthropic:..."`, `"google:..."`
    and every other prefix that pydantic-ai supports go to those providers. With `base_url`, a name without a prefix is
    that of a model on a server that is compatible with OpenAI's chat completions.

    The key is `api_key`, or is read from the environment (OPENAI_API_KEY and the like). `timeout` is the timeout in
    seconds of a call whose request has none. `settings` are the settings of each request under pydantic-ai's names,
    such as `{"temperature": 0}`; those of a request override them. `http_headers` are sent with every call.

    Raises MissingApiKey without a key, and ModelError for an unknown provider or one whose library is not installed.
    """
    _require_library()
    parsed = parse_name(name, base_url=base_url)
    check_key(str(parsed), parsed.provider, api_key=api_key, base_url=base_url)
    merged_settings = {**(settings or {})}
    if timeout is not None:
        merged_settings.setdefault("request_timeout", timeout)
    if http_headers:
        merged_settings["extra_headers"] = {**merged_settings.get("extra_headers", {}), **http_headers}
    clients = Clients(parsed.provider, _provider_factory(parsed, base_url, api_key))
    _check_connection(parsed, clients)
    secrets = ProviderSecrets(parsed.provider, api_key=api_key, base_url=base_url, settings=merged_settings)
    return PydanticAIModel(parsed, clients, merged_settings, secrets=secrets, key_given=api_key is not None)


def _require_library() -> None:
    try:
        import pydantic_ai.direct  # pyright: ignore[reportUnusedImport]  # noqa: F401
    except ImportError as error:
        raise ModelError(missing_library("Models of providers need", error, "statewright[models]")) from error


def _provider_factory(name: ModelName, base_url: str | None, api_key: str | None) -> Callable[[], Provider[Any]]:
    """Return a function that creates a provider with a client of its own. Its class is loaded on the first call."""
    return partial(_make_provider, name, {"base_url": base_url, "api_key": api_key})


def _make_provider(name: ModelName, options: Mapping[str, str | None]) -> Provider[Any]:
    from pydantic_ai.providers import infer_provider_class

    kind = infer_provider_class(name.provider)
    accepted = inspect.signature(kind).parameters
    present = {option: value for option, value in options.items() if value is not None}
    if "base_url" in present and "base_url" not in accepted and "azure_endpoint" in accepted:
        present["azure_endpoint"] = present.pop("base_url")
    for option in present:
        if option not in accepted:
            raise ModelError(
                f"Model {str(name)!r}: the provider {name.provider!r} does not accept {option}. "
                f"It is set up by the environment; leave {option} out."
            )
    return kind(**present)


def _check_connection(name: ModelName, clients: Clients) -> None:
    """Create the first client, so that its errors are raised now."""
    from pydantic_ai.exceptions import UserError

    try:
        clients.prepare(name.model)
    except ImportError as error:
        raise ModelError(_missing_library(name, error)) from error
    except UserError as error:
        if variables := key_variables_in(str(error)):
            raise missing_key_error(str(name), variables) from error
        raise ModelError(f"Model {str(name)!r} cannot be connected: {error}") from error


def _missing_library(name: ModelName, error: ImportError) -> str:
    is_bundled = name.provider.split("-")[0] in _BUNDLED_VENDORS
    package = "statewright[models]" if is_bundled else f"pydantic-ai-slim[{name.provider}]"
    cause = error.__cause__  # pydantic-ai wraps the error in advice of its own
    missing = cause if isinstance(cause, ImportError) else error
    return missing_library(f"Model {str(name)!r} needs", missing, package)
