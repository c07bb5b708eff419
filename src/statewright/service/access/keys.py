"""API keys of workspaces: their scopes, records, and authentication.

A key is 32 random bytes, so its plain hash reveals nothing about it; only the hash is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from statewright.async_futures import aresolve
from statewright.errors import Forbidden, InvalidRequest, RecordConflict, RequestConflict, Unauthorized, suggestion
from statewright.ids import draw_checkpoint_id
from statewright.lru_cache import LRUCache
from statewright.runs import ApiKey, Insert, Ledger, Order, Update, where
from statewright.service.context.records import find_first, get_own
from statewright.service.context.validation import instant, number, text, texts

ADMIN: Final = "admin"
"""Full access to the workspace of the key, and to nothing else."""
SCOPES: Final = (
    "runs:read",
    "runs:write",
    "definitions:read",
    "definitions:write",
    "approvals:decide",
    "threads:read",
    "threads:write",
    "webhooks:manage",
    "schedules:manage",
    "keys:manage",
    "events:send",
    "metrics:read",
    ADMIN,
)
METRICS: Final = "metrics:read"
_OPERATOR_SCOPES: Final = (METRICS,)
"""Scopes that reach beyond one workspace; `admin` does not include them."""


def check_scope(key: ApiKey, scope: str) -> None:
    """Raise Forbidden unless a key has a scope."""
    if scope not in key.scopes and (ADMIN not in key.scopes or scope in _OPERATOR_SCOPES):
        raise Forbidden(
            f"The key {key.name!r} ({key.prefix}...) may not do this: it lacks the scope {scope!r}, and has "
            f"{', '.join(key.scopes)}. Use a key that has it."
        )


def read_scopes(names: Any) -> list[str]:
    """Validate the scopes of a request, without duplicates. Raises InvalidRequest for none or unknown ones."""
    scopes = texts(names, "The scopes of a key")
    for scope in scopes:
        if scope not in SCOPES:
            raise InvalidRequest(f"Scope {scope!r} does not exist. {suggestion(scope, SCOPES, noun='Scopes')}")
    if not scopes:
        raise InvalidRequest(f"A key without scopes allows nothing. Scopes: {', '.join(SCOPES)}.")
    return scopes


# -- keys

BEGIN: Final = "stw_"
"""The prefix of every key, by which secret scanners recognise it."""
PREFIX_LENGTH: Final = 12
"""Characters of a key that are stored in plain text, to identify it."""
LONGEST_KEY: Final = 100
"""Characters. Longer values cannot be keys, and are not hashed."""


async def create_key(
    ledger: Ledger,
    workspace_id: str,
    name: str,
    scopes: Sequence[str],
    *,
    now: datetime,
    requests_per_minute: int | None = None,
    expires_at: datetime | None = None,
) -> tuple[ApiKey, str]:
    """Create a key. Return its record and the key itself, which is not stored. Raises InvalidRequest."""
    from secrets import token_urlsafe

    if expires_at is not None and instant(expires_at, "The end of a key") <= now:
        raise InvalidRequest(f"The key would be expired from the start: {expires_at.isoformat()} is in the past.")
    key = BEGIN + token_urlsafe(32)
    record = ApiKey(
        id=f"key_{draw_checkpoint_id()}",
        workspace_id=workspace_id,
        name=text(name, "The name of a key"),
        digest=_hash(key),
        prefix=key[:PREFIX_LENGTH],
        scopes=read_scopes(scopes),
        requests_per_minute=number(requests_per_minute, "The key's requests_per_minute"),
        expires_at=expires_at,
        created_at=now,
    )
    await aresolve(ledger.write([Insert(record)]))
    return record, key


async def list_keys(ledger: Ledger, workspace_id: str, *, limit: int | None = None, offset: int = 0) -> list[ApiKey]:
    """Return the keys of a workspace, including revoked ones, the newest first."""
    newest = Order("created_at", descending=True)
    conditions = where(workspace_id=workspace_id)
    return list(await aresolve(ledger.find(ApiKey, conditions, order=newest, limit=limit, offset=offset)))


async def count_keys(ledger: Ledger, workspace_id: str) -> int:
    """Return the number of keys of a workspace, including revoked ones."""
    return await aresolve(ledger.count(ApiKey, where(workspace_id=workspace_id)))


async def revoke_key(ledger: Ledger, workspace_id: str, key_id: str, now: datetime) -> ApiKey:
    """Revoke a key; the first time counts. Raises NotFound, and RequestConflict for the last key with the scope admin.

    A `KeyRing` may have it cached for some seconds; use `KeyRing.revoke` in its process.
    """
    while True:
        key = await get_own(ledger, ApiKey, workspace_id, key_id, "key")
        if key.revoked_at is not None:
            return key
        guards = await _guard_other_admin(ledger, key, now)
        try:
            await aresolve(ledger.write([*guards, Update(ApiKey, key_id, {"revoked_at": now}, where(revoked_at=None))]))
        except RecordConflict:  # one of the two keys was revoked meanwhile
            continue
        return replace(key, revoked_at=now)


async def _guard_other_admin(ledger: Ledger, key: ApiKey, now: datetime) -> list[Update]:
    """Return a guard that another admin key is not revoked. Raises RequestConflict if there is none.

    It keeps two concurrent requests from revoking the last two keys, each relying on the other key.
    """
    if ADMIN not in key.scopes or not is_open(key, now):
        return []
    keys: Sequence[ApiKey] = await aresolve(ledger.find(ApiKey, where(workspace_id=key.workspace_id, revoked_at=None)))
    admins = [other for other in keys if other.id != key.id and ADMIN in other.scopes and is_open(other, now)]
    if not admins:
        raise RequestConflict(
            f"The key {key.prefix}... is the last one with the scope {ADMIN!r} in its workspace: without it no "
            f"further key could be created. Create another one first."
        )
    return [Update(ApiKey, admins[0].id, {"revoked_at": None}, where(revoked_at=None))]


def is_open(key: ApiKey, now: datetime) -> bool:
    """Return True if a key opens its workspace at an instant: it is neither revoked nor expired."""
    return key.revoked_at is None and (key.expires_at is None or key.expires_at > now)


async def find_key(ledger: Ledger, key: str, now: datetime) -> ApiKey:
    """Return the record of a key. Raises Unauthorized if there is none, or it was revoked or has expired."""
    return checked_key(await look_up(ledger, digest_of(key)), now)


async def look_up(ledger: Ledger, digest: str | None) -> ApiKey | None:
    """Return the record of the key that has a hash; None if there is none."""
    if digest is None:
        return None
    from hmac import compare_digest

    key = await find_first(ledger, ApiKey, where(digest=digest))
    return key if key is not None and compare_digest(key.digest, digest) else None


def checked_key(key: ApiKey | None, now: datetime) -> ApiKey:
    """Return the record if it opens its workspace at an instant. Raises Unauthorized otherwise."""
    if key is None:
        raise Unauthorized("The key is unknown. Check that it was copied completely, or create another.")
    if key.revoked_at is not None:
        raise Unauthorized(f"The key {key.prefix}... was revoked. Use another.")
    if key.expires_at is not None and key.expires_at <= now:
        raise Unauthorized(f"The key {key.prefix}... has expired. Create a new one.")
    return key


def digest_of(key: str) -> str | None:
    """Return the SHA-256 of a key in hexadecimal digits; None for a text that cannot be a key."""
    if not key.startswith(BEGIN) or not key.isascii() or len(key) > LONGEST_KEY:
        return None
    return _hash(key)


def _hash(key: str) -> str:
    from hashlib import sha256

    return sha256(key.encode()).hexdigest()


# -- cache of recently used keys: a key that another process revokes stays valid for some seconds

MOST_KEYS: Final = 1000
FRESH: Final = timedelta(seconds=5)
"""The time for which a cached record is used."""


class KeyRing:
    """Finds keys like `find_key`, with a cache. To be used by one event loop."""

    def __init__(self, ledger: Ledger, *, most: int = MOST_KEYS, fresh: timedelta = FRESH) -> None:
        self._ledger = ledger
        self._fresh = fresh
        self._records: LRUCache[str | None, tuple[ApiKey, datetime]] = LRUCache(most)
        """Records by digest, with the time at which they were read."""
        self._invalidations = 0
        """Number of invalidations. A record that was read before one of them is not cached after it."""

    async def find(self, key: str, now: datetime) -> ApiKey:
        """Return the record of a key. Raises Unauthorized."""
        digest = digest_of(key)
        cached = self._records.get(digest)
        if cached is not None and abs(now - cached[1]) < self._fresh:
            return checked_key(cached[0], now)
        invalidations = self._invalidations
        record = checked_key(await look_up(self._ledger, digest), now)
        if invalidations == self._invalidations:
            self._records.put(digest, (record, now))
        return record

    async def revoke(self, workspace_id: str, key_id: str, now: datetime) -> ApiKey:
        """Revoke a key like `revoke_key`, and remove it from the cache."""
        revoked = await revoke_key(self._ledger, workspace_id, key_id, now)
        self.forget(key_id)
        return revoked

    def forget(self, key_id: str) -> None:
        """Remove a key from the cache, so that it is read again when it is used next."""
        self._invalidations += 1
        for digest, (key, _) in self._records.items():
            if key.id == key_id:
                self._records.pop(digest)
