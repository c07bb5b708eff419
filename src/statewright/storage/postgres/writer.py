"""The writing session of a process, and what becomes of a transaction whose session is lost.

*The problem.* If a session is lost after `COMMIT` was sent, the client does not know whether the transaction was
committed. Doing it again may conflict with itself, or happen twice; not doing it again may lose it. A server that
restarts, or a connection that is cut, should do neither to a run.

*The approach.* A process has a row in the table `writers`, and each transaction writes its number there. After a loss,
the process reads the number in a new session: if it is that of the transaction, this was committed, and otherwise it is
done again. Before that, the row is marked as ended, which waits for a transaction that is just being committed, and
makes one fail whose statements are still under way. Each number is written by the transaction itself, in the same round
trip, so the answer is right whichever way the session was lost.

The ids of rows are random, because a failover to a server that lacks the newest rows would give counted ids out again.

A row is replaced after `MAX_TRANSACTIONS`: while a long transaction, such as a dump, keeps old versions of rows from
being removed, an update has to pass those of its row.

*Patience.* A session that was lost is replaced within `PATIENCE` seconds, if the server can be reached again by
then. A restart of a server takes some seconds, and a lease expires after a minute.

*Results.* If the response to a commit was lost, so are the results of statements that were sent with it. Most are
numbers of new events and of deliveries, and sums of spending, which only save a look at the tables. But a claim says
which runs it has claimed. So the loss of that result is an error, after which a worker looks for its claimed runs.

*Rejected.* To ask whether the head is that of the commit: it would answer for commits, but not for claims, signals and
other changes of the ledger. To ask for the state of the transaction by its id (`pg_xact_status`): the client learns the
id in a round trip of its own, or with the result that was lost.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from statewright.storage.database import Statement
from statewright.storage.group_commit import RetryTransaction
from statewright.storage.postgres.connecting import ConnectionLost
from statewright.storage.postgres.connection import PostgresError, Session

T = TypeVar("T")
PATIENCE: Final = 15.0
"""The maximum time in seconds for replacing a lost session."""
MAX_ATTEMPTS: Final = 5
"""The maximum number of attempts at a job whose session is lost each time: it may be the job that ends the session."""
MAX_TRANSACTIONS: Final = 1000
"""The number of transactions after which a writer gets a new row."""
IDLE_LIMIT: Final = 60
"""Seconds after which the server ends a session that is waiting for the next statement of a transaction. A process that
is frozen in a transaction, or whose connection was cut, holds locks for no longer than this."""
_WRITER_ENDED: Final = "SW007"
_FIRST_PAUSE: Final = 0.05
_LAST_PAUSE: Final = 0.5


def connect_patiently(connect: Callable[[], T], is_closed: Callable[[], bool]) -> T:
    """Call `connect` until it succeeds. Raises its ConnectionLost after `PATIENCE` seconds, or when it is closed."""
    end = time.monotonic() + PATIENCE
    pause = _FIRST_PAUSE
    while True:
        try:
            return connect()
        except ConnectionLost:
            if is_closed() or time.monotonic() + pause > end:
                raise
        time.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(pause * 2, _LAST_PAUSE)


class SessionWriter:
    """Begins and commits the transactions of a process, one after another, in a session that is replaced if lost."""

    def __init__(self, connect: Callable[[], Session], sql: Mapping[str, str], is_closed: Callable[[], bool]) -> None:
        self._connect = connect
        self._sql = sql
        self._is_closed = is_closed
        self.session: Session | None = None
        self._lost_pid: int | None = None
        """The server's process of a session that was lost, until it has been ended."""
        self._is_down = False
        """True once the server was not reachable within `PATIENCE`, until it is reachable again."""
        self._id: int | None = None
        """The id of the row; None if there is none, or if it has ended."""
        self._previous_id: int | None = None
        """The id of a row to remove."""
        self._number = 0
        """The number of the last transaction."""

    def begin(self) -> Session:
        """Begin a transaction, and return its session.

        Raises ConnectionFailed if there is none after `PATIENCE`; at once if that was so before.
        """
        session = self._open_session()
        if self._id is None or self._number >= MAX_TRANSACTIONS:
            self._add_row(session)
        session.begin()
        return session

    def _open_session(self) -> Session:
        if self.session is None or self.session.has_ended():
            self._drop_session()
            self.session = self._connect_patiently(self._connect_again)
        else:
            self._end_lost_session(self.session)
        return self.session

    def _drop_session(self) -> None:
        if self.session is not None:
            self.session, self._lost_pid = None, self.session.backend_pid

    def _connect_again(self) -> Session:
        """Open a session, and end the lost one on the server, which may not know that it was lost."""
        session = self._connect()
        end = time.monotonic() + PATIENCE
        while not self._end_lost_session(session):
            if self._is_closed() or time.monotonic() > end:
                break  # `begin` tries again
            time.sleep(_FIRST_PAUSE)
        return session

    def _end_lost_session(self, session: Session) -> bool:
        """End the lost session on the server, if there is one. Return False if it is executing a statement.

        Then try again: only when it waits for its client, it is certain that the rest of the transaction will never
        come. Until it is ended it holds the locks of the transaction, which is repeated in another session.
        """
        if self._lost_pid is None:
            return True
        try:
            session.begin()
            row = session.execute(self._sql["terminate"], (self._lost_pid,)).fetchone()
            session.commit()
        except PostgresError:  # no permission
            session.rollback()
            row = None
        if row is not None and not row[0]:
            return False
        self._lost_pid = None
        return True

    def _connect_patiently(self, connect: Callable[[], T]) -> T:
        try:
            result = connect() if self._is_down else connect_patiently(connect, self._is_closed)
        except ConnectionLost:
            self._is_down = True
            raise
        self._is_down = False
        return result

    def _add_row(self, session: Session) -> None:
        previous = self._previous_id if self._id is None else self._id
        try:
            session.begin()
            new = session.execute(self._sql["add"], (previous,)).fetchone()[0]
            session.commit()
        except ConnectionLost as error:  # whether the row was added does not matter
            raise ConnectionLost(str(error)) from error
        self._id, self._previous_id, self._number = new, None, 0

    def commit(self) -> None:
        """Commit the transaction.

        If the session is lost, find out whether the transaction was committed. Raises ConnectionLost without `was_sent`
        if it was not, and with it if that cannot be found out, or a job needs the lost results of a transaction that
        was committed.
        """
        session, writer = self.session, self._id
        assert session is not None
        if not session.is_transaction_empty:
            self._number += 1
            session.send(Statement(self._sql["record"], (writer, self._number), translate=self._translate))
        needs_response = session.needs_response
        try:
            session.commit()
        except ConnectionLost as lost:
            if lost.was_sent and not self._was_committed(lost):
                raise ConnectionLost(str(lost)) from lost
            if not lost.was_sent or needs_response:
                raise

    def _translate(self, error: Exception) -> Exception | None:
        """If the row was removed or has ended, have the transaction repeated with another one."""
        if not isinstance(error, PostgresError) or error.code != _WRITER_ENDED:
            return None
        self._end()
        return RetryTransaction(str(error))

    def _end(self) -> None:
        self._id, self._previous_id = None, self._id

    def _was_committed(self, lost: ConnectionLost) -> bool:
        """Return whether the last transaction was committed. Afterwards it will not be. Raises `lost` if unknown."""

        def end_writer() -> int | None:
            self._drop_session()
            session = self.session = self._connect_again()
            session.begin()
            row = session.execute(self._sql["end"], (self._id,)).fetchone()
            session.commit()
            return row[0] if row is not None else None

        try:
            number = self._connect_patiently(end_writer)
        except (ConnectionLost, PostgresError, RetryTransaction):
            raise lost from None
        if number is None:
            raise lost
        was_committed = number == self._number
        self._end()
        return was_committed

    def rollback(self) -> None:
        if self.session is not None:
            self.session.rollback()

    def close(self) -> None:
        """Remove the row if the session is open, and end the session."""
        session, self.session = self.session, None
        if session is None:
            return
        try:
            if self._id is not None and not session.has_ended():
                session.begin()
                session.send(Statement(self._sql["remove"], (self._id,)))
                session.commit()
        except (ConnectionLost, PostgresError, RetryTransaction):
            pass  # another process will remove the row
        session.close()
