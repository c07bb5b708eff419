"""Sessions of the web page: a person signs in with a key, and the browser keeps a token instead of the key.

The browser must not keep the key, which scripts of the page could read and which is valid until someone revokes it. It
gets a random token in a cookie that scripts cannot read. The ledger stores the hash of the token and the id of the key,
so that every server of a database accepts it, and a copy of the database does not suffice to sign in.

A session is read for each request, and not cached: there are few such requests, and a session that has ended is refused
by all servers at once. It ends by signing out, with its key, and if it was not used for a while. The time of its last
use is written at most once a minute.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from statewright.async_futures import aresolve
from statewright.errors import RecordConflict, Unauthorized
from statewright.runs import ApiKey, Condition, Delete, Insert, Ledger, Session, Update, where
from statewright.service.access.keys import check_key, find_key, is_valid_key

LIFETIME: Final = timedelta(days=7)
"""The time after which a session ends even if it is used all the time."""
_USE_PRECISION: Final = timedelta(minutes=1)
"""The maximum difference between the last use and `used_at`."""
_TOKEN_LENGTH: Final = 43
"""The characters of a token: 32 random bytes in base 64."""


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A session with the record of its key."""

    session: Session
    key: ApiKey

    def expires_at(self, idle: timedelta) -> datetime:
        """Return the instant at which the session ends if it is no longer used."""
        ends = [self.session.used_at + idle, self.session.created_at + LIFETIME]
        return min(ends if self.key.expires_at is None else [*ends, self.key.expires_at])


async def open_session(ledger: Ledger, key: str, now: datetime, idle: timedelta) -> tuple[SignedIn, str]:
    """Begin a session with a key. Return it with its token, which is not stored. Raises Unauthorized.

    The sessions that have ended by their age are deleted.
    """
    from secrets import token_urlsafe

    record = await find_key(ledger, key, now)
    token = token_urlsafe(32)
    session = Session(
        id=_digest(token), key_id=record.id, workspace_id=record.workspace_id, created_at=now, used_at=now
    )
    expired = [Delete(Session, [Condition("used_at", "<", now - idle)])]
    await aresolve(ledger.write([*expired, Insert(session)]))
    return SignedIn(session, record), token


async def find_session(ledger: Ledger, token: str, now: datetime, idle: timedelta, *, uses: bool = True) -> SignedIn:
    """Return the session with a token, and its key. Raises Unauthorized if either is not valid (any more).

    The session counts as used, unless `uses` is False.
    """
    session = await aresolve(ledger.get(Session, _digest(token))) if len(token) == _TOKEN_LENGTH else None
    if session is None or not is_valid_session(session, now, idle):
        raise Unauthorized("The session has ended. Sign in again.")
    key = check_key(await aresolve(ledger.get(ApiKey, session.key_id)), now)
    if uses and abs(now - session.used_at) >= _USE_PRECISION:
        session = replace(session, used_at=now)
        try:
            await aresolve(ledger.write([Update(Session, session.id, {"used_at": now})]))
        except RecordConflict:
            raise Unauthorized("The session has just ended. Sign in again.") from None
    return SignedIn(session, key)


def is_valid_session(session: Session, now: datetime, idle: timedelta) -> bool:
    """Return whether a session was used recently enough, and is not too old."""
    return now - session.used_at < idle and now - session.created_at < LIFETIME


async def close_session(ledger: Ledger, token: str) -> str | None:
    """End the session with a token, if there is one. Return its id, or None for a text that cannot be a token."""
    if len(token) != _TOKEN_LENGTH:
        return None
    session_id = _digest(token)
    await aresolve(ledger.write([Delete(Session, where(id=session_id))]))
    return session_id


async def find_ended_sessions(ledger: Ledger, session_ids: list[str], now: datetime, idle: timedelta) -> set[str]:
    """Return the ids of those sessions that have ended, with their keys or by themselves."""
    sessions = await aresolve(ledger.find(Session, [Condition("id", "in", session_ids)]))
    key_ids = list({session.key_id for session in sessions})
    keys = await aresolve(ledger.find(ApiKey, [Condition("id", "in", key_ids)]))
    valid_keys = {key.id for key in keys if is_valid_key(key, now)}
    valid = {s.id for s in sessions if s.key_id in valid_keys and is_valid_session(s, now, idle)}
    return set(session_ids) - valid


def _digest(token: str) -> str:
    from hashlib import sha256

    return sha256(token.encode("utf-8", "replace")).hexdigest()
