"""A bell between the processes that share a Postgres database, by LISTEN and NOTIFY.

*The problem.* NOTIFY takes a lock of the whole server when its transaction commits, so commits with notifications are
done one after another: some hundreds a second, on any machine.

*The approach.* No transaction of a saver or ledger notifies. A thread with a session of its own sends notifications, at
most one in each `INTERVAL` on average, for all rings of a process meanwhile. After a pause, the first `BURST` are sent
at once, so that a process which starts some runs a second delays none of them. Its commits do not wait for the disk,
because the server does not keep notifications over a crash anyway. The same session listens. It does not go
through a pooler, which would assign it to another client after each transaction.

A session that is lost is opened again. Meanwhile rings are missed, so listeners are called then as if all had rung.
"""

from __future__ import annotations

import os
import random
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import psycopg
from psycopg import pq

from statewright.runs.bell import Ring
from statewright.storage.postgres.connecting import ConnectionLost, connect

INTERVAL: Final = 0.05
"""Seconds between two notifications of a process, on average."""
BURST: Final = 4
"""Notifications that are sent at once after a pause."""
_MAX_RETRY_DELAY: Final = 5.0
"""The longest pause, in seconds, before another attempt to connect."""
Callback = Callable[[Ring], object]


class Pace:
    """When a process may send notifications: `BURST` at once after a pause, and one in each `INTERVAL` otherwise."""

    def __init__(self) -> None:
        self._evenly = 0.0
        """When the next notification would be due if all were `INTERVAL` apart."""

    def seconds_to_wait(self, now: float) -> float:
        """Return the seconds until the next notification may be sent; zero or less if it may be sent now."""
        return self._evenly - (BURST - 1) * INTERVAL - now

    def count(self, now: float) -> None:
        """Count a notification that is sent now."""
        self._evenly = max(self._evenly, now) + INTERVAL


class PostgresBell:
    """Rings in other processes that use the same schema of a database. Its thread starts with the first use."""

    def __init__(self, conninfo: str, *, schema: str | None = None, timeout: float = 10.0) -> None:
        self._conninfo = conninfo.encode()
        self._schema = schema
        self._channel = ""
        """The name of the channel, known once there is a session, because the schema may be the default of the user."""
        self._timeout = timeout
        self._callbacks: list[Callback] = []
        self._start()

    def _start(self) -> None:
        """Create the state of this process: at first, and again in a forked process, which has no other threads."""
        self._pending: set[Ring] = set()
        """Rings that have not been sent. Those of a parent process are sent by it."""
        self._lock = threading.Lock()
        """Guards the callbacks, the pending rings, and the start of the thread."""
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._closed = False

    # -- any thread

    def ring(self, kind: Ring) -> None:
        """Notify other processes, at once or within `INTERVAL`."""
        self._start_after_fork()
        with self._lock:
            if kind in self._pending:
                return
            self._pending.add(kind)
            self._ensure_thread()
        self._wake()

    def listen(self, callback: Callback) -> Callable[[], None]:
        """Call a function, on the thread of the bell, whenever another process rings. Returns a function that ends it.

        The function must not wait, and must not raise.
        """
        self._start_after_fork()
        with self._lock:
            self._callbacks.append(callback)
            self._ensure_thread()

        def end() -> None:
            with self._lock, suppress(ValueError):
                self._callbacks.remove(callback)

        return end

    def close(self) -> None:
        """End the session. Rings that have not been sent are dropped."""
        self._closed = True
        if self._thread is None or self._pid != os.getpid():
            return
        self._wake()
        self._thread.join(self._timeout)
        if not self._thread.is_alive():
            self._wake_reader.close()
            self._wake_writer.close()

    def _start_after_fork(self) -> None:
        if self._pid != os.getpid():
            self._start()

    def _ensure_thread(self) -> None:
        if self._thread is None and not self._closed:
            self._wake_reader, self._wake_writer = socket.socketpair()
            self._wake_reader.setblocking(False)
            self._wake_writer.setblocking(False)
            self._thread = threading.Thread(target=self._work, name="statewright-bell", daemon=True)
            self._thread.start()

    def _wake(self) -> None:
        if self._thread is None:  # closed before it was used
            return
        with suppress(OSError):  # the buffer is full, so the thread will wake anyway; or the bell was closed
            self._wake_writer.send(b"!")

    # -- the thread of the bell

    def _work(self) -> None:
        delay = INTERVAL
        is_first = True
        while not self._closed:
            try:
                connection = connect(self._conninfo, self._timeout)
            except ConnectionLost:
                delay = min(delay * 2, _MAX_RETRY_DELAY)
            else:
                delay = INTERVAL
                with suppress(ConnectionLost, psycopg.Error):
                    self._channel = f"statewright {self._schema or self._read_schema(connection)}"
                    self._execute(connection, "SET synchronous_commit TO off")
                    self._execute(connection, f'LISTEN "{self._channel}"')
                    if not is_first:
                        self._report(*Ring)
                    is_first = False
                    self._serve(connection)
                connection.finish()
            if not self._closed:
                self._pause(delay * random.uniform(0.5, 1.0))

    def _serve(self, connection: pq.abc.PGconn) -> None:
        """Send and receive notifications until the bell is closed or the session lost."""
        pace = Pace()
        poll = select.poll()
        poll.register(connection.socket, select.POLLIN)
        poll.register(self._wake_reader, select.POLLIN)
        while not self._closed:
            # Before the poll: whatever came with the result of a statement has left the socket already.
            self._receive(connection)
            now = time.monotonic()
            remaining = pace.seconds_to_wait(now)
            if self._pending and remaining <= 0:
                pace.count(now)
                self._send(connection)
                continue
            poll.poll(max(1.0, remaining * 1000) if self._pending else None)
            self._drain_wakeups()
            connection.consume_input()

    def _send(self, connection: pq.abc.PGconn) -> None:
        with self._lock:
            kinds, self._pending = sorted(self._pending), set()
        try:
            for kind in kinds:
                self._execute(connection, f"NOTIFY \"{self._channel}\", '{kind}'")
        except BaseException:
            with self._lock:
                self._pending.update(kinds)
            raise

    def _receive(self, connection: pq.abc.PGconn) -> None:
        while (notification := connection.notifies()) is not None:
            if notification.be_pid != connection.backend_pid:
                with suppress(ValueError):  # of a newer version, whose kinds are unknown here
                    self._report(Ring(notification.extra.decode()))

    def _read_schema(self, connection: pq.abc.PGconn) -> str:
        """Return the schema in which tables are created that have no other."""
        name = connection.exec_(b"SELECT current_schema()").get_value(0, 0)
        return (name or b"").decode()

    def _execute(self, connection: pq.abc.PGconn, statement: str) -> None:
        result = connection.exec_(statement.encode())
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise ConnectionLost(result.get_error_message().strip())

    def _report(self, *kinds: Ring) -> None:
        with self._lock:
            callbacks = tuple(self._callbacks)
        for kind in kinds:
            for callback in callbacks:
                callback(kind)

    def _drain_wakeups(self) -> None:
        with suppress(BlockingIOError):
            while self._wake_reader.recv(4096):
                pass

    def _pause(self, seconds: float) -> None:
        """Wait for a time, or until the bell is closed."""
        end = time.monotonic() + seconds
        while not self._closed and (remaining := end - time.monotonic()) > 0:
            select.select([self._wake_reader], [], [], remaining)
            if not self._closed:
                self._drain_wakeups()
