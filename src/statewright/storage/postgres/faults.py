"""Addresses of Postgres databases, and conversion of errors of Postgres to StorageErrors."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from statewright.errors import (
    DamagedDatabase,
    InvalidConfig,
    SerdeError,
    StorageError,
    StorageFull,
    StorageLocked,
    StorageUnavailable,
)
from statewright.storage.postgres.connecting import ConnectionLost
from statewright.storage.postgres.connection import PostgresError

_DEFAULTS: Final = {
    "application_name": "statewright",
    # With these settings, a connection that was cut without notice is detected within about 20 seconds.
    "keepalives_idle": "10",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
"""Default parameters of connections, which those in the address override."""
_ENCODING: Final = "UTF8"
"""The encoding of texts that are sent and received, whatever the address and the environment say."""
_FULL: Final = "53100"
_LOCKED: Final = ("55P03", "40001", "40P01")
_CANCELLED: Final = "57014"
_UNSTORABLE: Final = ("22", "54")
"""Classes of errors about a value that cannot be stored: characters, or a text that is too long for an index."""
_DAMAGED: Final = ("XX001", "XX002")
_REMOVED: Final = "The schema was dropped while it was open. Restore it, and start again."
_REMEDIES: Final = {
    "25006": "Connect to the primary server, with target_session_attrs=read-write if there are several hosts.",
    "28000": "Check the user and the password in its address.",
    "28P01": "Check the user and the password in its address.",
    "3D000": "Create the database, or check its name in the address.",
    "42501": "Give this user permission to create and use tables in the schema.",
    "42883": _REMOVED,  # a function is missing
    "42P01": _REMOVED,  # a table is missing
    "53200": "Write less at once, or raise max_locks_per_transaction of the server.",
    "53300": "Raise max_connections of the server, lower `readers`, or use a pooler such as pgbouncer.",
}
"""Advice to the user, by SQLSTATE."""
_NO_CONNECTION_FREE: Final = ("too many clients", "remaining connection slots", "too many connections", "no more conn")
"""Parts of messages of servers and poolers that refuse a connection, for which libpq reports no SQLSTATE."""

_HARMLESS: Final = "invalid URI query parameter"


class ConnInfo(NamedTuple):
    """The address of a database."""

    text: str
    """The connection string for libpq."""
    public_url: str
    """The address without the password, for messages."""
    identity: tuple[str, ...]
    """The host, port and name, which are equal for addresses of the same database unless these are written differently.
    """


def parse_url(url: str) -> ConnInfo:
    """Return the address in a URL or a connection string. Raises InvalidConfig if it is not valid."""
    try:
        parts = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
        if not all(port.isdecimal() for port in parts.get("port", "5432").split(",")):
            raise ValueError
    except (psycopg.Error, ValueError) as error:
        message = str(error).strip()
        # Other messages of libpq may quote a part of the password.
        reason = message if message.startswith(_HARMLESS) else "it cannot be parsed, or its port is not a number"
        raise InvalidConfig(
            f"The address of the database is not valid: {reason}. Write a URL like postgresql://user@host:5432/name, "
            f"and in the user name and the password '@' as %40, '/' as %2F and '%' as %25."
        ) from None
    host, name = parts.get("host", ""), parts.get("dbname") or parts.get("user", "")
    port = parts.get("port", "5432")
    user = f"{quote(parts['user'], safe='')}@" if parts.get("user") else ""
    public_url = f"postgresql://{user}{host or 'local'}:{port}/{name}"
    return ConnInfo(
        make_conninfo(**{**_DEFAULTS, **parts, "client_encoding": _ENCODING}), public_url, (host, port, name)
    )


def is_unstorable(error: BaseException) -> bool:
    """Return whether an error is about a value that cannot be stored, rather than about the database."""
    if isinstance(error, PostgresError):
        return error.code.startswith(_UNSTORABLE)
    return isinstance(error, UnicodeEncodeError)


def translate_error(error: BaseException, location: str, *, is_read: bool = False) -> StorageError | None:
    """Return the StorageError for an error of the server or of the connection; None for other exceptions.

    Messages say that nothing was written, unless the operation only reads.
    """
    unchanged = "" if is_read else " Nothing was written."
    if isinstance(error, ConnectionLost):
        if error.was_sent:
            return StorageUnavailable(
                f"The connection to {location} was lost: {error}. It is not known whether this write was saved. Read "
                f"the stored data before you write it again."
            )
        message = _on_one_line(error)
        remedy = _REMEDIES["53300"] if any(part in message for part in _NO_CONNECTION_FREE) else ""
        return StorageUnavailable(f"The database {location} cannot be used: {message}.{unchanged} {remedy}".rstrip())
    if isinstance(error, UnicodeEncodeError):
        return SerdeError("a name", str(error))
    if isinstance(error, psycopg.Error):
        return StorageUnavailable(f"The database {location} cannot be used: {_on_one_line(error)}.")
    if not isinstance(error, PostgresError):
        return None
    if error.code == _FULL:
        return StorageFull(f"There is no space left for {location}: {error}.{unchanged} Free some space.")
    if error.code in _LOCKED:
        return StorageLocked(f"Other transactions have locked rows of {location}: {error}.{unchanged} Try again.")
    if error.code == _CANCELLED:
        return StorageLocked(
            f"A statement on {location} took too long or was cancelled, perhaps while it waited for locks: {error}."
            f"{unchanged} Try again, or raise statement_timeout of this user."
        )
    if is_unstorable(error):
        return SerdeError("a name or a value", f"{error}{unchanged and '. Nothing was written'}")
    if error.code in _DAMAGED:
        return DamagedDatabase(str(error), where=location)
    remedy = _REMEDIES.get(error.code, "")
    return StorageUnavailable(f"The database {location} cannot be used: {error}.{unchanged} {remedy}".rstrip())


def _on_one_line(error: BaseException) -> str:
    """Return a message of libpq without its hints, which are indented lines such as `Is the server running ...?`."""
    return "; ".join(
        " ".join(line.split()).rstrip(".") for line in str(error).splitlines() if not line.startswith("\t")
    )
