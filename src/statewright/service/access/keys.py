"""API keys of workspaces: their scopes, their records, and authentication.

Only the hash of a key is stored. A key has 32 random bytes, so a hash without salt cannot be reversed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from statewright.async_futures import aresolve
from statewright.errors import Forbidden, InvalidRequest, RecordConflict, RequestConflict, Unauthorized, suggestion
from statewright.ids import new_checkpoint_id
from statewright.lru_cache import LRUCache
from statewright.runs import ApiKey, Delete, Insert, Ledger, Session, Update, where
from statewright.service.context.records import NEWEST_FIRST, find_first, get_in_workspace
from statewright.service.context.validation import validate_datetime, validate_limit, validate_string, validate_strings

ADMIN: Final = "admin"
"""Full access to the workspace of the key, and to nothing else."""
METRICS: Final = "metrics:read"
"""Read access to the metrics of the whole service."""
WORKERS_READ: Final = "workers:read"
"""Read access to the workers and the queues of the whole service."""
WORKERS_MANAGE: Final = "workers:manage"
"""Draining workers, and setting the limits of queues, which concern all workspaces."""
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
    METRICS,
    WORKERS_READ,
    WORKERS_MANAGE,
    ADMIN,
)
OPERATOR_SCOPES: Final = (METRICS, WORKERS_READ, WORKERS_MANAGE)
"""Scopes that extend beyond one workspace; `admin` does not include them."""


def check_scope(key: ApiKey, scope: str) -> None:
    """Raise Forbidden unless a key has a scope."""
    if scope not in key.scopes and (ADMIN not in key.scopes or scope in OPERATOR_SCOPES):
        raise Forbidden(
            f"The key {key.name!r} ({key.prefix}...) lacks the scope {scope!r}; it has {', '.join(key.scopes)}. "
            f"Use a key with that scope."
        )


def validate_scopes(names: Any) -> list[str]:
    """Return the scopes of a request without duplicates. Raises InvalidRequest for unknown scopes or an empty list."""
    scopes = validate_strings(names, "The scopes of a key")
    for scope in scopes:
        if scope not in SCOPES:
            raise InvalidRequest(f"Scope {scope!r} does not exist. {suggestion(scope, SCOPES, noun='Scopes')}")
    if not scopes:
        raise InvalidRequest(f"A key needs at least one scope. Scopes: {', '.join(SCOPES)}.")
    return scopes


# -- keys

KEY_PREFIX: Final = "stw_"
"""The prefix of every key, by which secret scanners recognize keys."""
_VISIBLE_LENGTH: Final = 12
"""Characters at the start of a key that are stored in plain text, to identify it."""
_MAX_KEY_LENGTH: Final = 100
"""In characters. Longer values cannot be keys, and are not hashed."""


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
    """Create a key. Return its record, and the key itself, which is not stored. Raises InvalidRequest.

    `requests_per_minute` is the rate limit of the key; None for no limit. A key without `expires_at` never expires.
    """
    from secrets import token_urlsafe

    if expires_at is not None and validate_datetime(expires_at, "The expiry of a key") <= now:
        raise InvalidRequest(f"The expiry of a key must be in the future, not {expires_at.isoformat()}.")
    key = KEY_PREFIX + token_urlsafe(32)
    record = ApiKey(
        id=f"key_{new_checkpoint_id()}",
        workspace_id=workspace_id,
        name=validate_string(name, "The name of a key"),
        digest=_hash(key),
        prefix=key[:_VISIBLE_LENGTH],
        scopes=validate_scopes(scopes),
        requests_per_minute=validate_limit(requests_per_minute, "The key's requests_per_minute"),
        expires_at=expires_at,
        created_at=now,
    )
    await aresolve(ledger.write([Insert(record)]))
    return record, key


async def list_keys(ledger: Ledger, workspace_id: str, *, limit: int | None = None, offset: int = 0) -> list[ApiKey]:
    """Return the keys of a workspace, including revoked ones, the newest first."""
    conditions = where(workspace_id=workspace_id)
    return list(await aresolve(ledger.find(ApiKey, conditions, order=NEWEST_FIRST, limit=limit, offset=offset)))


async def count_keys(ledger: Ledger, workspace_id: str) -> int:
    """Return the number of keys of a workspace, including revoked ones."""
    return await aresolve(ledger.count(ApiKey, where(workspace_id=workspace_id)))


async def revoke_key(ledger: Ledger, workspace_id: str, key_id: str, now: datetime) -> ApiKey:
    """Revoke a key, and end its sessions. Return its record, which is unchanged if the key is revoked already.

    A `KeyRing` may accept the key for a few more seconds. In the process of the key ring, `KeyRing.revoke` avoids that.
    Raises NotFound, and RequestConflict for the last key of a workspace that has the scope `admin`.
    """
    while True:
        key = await get_in_workspace(ledger, ApiKey, workspace_id, key_id, "key")
        if key.revoked_at is not None:
            return key
        guards = await _guard_other_admin(ledger, key, now)
        try:
            revocation = Update(ApiKey, key_id, {"revoked_at": now}, where(revoked_at=None))
            await aresolve(ledger.write([*guards, revocation, Delete(Session, where(key_id=key_id))]))
        except RecordConflict:  # this key or the other admin key was revoked concurrently
            continue
        return replace(key, revoked_at=now)


async def _guard_other_admin(ledger: Ledger, key: ApiKey, now: datetime) -> list[Update]:
    """Return a guard for the revocation of a key, which ensures that another admin key of its workspace remains.

    The guard refuses the write if that other key was revoked meanwhile. Without it, two concurrent requests could
    revoke the last two admin keys. The list is empty if the key is no longer valid or is not an admin key. Raises
    RequestConflict if there is no other admin key.
    """
    if ADMIN not in key.scopes or not is_valid_key(key, now):
        return []
    keys: Sequence[ApiKey] = await aresolve(ledger.find(ApiKey, where(workspace_id=key.workspace_id, revoked_at=None)))
    admins = [other for other in keys if other.id != key.id and ADMIN in other.scopes and is_valid_key(other, now)]
    if not admins:
        raise RequestConflict(
            f"The key {key.prefix}... is the last one with the scope {ADMIN!r} in its workspace, and is needed to "
            f"create further keys. Create another key with this scope first."
        )
    return [Update(ApiKey, admins[0].id, {"revoked_at": None}, where(revoked_at=None))]


def is_valid_key(key: ApiKey, now: datetime) -> bool:
    """Return True if a key is neither revoked nor expired at an instant."""
    return key.revoked_at is None and (key.expires_at is None or key.expires_at > now)


async def find_key(ledger: Ledger, key: str, now: datetime) -> ApiKey:
    """Return the record of a key. Raises Unauthorized for an unknown, revoked or expired key."""
    return check_key(await find_by_digest(ledger, digest_of(key)), now)


async def find_by_digest(ledger: Ledger, digest: str | None) -> ApiKey | None:
    """Return the record of the key with a digest; None if there is none."""
    if digest is None:
        return None
    from hmac import compare_digest

    key = await find_first(ledger, ApiKey, where(digest=digest))
    return key if key is not None and compare_digest(key.digest, digest) else None


def check_key(key: ApiKey | None, now: datetime) -> ApiKey:
    """Return a record if its key is valid at an instant. Raises Unauthorized if it is not, or for None."""
    if key is None:
        raise Unauthorized("The key is unknown. Check that it was copied completely, or create another one.")
    if key.revoked_at is not None:
        raise Unauthorized(f"The key {key.prefix}... was revoked. Use another one.")
    if key.expires_at is not None and key.expires_at <= now:
        raise Unauthorized(f"The key {key.prefix}... has expired. Create a new one.")
    return key


def digest_of(key: str) -> str | None:
    """Return the SHA-256 digest of a key in hexadecimal; None for a string that cannot be a key."""
    if not key.startswith(KEY_PREFIX) or not key.isascii() or len(key) > _MAX_KEY_LENGTH:
        return None
    return _hash(key)


def _hash(key: str) -> str:
    from hashlib import sha256

    return sha256(key.encode()).hexdigest()


# -- a cache of recently used keys, because of which a key that another process revokes stays valid for a few seconds

_MAX_CACHED_KEYS: Final = 1000
_CACHE_TIME: Final = timedelta(seconds=5)
"""The time for which a cached record is used."""


class KeyRing:
    """Finds keys like `find_key`, with a cache. Must be used from one event loop only."""

    def __init__(self, ledger: Ledger, *, max_keys: int = _MAX_CACHED_KEYS) -> None:
        self._ledger = ledger
        self._records: LRUCache[str | None, tuple[ApiKey, datetime]] = LRUCache(max_keys)
        """Records by digest, each with the time at which it was read."""
        self._invalidations = 0
        """The number of calls of `forget` so far. A record that was being read during such a call is not cached."""

    async def find(self, key: str, now: datetime) -> ApiKey:
        """Return the record of a key. Raises Unauthorized."""
        digest = digest_of(key)
        cached = self._records.get(digest)
        if cached is not None and abs(now - cached[1]) < _CACHE_TIME:
            return check_key(cached[0], now)
        invalidations = self._invalidations
        record = check_key(await find_by_digest(self._ledger, digest), now)
        if invalidations == self._invalidations:
            self._records.put(digest, (record, now))
        return record

    async def revoke(self, workspace_id: str, key_id: str, now: datetime) -> ApiKey:
        """Revoke a key like `revoke_key`, and remove it from the cache."""
        revoked = await revoke_key(self._ledger, workspace_id, key_id, now)
        self.forget(key_id)
        return revoked

    def forget(self, key_id: str) -> None:
        """Remove a key from the cache, so that its record is read again when it is next used."""
        self._invalidations += 1
        for digest, (key, _) in self._records.items():
            if key.id == key_id:
                self._records.pop(digest)
