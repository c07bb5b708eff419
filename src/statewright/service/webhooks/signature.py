"""Signatures, by which a receiver verifies the sender, the content and the time of a message.

The header `statewright-signature` is `t=<seconds since 1970>,v1=<hex>`. The value of `v1` is the HMAC-SHA256 of the
time, a full stop and the body as received, with the whole secret, including `whsec_`, as the key. While a secret is
being replaced, there are two values of `v1`, one of which must be valid. The time is signed, too, so that an old
message cannot be replayed later.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from secrets import token_bytes
from typing import Any, Final, cast

from statewright.clock import SystemClock
from statewright.errors import InvalidConfig, Unauthorized
from statewright.runs import Json, Webhook
from statewright.service.webhooks.settings import WebhookSettings

SIGNATURE_HEADER: Final = "statewright-signature"
SECRET_PREFIX: Final = "whsec_"
_MAX_HEADER: Final = 4096
"""Maximum number of characters of the header that are read."""


def draw_secret() -> str:
    """Generate a secret from 32 random bytes."""
    return SECRET_PREFIX + urlsafe_b64encode(token_bytes(32)).decode().rstrip("=")


def sign(secrets: str | Sequence[str], body: bytes | str, *, at: datetime) -> str:
    """Return the signature header of a message, with a signature for each secret."""
    time = int(at.timestamp())
    signatures = (f"v1={_signature(secret, time, body)}" for secret in _as_list(secrets))
    return ",".join([f"t={time}", *signatures])


def verify(
    secrets: str | Sequence[str],
    header: str | None,
    body: bytes | str,
    *,
    tolerance: float = 300,
    now: datetime | None = None,
) -> None:
    """Raise Unauthorized unless a message was signed with one of the secrets, at most `tolerance` seconds ago.

    `body` must be the bytes as received, because JSON that was parsed and encoded again may differ. Within the
    tolerance, a message may arrive twice, with the same `id`.
    """
    time, signatures = _parse(header)
    # All secrets are compared with all signatures, in constant time, so that the duration reveals nothing.
    matches = [
        hmac.compare_digest(_signature(secret, time, body).encode(), signature.encode())
        for secret in _as_list(secrets)
        for signature in signatures
    ]
    if not any(matches):
        raise Unauthorized(
            "The message was not signed with this secret, or was altered in transit. Check the secret of the webhook, "
            "and that the body is passed exactly as it was received."
        )
    _check_age(time, (now or SystemClock().now()).timestamp(), tolerance)


def _signature(secret: str, time: int, body: bytes | str) -> str:
    data = body.encode() if isinstance(body, str) else body
    return hmac.new(secret.encode(), b"%d." % time + data, hashlib.sha256).hexdigest()


def _as_list(secrets: str | Sequence[str]) -> list[str]:
    """Return secrets as a list. Raises InvalidConfig if there are none, or one is empty."""
    values = [secrets] if isinstance(secrets, str) else list(secrets)
    if not values or not all(values):
        raise InvalidConfig("The secret is missing or empty. Give the secret of the webhook.")
    return values


def _parse(header: str | None) -> tuple[int, list[str]]:
    """Return the time and the signatures in a signature header. Raises Unauthorized."""
    if not header:
        raise Unauthorized(f"The message has no header {SIGNATURE_HEADER!r}, so its sender cannot be verified.")
    pairs = [part.strip().partition("=") for part in header[:_MAX_HEADER].split(",")]
    times = [value for name, _, value in pairs if name == "t"]
    signatures = [value for name, _, value in pairs if name == "v1"]
    if len(times) != 1 or not (times[0].isascii() and times[0].isdigit()) or len(times[0]) > 12 or not signatures:
        raise Unauthorized(
            f"The header {SIGNATURE_HEADER!r} is {header[:200]!r}, which is not of the form t=<seconds>,v1=<hex>."
        )
    return int(times[0]), signatures


def _check_age(time: int, now: float, tolerance: float) -> None:
    age = now - time
    if abs(age) > tolerance:
        offset = f"{age:.0f} s ago" if age > 0 else f"{-age:.0f} s in the future"
        raise Unauthorized(
            f"The message was signed {offset}; at most {tolerance:g} s are allowed. It may be a replay, or one of the "
            f"clocks may be wrong."
        )


# -- secrets in records: the current secret, and for some time after a rotation also the previous one


def secrets_of(webhook: Webhook, now: datetime) -> list[str]:
    """Return the secrets that sign messages at an instant, the current one first."""
    secret = webhook.secret
    if isinstance(secret, str):
        return [secret]
    secrets = cast("Mapping[str, Any]", secret)
    expiry = secrets.get("previousUntil")
    previous = [secrets["previous"]] if expiry is not None and now < datetime.fromisoformat(expiry) else []
    return [secrets["current"], *previous]


def rotated_secret(webhook: Webhook, now: datetime, settings: WebhookSettings) -> tuple[Json, str]:
    """Return the value of the column `secret` after a rotation, and the new secret."""
    secret = draw_secret()
    expiry = now + timedelta(seconds=settings.rotation)
    record = {"current": secret, "previous": secrets_of(webhook, now)[0], "previousUntil": expiry.isoformat()}
    return record, secret


def without_secret(webhook: Webhook) -> Webhook:
    """Return a copy of a record without its secret."""
    return replace(webhook, secret=None)
