"""Names of secrets in every notation, and similar names that are harmless."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.redaction.names import SECRET_NAMES, SecretNames, split_words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("api_key", ("api", "key")),
        ("X-API-Key", ("x", "api", "key")),
        ("openAIApiKey", ("open", "ai", "api", "key")),
        ("token2", ("token", "2")),
        ("пароль_", ("пароль",)),
        ("", ()),
    ],
)
def test_a_name_is_split_into_words(name: str, words: tuple[str, ...]) -> None:
    assert split_words(name) == words


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "db.password",
        "PASSWORD_HASH",
        "apikey",
        "openai_apikey",
        "apiKey",
        "X-Api-Key",
        "access_token",
        "Set-Cookie",
        "clientSecret",
        "PRIVATE-KEY",
        "authorization",
        "sessionId",
        "ACCESSKEY",
    ],
)
def test_names_of_secrets_are_recognized(name: str) -> None:
    assert SecretNames().is_secret(name, "x")


@pytest.mark.parametrize(
    "name", ["tokenizer", "input_tokens", "key", "keyboard", "compass", "author", "monkey", "", "1"]
)
def test_similar_names_are_not_secret(name: str) -> None:
    assert not SecretNames().is_secret(name, "x")


def test_counts_are_not_secret_but_a_password_can_be_a_number() -> None:
    names = SecretNames()
    assert not names.is_secret("token_count", 12)
    assert names.is_secret("token_list", ["a"])
    assert names.is_secret("password", 1234)


@pytest.mark.parametrize("value", [None, True, False])
def test_none_and_booleans_are_not_secret(value: object) -> None:
    assert not SecretNames().is_secret("password", value)


def test_custom_names_match_in_every_notation() -> None:
    names = SecretNames(["iban", "tax number"])
    assert names.is_secret("customerIBAN", "x")
    assert names.is_secret("tax-number", "x")
    assert names.is_secret("taxnumber", "x")
    assert not names.is_secret("password", "x")


@given(st.sampled_from(SECRET_NAMES), st.sampled_from(["_", "-", ".", " "]), st.booleans())
def test_separators_and_case_do_not_matter(name: str, separator: str, upper: bool) -> None:
    written = separator.join(name.split())
    assert SecretNames().is_secret(written.upper() if upper else written, "x")
