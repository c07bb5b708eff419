"""A pool of sessions for reading."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from traceback import clear_frames

from statewright.storage.group_commit import RetryTransaction
from statewright.storage.postgres.connecting import ConnectionLost
from statewright.storage.postgres.connection import Session
from statewright.storage.postgres.writer import connect_patiently


class Readers:
    """Up to `limit` sessions, each of which one thread uses at a time. Sessions that have ended are replaced.

    With `waits`, a session waits up to `PATIENCE` seconds for a server that cannot be reached, unless it has already
    been unreachable for that long. Otherwise ConnectionLost is raised at once.
    """

    def __init__(
        self, connect: Callable[[], Session], limit: int, is_closed: Callable[[], bool], *, waits: bool
    ) -> None:
        self._connect = connect
        self._is_closed = is_closed
        self._waits = waits
        self._is_down = False
        """True once the server was not reachable within `PATIENCE`, until it is reachable again."""
        self._sessions: list[Session] = []
        """The open sessions that no thread is using."""
        self._free = threading.BoundedSemaphore(limit)

    @contextmanager
    def session(self) -> Generator[Session]:
        """Provide a session in a transaction that sees a consistent snapshot.

        Raises ConnectionLost, and PostgresError for an error of the server.
        """
        with self._free:
            session = self._open_session()
            try:
                session.begin("ISOLATION LEVEL REPEATABLE READ READ ONLY")
                yield session
                session.commit_later()
            except BaseException as error:
                clear_frames(error.__traceback__)
                session.rollback()
                if isinstance(error, RetryTransaction) and error.__cause__ is not None:
                    raise error.__cause__ from None
                raise
            finally:
                if self._is_closed() or not session.is_open:
                    session.close()
                else:
                    self._sessions.append(session)

    def _open_session(self) -> Session:
        try:
            if self._waits and not self._is_down:
                session = connect_patiently(self._reuse_or_connect, self._is_closed)
            else:
                session = self._reuse_or_connect()
        except ConnectionLost:
            self._is_down = True
            raise
        self._is_down = False
        return session

    def _reuse_or_connect(self) -> Session:
        while self._sessions:
            try:
                session = self._sessions.pop()
            except IndexError:  # another thread was faster
                break
            if not session.has_ended():
                return session
            session.close()
        return self._connect()

    def close(self) -> None:
        """End all sessions that no thread is using."""
        while self._sessions:
            self._sessions.pop().close()
