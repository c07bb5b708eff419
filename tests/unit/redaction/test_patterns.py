"""Patterns of secrets in text, and their running time on hostile text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.work import spend_at_most

from statewright.redaction import MARK, Redactor
from statewright.redaction.patterns import PATTERNS, is_card, replace_cards

SECRET = [
    ("password=hunter2 x", "password=[redacted] x"),
    ('{"password": "a b\'c", "x": 1}', '{"password": "[redacted]", "x": 1}'),
    (r"password='it\'s' x", "password='[redacted]' x"),
    (r"{\"api_key\": \"abc\", \"x\": \"y\"}", r"{\"api_key\": \"[redacted]\", \"x\": \"y\"}"),
    ("{'client_secret': 'x'}", "{'client_secret': '[redacted]'}"),
    ("Authorization: Basic abc==\nnext", "Authorization: [redacted]\nnext"),
    ("curl -H 'Authorization: Bearer abc'", "curl -H 'Authorization: [redacted]'"),
    ("set-cookie: a=b; c=d", "set-cookie: [redacted]"),
    ("a bearer abcdefgh123 here", "a bearer [redacted] here"),
    ("postgres://u:p@host/db", "postgres://[redacted]@host/db"),
    ("redis://:p@host", "redis://[redacted]@host"),
    ("eyJhbGciOi.eyJzdWIi.sig x", "[redacted] x"),
    ("sk-ant-api03-abcdef_ghijkl", MARK),
    ("sk_live_abcdefgh12", MARK),
    ("whsec_abcdef12", MARK),
    ("stw_abcdef123456.", "[redacted]."),
    ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", MARK),
    ("AKIAIOSFODNN7EXAMPLE", MARK),
    ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- after", "[redacted] after"),
    ("-----BEGIN PRIVATE KEY-----\ncut off", MARK),
    ("card 4111 1111 1111 1111 ok", "card [redacted] ok"),
    ("4111-1111-1111-1111", MARK),
    ("1 4111111111111111", "1 [redacted]"),
    ("2024 4111111111111111", "2024 [redacted]"),
]
HARMLESS = [
    "max_tokens=5",
    "the password is secret",
    "task-1234 skipped",
    "risk-averse-and-very-careful people",
    "https://example.com:8080/a@b",
    "4111 1111 1111 1112",
    "1700000000000000000",
    "0.4111111111111111",
    "550e8400-e29b-41d4-a716-446655440000",
    "an eyJ",
    "",
]
N = 30_000
HOSTILE = {
    "letters": "a" * N,
    "digits": "4" * N,
    "digits apart": "4 " * N + "a",
    "tokens": "eyJ" * N,
    "half tokens": "eyJa." * N,
    "no third part": "eyJa." + "b" * N,
    "names": "password=" * N,
    "open quotes": "password='password=\"" * N,
    "backslashes": "password" + "\\" * N,
    "names and backslashes": "password\\" * N,
    "escapes": 'password="' + "\\" * N,
    "escaped quotes": 'password="\\' * N,
    "keys that never end": "-----BEGIN PRIVATE KEY-----" * N,
    "addresses": "://a:" * N,
    "addresses without an end": "://a:b" * N,
    "headers": "authorization: \n" * N,
    "bearers": "bearer " * N,
    "beginnings": "sk-" * N,
    "emails": "a.a@a." * N,
    "spaces": "token" + " " * N,
}


@pytest.mark.parametrize(("text", "expected"), SECRET)
def test_secrets_are_hidden(text: str, expected: str) -> None:
    assert Redactor().text(text) == expected


@pytest.mark.parametrize("text", HARMLESS)
def test_other_text_is_unchanged(text: str) -> None:
    assert Redactor().text(text) == text


@pytest.mark.parametrize("text", [text for text, _ in SECRET])
def test_every_match_contains_a_needle_of_its_pattern(text: str) -> None:
    """A pattern is skipped if the text lacks its needles, so it must not match such a text."""
    for pattern in PATTERNS:
        assert pattern.regex.search(text) is None or pattern.may_match(text.casefold())


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.sampled(3)
def test_running_time_is_linear_in_the_length_of_the_text(text: str) -> None:
    """A quadratic pattern would take an hour here."""
    redactor = Redactor(emails=True)
    with spend_at_most():
        redactor.text(text)


@given(
    st.lists(st.sampled_from(["password", "=", '"', "'", "\\", "x", " ", "sk-", "abcdefghijkl", ":", "bearer ", MARK]))
)
def test_redacting_twice_changes_nothing_more(parts: list[str]) -> None:
    redactor = Redactor(emails=True)
    once = redactor.text("".join(parts))
    assert redactor.text(once) == once


@given(st.text(), st.text())
def test_a_key_is_hidden_at_any_position(before: str, after: str) -> None:
    key = "whsec_0123456789abcdef"
    assert key not in Redactor().text(f"{before} {key} {after}")


@given(st.integers(min_value=10**14, max_value=10**15 - 1).map(lambda number: f"4{number}"))
def test_exactly_one_check_digit_makes_a_card_number(prefix: str) -> None:
    cards = [f"{prefix}{digit}" for digit in range(10) if is_card(f"{prefix}{digit}")]
    assert len(cards) == 1
    assert replace_cards(f"a {cards[0]} b", MARK) == "a [redacted] b"
