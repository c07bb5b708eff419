"""The bell between processes: rings arrive elsewhere, in few notifications, and lost sessions are opened again."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from psycopg import pq
from tests.postgres_server import empty_database, shared_url

from statewright.runs.bell import Ring
from statewright.storage.postgres import PostgresDatabase
from statewright.storage.postgres.bell import BURST, INTERVAL, Pace, PostgresBell

PATIENCE = 60.0


class Listener:
    """Counts the rings that it hears."""

    def __init__(self, bell: PostgresBell) -> None:
        self._changed = threading.Condition()
        self.rings: list[Ring] = []
        self.end = bell.listen(self._add)

    def _add(self, kind: Ring) -> None:
        with self._changed:
            self.rings.append(kind)
            self._changed.notify_all()

    def wait_for(self, kind: Ring, count: int = 1) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.rings.count(kind) >= count, PATIENCE), self.rings


@pytest.fixture
def database() -> PostgresDatabase:
    return empty_database()


@pytest.fixture
def bells(database: PostgresDatabase) -> Iterator[list[PostgresBell]]:
    """Two bells of one schema, which listen."""
    bells = [PostgresBell(shared_url(), schema=database.schema) for _ in range(2)]
    yield bells
    for bell in bells:
        bell.close()


def connect_bells(sender: PostgresBell, receiver: PostgresBell) -> Listener:
    """Return a listener that hears the sender."""
    listener = Listener(receiver)
    while Ring.DUE not in listener.rings:  # both have sessions to open
        sender.ring(Ring.DUE)
        with listener._changed:
            listener._changed.wait(0.05)
    return listener


def test_a_ring_is_heard_in_other_processes_and_not_in_its_own(bells: list[PostgresBell]) -> None:
    own = Listener(bells[0])
    listener = connect_bells(*bells)
    bells[0].ring(Ring.EVENTS)
    listener.wait_for(Ring.EVENTS)
    bells[1].ring(Ring.EVENTS)
    own.wait_for(Ring.EVENTS)
    assert Ring.DUE not in own.rings


def test_a_ring_that_arrives_with_the_result_of_a_statement_is_heard(database: PostgresDatabase) -> None:
    class Interrupted(PostgresBell):
        """Is notified between two statements, so that it reads the notification together with a result."""

        def _execute(self, connection: pq.abc.PGconn, statement: str) -> None:
            super()._execute(connection, statement)
            if statement.startswith("NOTIFY"):
                notify = f"NOTIFY \"{self._channel}\", '{Ring.EVENTS}'"
                database.write(lambda session: session.execute(notify))
                super()._execute(connection, f'LISTEN "{self._channel}"')
                self._drain_wakeups()  # nothing else makes it look

    bell = Interrupted(shared_url(), schema=database.schema)
    try:
        listener = Listener(bell)
        bell.ring(Ring.DUE)
        listener.wait_for(Ring.EVENTS)
    finally:
        bell.close()


def test_many_rings_are_few_notifications_and_the_last_one_is_heard(bells: list[PostgresBell]) -> None:
    listener = connect_bells(*bells)
    before = listener.rings.count(Ring.DUE)
    for _ in range(20_000):
        bells[0].ring(Ring.DUE)
    listener.wait_for(Ring.DUE, before + 1)
    bells[0].ring(Ring.EVENTS)
    listener.wait_for(Ring.EVENTS)
    assert listener.rings.count(Ring.DUE) - before < 2000


def test_notifications_after_a_pause_are_sent_at_once_and_the_others_evenly() -> None:
    pace, now = Pace(), 1000.0
    for pause in (0.0, 60.0):
        now += pause
        for _ in range(BURST):
            assert pace.seconds_to_wait(now) <= 0
            pace.count(now)
        for _ in range(3):
            assert pace.seconds_to_wait(now) == pytest.approx(INTERVAL)
            now += pace.seconds_to_wait(now)
            pace.count(now)


def test_schemas_have_bells_of_their_own(bells: list[PostgresBell]) -> None:
    other = PostgresBell(shared_url(), schema="another")
    try:
        stranger = Listener(other)
        listener = connect_bells(*bells)
        bells[0].ring(Ring.EVENTS)
        listener.wait_for(Ring.EVENTS)
        assert stranger.rings == []
    finally:
        other.close()


def test_a_schema_has_one_bell_whether_it_is_named_or_the_default() -> None:
    named, unnamed = PostgresBell(shared_url(), schema="public"), PostgresBell(shared_url())
    try:
        connect_bells(named, unnamed)
        connect_bells(unnamed, named)
    finally:
        named.close()
        unnamed.close()


def test_a_lost_session_is_opened_again_and_its_listeners_look_for_themselves(
    database: PostgresDatabase, bells: list[PostgresBell]
) -> None:
    listener = connect_bells(*bells)
    before = listener.rings.count(Ring.EVENTS)
    end_sessions = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
    database.write(lambda connection: connection.execute(end_sessions).fetchall())
    listener.wait_for(Ring.EVENTS, before + 1)
    listener.rings.clear()
    while Ring.DUE not in listener.rings:
        bells[0].ring(Ring.DUE)
        with listener._changed:
            listener._changed.wait(0.05)


def test_a_listener_that_has_ended_hears_nothing(bells: list[PostgresBell]) -> None:
    listener = connect_bells(*bells)
    ended = Listener(bells[1])
    ended.end()
    bells[0].ring(Ring.EVENTS)
    listener.wait_for(Ring.EVENTS)
    assert ended.rings == []


RINGS_AFTER_FORK = """
import os, sys
from statewright.runs.bell import Ring
from statewright.storage.postgres.bell import BURST, INTERVAL, Pace, PostgresBell

bell = PostgresBell(sys.argv[1], schema=sys.argv[2])
bell._pending.add(Ring.EVENTS)  # as if the process was forked just before this was sent
if os.fork() == 0:
    bell.ring(Ring.EVENTS)
    sys.stdin.read()
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_rings_although_its_parent_was_about_to(
    database: PostgresDatabase, bells: list[PostgresBell]
) -> None:
    listener = connect_bells(*bells)
    command = [sys.executable, "-c", RINGS_AFTER_FORK, shared_url(), str(database.schema)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        try:
            listener.wait_for(Ring.EVENTS)
        finally:
            process.communicate()  # ends both
    assert process.returncode == 0


def test_a_bell_without_a_server_waits_for_it_and_can_be_closed(tmp_path_factory: pytest.TempPathFactory) -> None:
    bell = PostgresBell(f"host={tmp_path_factory.getbasetemp()} dbname=none", timeout=1)
    bell.listen(lambda _: None)
    bell.ring(Ring.DUE)
    bell.close()
    assert not any(thread.name == "statewright-bell" and thread.is_alive() for thread in threading.enumerate())
