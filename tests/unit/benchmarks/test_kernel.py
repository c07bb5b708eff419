"""The queues of the simulation wait as queueing theory says. Seeds are fixed, so results are the same everywhere."""

from __future__ import annotations

from math import factorial
from statistics import fmean, stdev

import pytest
from benchmarks.scale.kernel import BatchDevice, Mutex, Simulation, Station

SERVICE = 1.0
"""The mean time of a service."""
REQUESTS = 10_000
"""Requests of a simulation."""


def mean_wait(servers: int, utilisation: float, seed: int, *, is_constant: bool = False) -> float:
    """Simulate requests at random times, and return how long one waits on average."""
    simulation = Simulation(seed)
    random = simulation.random
    station = Station(simulation, servers)
    rate = servers * utilisation / SERVICE
    waits: list[float] = []

    def arrive(left: int) -> None:
        began = simulation.now
        demand = SERVICE if is_constant else random.expovariate(1 / SERVICE)
        station.serve(demand, lambda: waits.append(simulation.now - began - demand))
        if left:
            simulation.after(random.expovariate(rate), lambda: arrive(left - 1))

    arrive(REQUESTS)
    simulation.run(REQUESTS / rate * 2)
    return fmean(waits[REQUESTS // 10 :])  # the queue is empty at first


def assert_mean_wait(expected: float, servers: int, utilisation: float, *, is_constant: bool = False) -> None:
    """Compare the mean of several simulations with theory, within four standard errors, which must be small."""
    means = [mean_wait(servers, utilisation, seed, is_constant=is_constant) for seed in range(8)]
    error = stdev(means) / len(means) ** 0.5
    assert error < 0.06 * expected
    assert fmean(means) == pytest.approx(expected, abs=4 * error)


def erlang_c(servers: int, utilisation: float) -> float:
    """Return the mean wait of M/M/c."""
    offered = servers * utilisation
    last = offered**servers / factorial(servers) / (1 - utilisation)
    waits = last / (sum(offered**k / factorial(k) for k in range(servers)) + last)
    return waits * SERVICE / (servers * (1 - utilisation))


@pytest.mark.parametrize(("servers", "utilisation"), [(1, 0.3), (1, 0.7), (4, 0.6), (8, 0.7)])
def test_requests_wait_as_long_as_in_an_mmc_queue(servers: int, utilisation: float) -> None:
    assert_mean_wait(erlang_c(servers, utilisation), servers, utilisation)


def test_constant_services_halve_the_wait_of_one_server() -> None:
    assert_mean_wait(0.7 / 0.3 / 2, 1, 0.7, is_constant=True)


def test_a_batch_serves_all_who_came_before_it_began() -> None:
    simulation = Simulation(1)
    device = BatchDevice(simulation, 1.0)
    done: list[tuple[str, float]] = []
    for name, at in (("first", 0.0), ("second", 0.1), ("third", 0.9), ("late", 1.5)):
        simulation.after(at, lambda name=name: device.serve(lambda: done.append((name, round(simulation.now, 6)))))
    simulation.run(10)
    assert done == [("first", 1.0), ("second", 2.0), ("third", 2.0), ("late", 3.0)]
    assert (device.batches, device.served, device.busy_seconds) == (3, 4, 3.0)


def test_a_lock_is_granted_in_the_order_of_requests() -> None:
    simulation = Simulation(1)
    lock = Mutex(simulation)
    order: list[int] = []

    def hold(number: int) -> None:
        order.append(number)
        simulation.after(1.0, lock.release)

    for number in range(3):
        lock.acquire(lambda number=number: hold(number))
    simulation.run(10)
    assert order == [0, 1, 2]
    assert lock.held_seconds == 3.0


def test_events_at_the_same_time_happen_in_the_order_in_which_they_were_scheduled() -> None:
    simulation = Simulation(1)
    order: list[int] = []
    for number in range(5):
        simulation.after(1.0, lambda number=number: order.append(number))
    simulation.run(1.0)
    assert order == [0, 1, 2, 3, 4]


def test_a_debt_delays_only_the_next_request() -> None:
    simulation = Simulation(1)
    station = Station(simulation, 1)
    ends: list[float] = []
    station.owe(2.0)
    for _ in range(2):
        station.serve(1.0, lambda: ends.append(simulation.now))
    simulation.run(10)
    assert ends == [3.0, 4.0]
