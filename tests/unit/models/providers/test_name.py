"""Names of models."""

import pytest

from statewright.errors import ModelError
from statewright.models.providers.names import ModelName, is_provider, parse_name, resolve_model_name


def test_a_name_has_a_provider_and_a_model() -> None:
    assert parse_name("openai:gpt-5") == ModelName("openai", "gpt-5")
    assert str(parse_name("ollama:llama3:8b")) == "ollama:llama3:8b"


@pytest.mark.parametrize("name", ["llama", "llama3:8b"])
def test_a_bare_name_with_a_base_url_uses_chat_completions(name: str) -> None:
    assert parse_name(name, base_url="http://127.0.0.1:1") == ModelName("openai-chat", name)


def test_a_named_provider_is_kept_with_a_base_url() -> None:
    assert parse_name("anthropic:claude", base_url="http://127.0.0.1:1").provider == "anthropic"


def test_an_unknown_provider_gets_a_suggestion() -> None:
    with pytest.raises(ModelError, match=r"'antropic'.*Did you mean 'anthropic'\?.*google"):
        parse_name("antropic:claude")


@pytest.mark.parametrize("name", ["gpt-5", "openai:", ""])
def test_incomplete_names_are_rejected(name: str) -> None:
    with pytest.raises(ModelError, match="Write provider:model"):
        parse_name(name)


def test_incomplete_names_are_rejected_with_a_base_url_too() -> None:
    with pytest.raises(ModelError, match="Write provider:model"):
        parse_name("openai:", base_url="http://127.0.0.1:1")


def test_another_model_of_the_provider_may_be_named_with_or_without_it() -> None:
    connected = ModelName("openai", "gpt-5")
    assert [resolve_model_name(name, connected) for name in ("gpt-4.1", "openai:gpt-4.1", "ft:gpt")] == [
        "gpt-4.1",
        "gpt-4.1",
        "ft:gpt",
    ]


def test_a_model_of_another_provider_is_rejected() -> None:
    with pytest.raises(ModelError, match=r"'anthropic:claude'.*'openai'.*Connect"):
        resolve_model_name("anthropic:claude", ModelName("openai", "gpt-5"))


def test_providers_are_known_without_their_libraries() -> None:
    assert is_provider("groq")
    assert is_provider("openai")
    assert not is_provider("openay")
