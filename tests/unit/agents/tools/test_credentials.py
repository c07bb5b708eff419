"""Credentials hide their values, and recognise their secrets in texts."""

from __future__ import annotations

import base64
import copy
import json
import pickle
from typing import Any
from urllib.parse import quote

import pytest

from statewright.agents import NO_CREDENTIALS, Credentials

SECRET = 'p"ss wörd/1'


def credentials(*secrets: str) -> Credentials:
    return Credentials("git", {"token": SECRET, "host": "h"}, frozenset(secrets or (SECRET,)))


def test_credentials_are_a_mapping() -> None:
    assert dict(credentials()) == {"token": SECRET, "host": "h"}
    assert (len(credentials()), credentials()["host"], "nope" in credentials()) == (2, "h", False)
    assert dict(NO_CREDENTIALS) == {}


def test_the_repr_of_credentials_shows_only_names() -> None:
    assert repr(credentials()) == "Credentials('git': token, host)"
    assert repr(NO_CREDENTIALS) == "Credentials('': nothing)"


@pytest.mark.parametrize("send", [pickle.dumps, copy.copy, copy.deepcopy])
def test_credentials_cannot_be_pickled_or_copied(send: Any) -> None:
    with pytest.raises(TypeError, match="not be stored or sent"):
        send(credentials())


@pytest.mark.parametrize(
    "encoded",
    [
        SECRET,
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        quote(SECRET, safe=""),
        quote(SECRET, safe="").lower(),
        base64.b64encode(SECRET.encode()).decode(),
        repr(SECRET),
    ],
)
def test_a_secret_is_found_in_every_encoding(encoded: str) -> None:
    text = f"before {encoded} after"
    assert credentials().appear_in(text)
    hidden = credentials().hidden_in(text)
    assert "***" in hidden
    assert hidden.startswith("before ")
    assert hidden.endswith(" after")
    assert not credentials().appear_in(hidden)


def test_secrets_are_hidden_in_json_values() -> None:
    value = {SECRET: [SECRET, {"deep": f"x{SECRET}x"}], "number": 3, "none": None}
    assert credentials().hidden_in(value) == {
        "***": ["***", {"deep": "x***x"}],
        "number": 3,
        "none": None,
    }


def test_the_longest_secret_is_hidden_first() -> None:
    assert credentials("secret", "secret-longer").hidden_in("secret-longer secret") == "*** ***"


def test_short_texts_are_not_hidden() -> None:
    short = Credentials("a", {"pin": "12345"}, frozenset({"12345", " ", ""}))
    assert short.hidden_in("12345 ") == "12345 "


def test_a_derived_secret_can_be_added() -> None:
    with_derived = credentials()
    with_derived.keep_secret("derived-token")
    assert with_derived.hidden_in("derived-token") == "***"
