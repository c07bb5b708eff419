"""Which variables of the environment hold the keys of the providers. Keys come from there or from an argument, only."""

from __future__ import annotations

import os
import re

from statewright.errors import MissingKey

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
"""The providers that people know, with the variables that may hold their key; none where a key is not needed always."""

_KEY_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9_]*_(?:KEY|TOKEN)\b")


def check_key(name: str, provider: str, *, api_key: str | None, base_url: str | None) -> None:
    """Raise MissingKey where the provider needs a key and there is none. An own address may do without."""
    variables = VARIABLES_BY_PROVIDER.get(provider, ())
    elsewhere = base_url or (provider.startswith("openai") and os.environ.get("OPENAI_BASE_URL"))
    if variables and not api_key and not elsewhere and not any(os.environ.get(one) for one in variables):
        raise missing_key(name, variables)


def missing_key(name: str, variables: tuple[str, ...]) -> MissingKey:
    """The error for a model without a key."""
    named = " or ".join(variables)
    return MissingKey(
        f"Model {name!r} needs a key, and there is none. Set {named} in the environment, or pass api_key."
    )


def variables_in(text: str) -> tuple[str, ...]:
    """The variables for keys that a complaint of a provider's adapter names, each once."""
    return tuple(dict.fromkeys(_KEY_VARIABLE.findall(text)))
