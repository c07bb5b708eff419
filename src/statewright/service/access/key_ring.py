"""Cache of recently used keys, so that most requests need no read of the database.

A key that another process has revoked remains valid for some seconds; one that was revoked through this cache does not.
Only digests of keys are kept in memory."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Final

from statewright.runs import ApiKey, Ledger
from statewright.service.access.keys import checked_key, digest_of, look_up, revoke_key

MOST_KEYS: Final = 1000
FRESH: Final = timedelta(seconds=5)
"""How long a cached record is used."""


class KeyRing:
    """Finds keys like `find_key`, with a cache. To be used by one event loop."""

    def __init__(self, ledger: Ledger, *, most: int = MOST_KEYS, fresh: timedelta = FRESH) -> None:
        self._ledger = ledger
        self._most = most
        self._fresh = fresh
        self._known: OrderedDict[str | None, tuple[ApiKey, datetime]] = OrderedDict()
        self._forgotten = 0
        """Counts invalidations: a record that was read before one is not cached after it."""

    async def find(self, key: str, now: datetime) -> ApiKey:
        """Return the record of a key. Raises Unauthorized."""
        digest = digest_of(key)
        known = self._known.get(digest)
        if known is not None and abs(now - known[1]) < self._fresh:
            self._known.move_to_end(digest)
            return checked_key(known[0], now)
        before = self._forgotten
        found = checked_key(await look_up(self._ledger, digest), now)
        if before == self._forgotten:
            self._remember(digest, found, now)
        return found

    async def revoke(self, workspace_id: str, key_id: str, now: datetime) -> ApiKey:
        """Revoke a key like `revoke_key`, and know it no more."""
        revoked = await revoke_key(self._ledger, workspace_id, key_id, now)
        self.forget(key_id)
        return revoked

    def forget(self, key_id: str) -> None:
        """Read a key again when it is used next."""
        self._forgotten += 1
        for digest in [digest for digest, (key, _) in self._known.items() if key.id == key_id]:
            del self._known[digest]

    def _remember(self, digest: str | None, key: ApiKey, now: datetime) -> None:
        self._known[digest] = (key, now)
        self._known.move_to_end(digest)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
