"""Connecting to a Postgres server, or to the first usable one of several hosts.

libpq goes through the hosts of an address by itself, but without a time limit: its non-blocking functions ignore
`connect_timeout`, so a host that does not answer, such as a machine that was switched off, would never be passed over.
Each address of each host is therefore an attempt of its own here, with its own limit.
"""

from __future__ import annotations

import os
import select
import time
from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_attempts, conninfo_to_dict, make_conninfo, timeout_from_conninfo


class ConnectionLost(Exception):  # the usual name
    """The session has ended, or could not be started, or its state is unknown."""

    def __init__(self, reason: str, *, was_sent: bool = False) -> None:
        super().__init__(reason)
        self.was_sent = was_sent
        """True if `COMMIT` was sent, so that the transaction may have been committed."""


class ConnectionFailed(ConnectionLost):
    """No session could be started."""


def connect(conninfo: bytes, timeout: float) -> pq.abc.PGconn:
    """Connect to the first host that has the role `target_session_attrs`, without holding the interpreter.

    `timeout` is in seconds and applies to each host, unless the address has a `connect_timeout`. Raises
    ConnectionFailed if no host could be used.
    """
    try:
        parts = conninfo_to_dict(conninfo.decode())
        timeout = _timeout_of(parts, timeout)
        attempts = conninfo_attempts(parts)
    except psycopg.Error as error:  # such as an unknown host name
        raise ConnectionFailed(str(error)) from error
    reasons: dict[str, None] = {}  # each only once
    for attempt in attempts:
        try:
            return _connect_to_host(make_conninfo("", **attempt).encode(), timeout)
        except ConnectionFailed as error:
            reasons[str(error)] = None
    raise ConnectionFailed("\n".join(reasons))


def _timeout_of(parts: dict[str, Any], default: float) -> float:
    """Return the timeout of an attempt in seconds: from the address or the environment, at least 2 as in libpq."""
    if "connect_timeout" in parts or "PGCONNECT_TIMEOUT" in os.environ:
        return timeout_from_conninfo(parts)
    return default


def _connect_to_host(conninfo: bytes, timeout: float) -> pq.abc.PGconn:
    deadline = time.monotonic() + timeout
    connection: pq.abc.PGconn = pq.PGconn.connect_start(conninfo)
    status = connection.status
    while status != pq.ConnStatus.BAD:
        match connection.connect_poll():
            case pq.PollingStatus.OK:
                return connection
            case pq.PollingStatus.READING:
                event = select.POLLIN
            case pq.PollingStatus.WRITING:
                event = select.POLLOUT
            case _:
                break
        poll = select.poll()
        poll.register(connection.socket, event)
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not poll.poll(remaining * 1000):
            address = f"{connection.host.decode()}:{connection.port.decode()}"
            connection.finish()
            raise ConnectionFailed(f"the server at {address} did not answer within {timeout:g} seconds")
    message = connection.get_error_message().strip()
    connection.finish()
    raise ConnectionFailed(message)
