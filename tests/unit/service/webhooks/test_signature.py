"""Signatures: their parts, and refused ones."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statewright.errors import InvalidConfig, Unauthorized
from statewright.service.webhooks import draw_secret, sign, verify

SECRET = "whsec_a"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
BODY = b'{"type":"workflow.completed"}'
TIME = int(NOW.timestamp())


def expected(secret: str, body: bytes, time: int = TIME) -> str:
    return hmac.new(secret.encode(), f"{time}.".encode() + body, hashlib.sha256).hexdigest()


def test_the_header_has_the_documented_form() -> None:
    assert sign(SECRET, BODY, at=NOW) == f"t={TIME},v1={expected(SECRET, BODY)}"
    assert sign(SECRET, "ü", at=NOW) == f"t={TIME},v1={expected(SECRET, 'ü'.encode())}"


def test_secrets_have_32_random_bytes() -> None:
    drawn = {draw_secret() for _ in range(100)}
    assert len(drawn) == 100
    assert {(len(item), item[:6]) for item in drawn} == {(49, "whsec_")}


@given(st.binary(max_size=200), st.text(min_size=1))
def test_only_signed_messages_are_valid(body: bytes, secret: str) -> None:
    header = sign(secret, body, at=NOW)
    verify(secret, header, body, now=NOW)
    with pytest.raises(Unauthorized):
        verify(secret, header, body + b"!", now=NOW)


def test_during_a_rotation_both_secrets_are_valid() -> None:
    header = sign(["whsec_new", "whsec_old"], BODY, at=NOW)
    assert header.count("v1=") == 2
    verify("whsec_old", header, BODY, now=NOW)
    verify("whsec_new", header, BODY, now=NOW)
    verify(["whsec_other", "whsec_old"], header, BODY, now=NOW)


@pytest.mark.parametrize("tolerance", [0, 10, 300])
def test_old_and_early_messages_are_refused(tolerance: int) -> None:
    header = sign(SECRET, BODY, at=NOW)
    for side in (1, -1):
        verify(SECRET, header, BODY, tolerance=tolerance, now=NOW + side * timedelta(seconds=tolerance))
        with pytest.raises(Unauthorized, match=r"signed .* s (ago|in the future)"):
            verify(SECRET, header, BODY, tolerance=tolerance, now=NOW + side * timedelta(seconds=tolerance + 1))


def test_the_time_is_that_of_the_machine_by_default() -> None:
    verify(SECRET, sign(SECRET, BODY, at=datetime.now(UTC)), BODY)
    with pytest.raises(Unauthorized, match="may be a replay"):
        verify(SECRET, sign(SECRET, BODY, at=datetime(2020, 1, 1, tzinfo=UTC)), BODY)


def test_a_new_time_on_an_old_message_is_refused() -> None:
    header = sign(SECRET, BODY, at=NOW).replace(f"t={TIME}", f"t={TIME + 1000}")
    with pytest.raises(Unauthorized, match="not signed with this secret"):
        verify(SECRET, header, BODY, now=NOW + timedelta(seconds=1000))


@pytest.mark.parametrize("body", [b"", BODY + b" ", BODY[:-1], BODY.upper(), b"." + BODY])
def test_a_changed_body_is_refused(body: bytes) -> None:
    with pytest.raises(Unauthorized, match="altered in transit"):
        verify(SECRET, sign(SECRET, BODY, at=NOW), body, now=NOW)


GOOD = expected(SECRET, BODY)


@pytest.mark.parametrize(
    "header",
    [
        None, "", "x", ",", "t=", f"t={TIME}", f"v1={GOOD}", f"t=,v1={GOOD}", f"t=-{TIME},v1={GOOD}",
        f"t= {TIME},v1={GOOD}", f"t={TIME}.0,v1={GOOD}", f"t=1_000,v1={GOOD}", f"t=٣,v1={GOOD}",
        f"t={'9' * 5000},v1={GOOD}", f"t={TIME},t={TIME},v1={GOOD}", f"t={TIME},v0={GOOD}", f"T={TIME},V1={GOOD}",
        f"t={TIME},v1=", f"t={TIME},v1={GOOD[:-1]}", f"t={TIME},v1={GOOD.upper()}", f"t={TIME},v1=ü",
        f"t={TIME},v1={'0' * 64}", f"t={TIME};v1={GOOD}",
    ],
)  # fmt: skip
def test_other_headers_are_refused(header: str | None) -> None:
    with pytest.raises(Unauthorized):
        verify(SECRET, header, BODY, now=NOW)


def test_unknown_schemes_are_ignored() -> None:
    header = f"t={TIME}, v2=abc, v1={'0' * 64}, v1={GOOD}"
    verify(SECRET, header, BODY, now=NOW)
    with pytest.raises(Unauthorized):
        verify(SECRET, header.removesuffix(f", v1={GOOD}"), BODY, now=NOW)


@pytest.mark.parametrize("secrets", ["", [], ["whsec_a", ""]])
def test_nothing_is_signed_or_verified_without_a_secret(secrets: list[str]) -> None:
    with pytest.raises(InvalidConfig, match="secret is missing"):
        sign(secrets, BODY, at=NOW)
    with pytest.raises(InvalidConfig, match="secret is missing"):
        verify(secrets, sign(SECRET, BODY, at=NOW), BODY, now=NOW)
