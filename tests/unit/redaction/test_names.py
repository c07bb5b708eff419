"""Names of secrets, however they are written, and names that only sound like one."""

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
def test_a_name_is_its_words(name: str, words: tuple[str, ...]) -> None:
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
def test_names_of_secrets(name: str) -> None:
    assert SecretNames().is_secret(name, "x")


@pytest.mark.parametrize(
    "name", ["tokenizer", "input_tokens", "key", "keyboard", "compass", "author", "monkey", "", "1"]
)
def test_names_that_only_sound_like_one(name: str) -> None:
    assert not SecretNames().is_secret(name, "x")


def test_a_number_beside_a_secret_is_none_and_a_secret_may_be_a_number() -> None:
    names = SecretNames()
    assert not names.is_secret("token_count", 12)
    assert names.is_secret("token_list", ["a"])
    assert names.is_secret("password", 1234)


@pytest.mark.parametrize("value", [None, True, False])
def test_whether_there_is_a_secret_may_be_told(value: object) -> None:
    assert not SecretNames().is_secret("password", value)


def test_own_names_are_known_by_their_words_too() -> None:
    names = SecretNames(["iban", "tax number"])
    assert names.is_secret("customerIBAN", "x")
    assert names.is_secret("tax-number", "x")
    assert names.is_secret("taxnumber", "x")
    assert not names.is_secret("password", "x")


@given(st.sampled_from(SECRET_NAMES), st.sampled_from(["_", "-", ".", " "]), st.booleans())
def test_the_way_of_writing_does_not_matter(name: str, between: str, upper: bool) -> None:
    written = between.join(name.split())
    assert SecretNames().is_secret(written.upper() if upper else written, "x")
