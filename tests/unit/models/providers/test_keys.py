"""Checks of API keys."""

import pytest

from statewright.errors import MissingApiKey
from statewright.models.providers.names import check_key, key_variables_in, missing_key_error


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def check(provider: str, *, api_key: str | None = None, base_url: str | None = None) -> None:
    check_key(f"{provider}:m", provider, api_key=api_key, base_url=base_url)


def test_a_missing_key_names_its_variables() -> None:
    with pytest.raises(MissingApiKey, match=r"'google:m' needs an API key.*GOOGLE_API_KEY or GEMINI_API_KEY"):
        check("google")


def test_an_empty_key_counts_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    with pytest.raises(MissingApiKey):
        check("openai", api_key="")


def test_a_key_is_given_or_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    check("openai", api_key="k")
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    check("google")


def test_a_key_is_optional_with_a_base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    check("openai-chat", base_url="http://127.0.0.1:1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
    check("openai-chat")


def test_keys_of_unknown_providers_are_not_checked() -> None:
    check("heroku")


def test_key_variables_are_found_in_error_messages() -> None:
    text = "Set the `HEROKU_INFERENCE_KEY` environment variable, HEROKU_INFERENCE_KEY, or `HF_TOKEN`; see X_URL"
    assert key_variables_in(text) == ("HEROKU_INFERENCE_KEY", "HF_TOKEN")
    assert "HF_TOKEN" in str(missing_key_error("a:b", key_variables_in(text)))
