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
    """A model of a provider, by name; nothing is sent before it is asked.

    `"openai:gpt-5"` is asked by the Responses API, `"openai-chat:gpt-5"` by chat completions; `"anthropic:..."`,
    `"google:..."` and every other prefix that pydantic-ai knows go to those providers. With `base_url`, a name without
    such a prefix is that of a model on a server which speaks as OpenAI's chat completions do.

    The key is `api_key`, or stands in the environment (OPENAI_API_KEY and the like). `timeout` is the time in seconds
    for one call where its request has none. `settings` are the settings of each request under pydantic-ai's names, such
    as `{"temperature": 0}`; what a request says wins. `http_headers` are sent with every call.

    Raises MissingApiKey without a key, and ModelError for an unknown provider or one whose library is not installed.
    """
    _require_library()
    parsed = parse_name(name, base_url=base_url)
    check_key(str(parsed), parsed.provider, api_key=api_key, base_url=base_url)
    with_all = {**(settings or {})}
    if timeout is not None:
        with_all.setdefault("request_timeout", timeout)
    if http_headers:
        with_all["extra_headers"] = {**with_all.get("extra_headers", {}), **http_headers}
    clients = Clients(parsed.provider, _provider_factory(parsed, base_url, api_key))
    _check_connection(parsed, clients)
    secrets = ProviderSecrets(parsed.provider, api_key=api_key, base_url=base_url, settings=with_all)
    return PydanticAIModel(parsed, clients, with_all, secrets=secrets, key_given=api_key is not None)


def _require_library() -> None:
    try:
        import pydantic_ai.direct  # pyright: ignore[reportUnusedImport]  # noqa: F401
    except ImportError as error:
        raise ModelError(missing_library("Models of providers need", error, "statewright[models]")) from error


def _provider_factory(name: ModelName, base_url: str | None, api_key: str | None) -> Callable[[], Provider[Any]]:
    """What makes a provider with its own client, as often as it is called. The class is loaded when it is called."""
    return partial(_make_provider, name, {"base_url": base_url, "api_key": api_key})


def _make_provider(name: ModelName, options: Mapping[str, str | None]) -> Provider[Any]:
    from pydantic_ai.providers import infer_provider_class

    kind = infer_provider_class(name.provider)
    taken = inspect.signature(kind).parameters
    given = {option: value for option, value in options.items() if value is not None}
    if "base_url" in given and "base_url" not in taken and "azure_endpoint" in taken:
        given["azure_endpoint"] = given.pop("base_url")
    for option in given:
        if option not in taken:
            raise ModelError(
                f"Model {str(name)!r}: the provider {name.provider!r} takes no {option}. "
                f"It is set up by the environment; leave {option} out."
            )
    return kind(**given)


def _check_connection(name: ModelName, clients: Clients) -> None:
    """Make the first client, so that what is wrong with it shows now."""
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
    ours = name.provider.split("-")[0] in _BUNDLED_VENDORS
    package = "statewright[models]" if ours else f"pydantic-ai-slim[{name.provider}]"
    cause = error.__cause__  # pydantic-ai wraps the error in advice of its own
    absent = cause if isinstance(cause, ImportError) else error
    return missing_library(f"Model {str(name)!r} needs", absent, package)
