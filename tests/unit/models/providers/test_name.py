"""Names of models."""

import pytest

from statewright.errors import ModelError
from statewright.models.providers.names import ModelName, is_provider, parse_name, resolve_model_name


def test_a_name_has_a_provider_and_a_model() -> None:
    assert parse_name("openai:gpt-5") == ModelName("openai", "gpt-5")
    assert str(parse_name("ollama:llama3:8b")) == "ollama:llama3:8b"


@pytest.mark.parametrize("name", ["llama", "llama3:8b"])
def test_with_an_own_address_a_bare_name_is_for_chat_completions(name: str) -> None:
    assert parse_name(name, base_url="http://127.0.0.1:1") == ModelName("openai-chat", name)


def test_a_provider_counts_with_an_own_address_too() -> None:
    assert parse_name("anthropic:claude", base_url="http://127.0.0.1:1").provider == "anthropic"


def test_an_unknown_provider_has_a_suggestion() -> None:
    with pytest.raises(ModelError, match=r"'antropic'.*Did you mean 'anthropic'\?.*google"):
        parse_name("antropic:claude")


@pytest.mark.parametrize("name", ["gpt-5", "openai:", ""])
def test_half_a_name_says_what_is_wanted(name: str) -> None:
    with pytest.raises(ModelError, match="Write provider:model"):
        parse_name(name)


def test_half_a_name_is_none_with_an_own_address_either() -> None:
    with pytest.raises(ModelError, match="Write provider:model"):
        parse_name("openai:", base_url="http://127.0.0.1:1")


def test_another_model_may_be_named_with_the_provider_or_without() -> None:
    own = ModelName("openai", "gpt-5")
    assert [resolve_model_name(name, own) for name in ("gpt-4.1", "openai:gpt-4.1", "ft:gpt")] == [
        "gpt-4.1",
        "gpt-4.1",
        "ft:gpt",
    ]


def test_another_provider_needs_a_connection_of_its_own() -> None:
    with pytest.raises(ModelError, match=r"'anthropic:claude'.*'openai'.*Connect"):
        resolve_model_name("anthropic:claude", ModelName("openai", "gpt-5"))


def test_a_provider_is_known_without_its_library() -> None:
    assert is_provider("groq")
    assert is_provider("openai")
    assert not is_provider("openay")
