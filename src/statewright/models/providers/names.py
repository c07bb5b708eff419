"""The names of models, the API keys of providers, and the secrets to mask in errors of providers.

The name of a model consists of the name of a provider, a colon, and the provider's name for the model. API keys are
passed as an argument or read from the environment. Headers, settings and the URL may contain other secrets, which
servers and proxies repeat in their errors. Environment variables are read when a model is connected and again at each
error, because clients that are created in the meantime read them too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from statewright.errors import MissingApiKey, ModelError, suggestion
from statewright.redaction import (
    Mask,
    is_secret_name,
    make_mask,
    secrets_in_environment,
    secrets_in_settings,
    secrets_in_url,
)

VARIABLES_BY_PROVIDER: dict[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "azure": ("AZURE_OPENAI_API_KEY",),
    "bedrock": (),
    "cerebras": ("CEREBRAS_API_KEY",),
    "cohere": ("CO_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "google-cloud": (),
    "groq": ("GROQ_API_KEY",),
    "huggingface": ("HF_TOKEN",),
    "mistral": ("MISTRAL_API_KEY",),
    "moonshotai": ("MOONSHOTAI_API_KEY",),
    "ollama": (),
    "openai": ("OPENAI_API_KEY",),
    "openai-chat": ("OPENAI_API_KEY",),
    "openai-responses": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "vllm": (),
    "xai": ("XAI_API_KEY",),
}
"""The known providers, with the environment variables that may have their API keys. A provider has no variables here if
it can be used without a key."""

_KEY_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9_]*_(?:KEY|TOKEN)\b")


def check_key(name: str, provider: str, *, api_key: str | None, base_url: str | None) -> None:
    """Raise MissingApiKey if a provider needs an API key and there is none.

    `name` is the name of the model. A server at a custom URL may not need a key, so none is required.
    """
    variables = VARIABLES_BY_PROVIDER.get(provider, ())
    custom_url = base_url or (provider.startswith("openai") and os.environ.get("OPENAI_BASE_URL"))
    if variables and not api_key and not custom_url and not any(os.environ.get(variable) for variable in variables):
        raise missing_key_error(name, variables)


def missing_key_error(name: str, variables: tuple[str, ...]) -> MissingApiKey:
    """Return the error for a model without an API key, which one of the environment variables could have."""
    variable_names = " or ".join(variables)
    return MissingApiKey(
        f"Model {name!r} needs an API key, but none was found. Set {variable_names} in the environment, or pass "
        f"api_key."
    )


def key_variables_in(text: str) -> tuple[str, ...]:
    """Return the names of environment variables for API keys that an error message mentions."""
    return tuple(dict.fromkeys(_KEY_VARIABLE.findall(text)))


# -- secrets

_NOT_SECRET: Final = frozenset({"PWD", "OLDPWD"})
"""Environment variables whose values are directories, although their names look like those of passwords."""


class ProviderSecrets:
    """The known secrets of one connection to a provider, to be masked in its errors."""

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
        """Return a function that masks these secrets, and those in a request's settings and URL, in a text."""
        values = (*secrets_in_settings(settings), *secrets_in_url(base_url), *_secrets_in_environment(self._provider))
        return make_mask((*self._values, *values))


def _secrets_in_environment(provider: str) -> Iterator[str]:
    """Return the API keys of a provider in the environment.

    If the provider's variables are unknown, return the values of all variables whose names are like those of secrets.
    """
    names = VARIABLES_BY_PROVIDER.get(provider, ())
    secret_names = (name for name in os.environ if is_secret_name(name) and name not in _NOT_SECRET)
    return secrets_in_environment(names or secret_names, os.environ)


# -- names of models


class ModelName(NamedTuple):
    """The name of a model: its provider, and the provider's name for it."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


def parse_name(name: str, *, base_url: str | None = None) -> ModelName:
    """Parse the name of a model. With a base URL, a name without a provider means OpenAI's chat completions.

    Raises ModelError if the provider is missing or unknown.
    """
    provider, colon, model = name.partition(":")
    if colon and model and is_provider(provider):
        return ModelName(provider, model)
    if base_url and name and not (colon and not model):
        return ModelName("openai-chat", name)
    if not colon or not model:
        raise ModelError(
            f"The model {name!r} has no provider. Write provider:model, such as 'openai:gpt-5'; "
            f"or pass base_url for a server that is compatible with OpenAI."
        )
    hint = suggestion(provider, VARIABLES_BY_PROVIDER, noun="Providers")
    raise ModelError(f"The model {name!r} has an unknown provider {provider!r}. {hint}")


def resolve_model_name(name: str, connected: ModelName) -> str:
    """Return the provider's name for the model that a request names, with or without the provider.

    `connected` is the model that was connected. Raises ModelError if the request names a model of another provider.
    """
    provider, colon, model = name.partition(":")
    if not colon or not is_provider(provider):
        return name
    if provider == connected.provider:
        return model
    raise ModelError(
        f"The request names the model {name!r}, but {str(connected)!r} is connected to the provider "
        f"{connected.provider!r}. Connect {name!r} separately."
    )


def is_provider(name: str) -> bool:
    """Return True if pydantic-ai has a provider with this name, even if the provider's library is not installed."""
    from pydantic_ai.providers import infer_provider_class

    try:
        infer_provider_class(name)
    except ValueError:
        return False
    except ImportError:
        return True
    return True
