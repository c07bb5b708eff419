"""The clock of the server in a process, whose own clock may be wrong, be set, or stand still for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from tests.interruptions import LONG
from tests.postgres_server import execute, shared_url

from statewright.clock import Clock, SystemClock, instant_of, microseconds, uses_system_timers
from statewright.errors import StorageUnavailable
from statewright.storage.postgres import PostgresCache, PostgresDatabase, PostgresLedger, PostgresSaver, PostgresStore
from statewright.storage.postgres.clock import INTERVAL, RETRY, SLOWED, Reading, ServerClock
from statewright.testing import FakeClock

SECOND = 1_000_000
HOUR = 3600 * SECOND
START = microseconds(datetime(2026, 1, 1, tzinfo=UTC))


class Machine(SystemClock):
    """The clock of a machine that is wrong by some microseconds."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> datetime:
        return instant_of(self._world.server_time + self._world.machine_error)


class World:
    """A server and a machine, with the time that passes for both."""

    def __init__(self, machine_error: int = 0, trip: int = 1000) -> None:
        self.server_time = START
        self.machine_error = machine_error
        self.elapsed = 5 * SECOND
        self.trip = trip
        """How long question and answer take together."""
        self.late = 0
        """How much longer the answer takes than the question."""
        self.is_down = False
        self.jobs: list[Callable[[], None]] = []
        self.readings = 0
        self.clock = ServerClock(
            self.read, self.read(), Machine(self), elapsed=lambda: self.elapsed, submit=self.jobs.append
        )

    def read(self) -> Reading:
        if self.is_down:
            raise StorageUnavailable("The server is down.")
        self.readings += 1
        sent = self.elapsed
        self.pass_time((self.trip - self.late) // 2)
        server = self.server_time
        self.pass_time((self.trip + self.late) // 2)
        return Reading(server, sent, self.elapsed)

    def pass_time(self, count: int) -> None:
        self.server_time += count
        self.elapsed += count

    def measure(self) -> None:
        """Do the jobs that the clock has submitted."""
        while self.jobs:
            self.jobs.pop()()

    @property
    def error(self) -> int:
        """The time of the clock minus that of the server."""
        return microseconds(self.clock.now()) - self.server_time


@pytest.mark.parametrize("machine_error", [-HOUR, 0, HOUR])
def test_the_time_is_that_of_the_server_even_if_the_clock_of_the_machine_is_wrong(machine_error: int) -> None:
    world = World(machine_error)
    for _ in range(100):
        world.pass_time(SECOND)
        assert abs(world.error) <= world.trip // 2
        world.measure()


def test_setting_the_clock_of_the_machine_does_not_change_the_time_and_has_it_measured_again() -> None:
    world = World()
    world.pass_time(2 * RETRY)
    world.machine_error = -HOUR
    assert abs(world.error) <= world.trip
    assert len(world.jobs) == 1
    world.measure()
    world.pass_time(2 * RETRY)
    assert abs(world.error) <= world.trip
    assert not world.jobs


def test_a_suspension_that_the_machine_does_not_count_is_corrected_at_once() -> None:
    world = World()
    world.pass_time(2 * RETRY)
    world.server_time += HOUR  # the clock of the machine goes on, too
    assert world.error < 0
    world.measure()
    assert abs(world.error) <= world.trip


@pytest.mark.parametrize("step", [-HOUR, -2 * SLOWED, 2 * SLOWED, HOUR])
def test_a_clock_of_the_server_that_was_set_is_followed_after_an_interval(step: int) -> None:
    world = World()
    world.server_time += step
    world.pass_time(INTERVAL)
    world.clock.now()
    world.measure()
    assert abs(world.error) <= world.trip


@pytest.mark.parametrize("step", [SLOWED, SLOWED // 2, 5000])
def test_the_time_never_goes_back_by_a_small_correction(step: int) -> None:
    world = World()
    world.pass_time(INTERVAL)
    world.server_time -= step
    times = [world.clock.now()]
    world.measure()
    for _ in range(50):
        times.append(world.clock.now())
        world.pass_time(step // 20)
        world.measure()
    assert all(earlier <= later for earlier, later in pairwise(times))
    assert abs(world.error) <= world.trip


def test_a_late_answer_does_not_make_the_time_wrong() -> None:
    world = World()
    world.pass_time(INTERVAL)
    world.trip, world.late = 4 * SECOND, 4 * SECOND
    world.clock.now()
    world.measure()
    assert abs(world.error) <= 2000


def test_the_first_answer_may_be_late_if_a_later_one_is_not() -> None:
    world = World(trip=2 * SECOND)
    world.trip = 1000
    world.pass_time(INTERVAL)
    world.clock.now()
    world.measure()
    assert abs(world.error) <= world.trip


def test_the_server_is_asked_once_an_interval_however_often_the_time_is_read() -> None:
    world = World()
    for _ in range(10_000):
        world.pass_time(INTERVAL // 1000)
        world.clock.now()
        world.measure()
    assert world.readings <= 1 + 10


def test_a_server_that_is_down_leaves_the_last_measurement_in_use() -> None:
    world = World(HOUR)
    world.is_down = True
    for _ in range(100):
        world.pass_time(INTERVAL)
        assert abs(world.error) <= world.trip
        world.measure()
    world.is_down = False
    world.server_time += 3 * SECOND
    world.pass_time(INTERVAL)
    world.clock.now()
    world.measure()
    assert abs(world.error) <= world.trip


def test_the_timers_are_those_of_the_system() -> None:
    assert uses_system_timers(World().clock)
    assert not uses_system_timers(FakeClock())


# -- with a server


class Shifted(SystemClock):
    def __init__(self, error: timedelta) -> None:
        self._error = error

    def now(self) -> datetime:
        return super().now() + self._error


def server_time(database: PostgresDatabase) -> datetime:
    return database.query(
        lambda connection: instant_of(connection.execute("SELECT current_microseconds()").fetchone()[0])
    )


@pytest.mark.parametrize("error", [timedelta(hours=-1), timedelta(hours=1)])
def test_a_database_and_all_that_is_stored_there_has_the_clock_of_the_server(error: timedelta) -> None:
    with PostgresDatabase(shared_url(), schema="clocks", clock=Shifted(error)) as database:
        for clock in (
            database.clock,
            PostgresSaver(database).clock,
            PostgresLedger(database).clock,
            PostgresStore(database).clock,
            PostgresCache(database).clock,
        ):
            before = server_time(database)
            assert timedelta(seconds=-1) < clock.now() - before < timedelta(seconds=60)
    execute(shared_url(), "DROP SCHEMA clocks CASCADE")


def test_the_server_is_asked_again_on_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    with PostgresDatabase(shared_url(), schema="clocks") as database:
        asked, threads = threading.Event(), list[int]()
        read = database._read_clock

        def read_clock(session: object) -> Reading:
            threads.append(threading.get_ident())
            reading = read(session)  # pyright: ignore[reportArgumentType]
            asked.set()
            return reading

        monkeypatch.setattr(database, "_read_clock", read_clock)
        clock = database.clock
        assert isinstance(clock, ServerClock)
        clock._tried_at -= INTERVAL
        clock.now()
        assert asked.wait(LONG)
        assert threads[0] != threading.get_ident()
    execute(shared_url(), "DROP SCHEMA clocks CASCADE")


def test_a_clock_that_a_test_moves_is_used_unchanged() -> None:
    clock: Clock = FakeClock()
    with PostgresDatabase(shared_url(), schema="clocks", clock=clock) as database:
        assert database.clock is clock
    with PostgresDatabase(
        shared_url(), schema="clocks", clock=(shifted := Shifted(timedelta())), trusts_clocks=True
    ) as database:
        assert database.clock is shifted
    execute(shared_url(), "DROP SCHEMA clocks CASCADE")
