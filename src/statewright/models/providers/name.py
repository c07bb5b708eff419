"""Names of models: a provider, a colon, and the provider's name for the model."""

from __future__ import annotations

from typing import NamedTuple

from statewright.errors import ModelError, suggestion
from statewright.models.providers.keys import VARIABLES_BY_PROVIDER


class ModelName(NamedTuple):
    """A provider, and its name for a model."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}:{self.model}"


def parse_name(name: str, *, base_url: str | None = None) -> ModelName:
    """Parse a name. With a base URL, a name without a provider is one for OpenAI's chat completions.

    Raises ModelError for an unknown provider.
    """
    provider, colon, model = name.partition(":")
    if colon and model and is_provider(provider):
        return ModelName(provider, model)
    if base_url and name and not (colon and not model):
        return ModelName("openai-chat", name)
    if not colon or not model:
        raise ModelError(
            f"The model {name!r} has no provider. Write provider:model, such as 'openai:gpt-5'; "
            f"or pass base_url for a server that speaks as OpenAI does."
        )
    known = suggestion(provider, VARIABLES_BY_PROVIDER, noun="Providers")
    raise ModelError(f"The model {name!r} is of the provider {provider!r}, which is not known. {known}")


def resolve_model_name(name: str, own: ModelName) -> str:
    """Return the name of another model of `own`'s provider. Raises ModelError for one of another provider."""
    provider, colon, model = name.partition(":")
    if not colon or not is_provider(provider):
        return name
    if provider == own.provider:
        return model
    raise ModelError(
        f"The request is for the model {name!r}, but this connection is to the provider {own.provider!r} "
        f"({str(own)!r}). Connect a model of {provider!r} of its own."
    )


def is_provider(name: str) -> bool:
    """Return True for the name of a provider, whether its library is installed or not."""
    from pydantic_ai.providers import infer_provider_class

    try:
        infer_provider_class(name)
    except ValueError:
        return False
    except ImportError:
        return True
    return True
