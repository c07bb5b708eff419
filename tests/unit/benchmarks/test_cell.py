"""The promises of a simulated database: runs are served once, laws of queues hold, failures lose nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from benchmarks.scale.cell import Cell, percentile
from benchmarks.scale.costs import Costs, load_costs
from benchmarks.scale.load import Deployment, Load
from benchmarks.scale.plan import utilisations

COSTS, _ = load_costs()
SMALL = Deployment(servers=1, workers=2)
QUIET = Load(runs_per_second=40)
SLOW = Load(runs_per_second=20, node_seconds=1.0)


def finished(cell: Cell) -> Cell:
    """End the arrivals, and continue until nothing is left to do."""
    cell.end_arrivals()
    cell.run(120)
    return cell


def free_coordination() -> Costs:
    """Return costs in which processes do nothing for each other, and gain nothing by fewer, larger transactions."""
    names = ("transaction", "claim", "sweep", "heartbeat", "heartbeat_run", "heartbeat_worker", "notify", "notified")
    return replace(
        COSTS, claim_cpu=0, sweep_cpu=0, notified_cpu=0, **dict.fromkeys([f"{name}_db_cpu" for name in names], 0)
    )


@pytest.mark.parametrize(
    "load",
    [
        QUIET,
        replace(SLOW, followed=0.5),
        replace(QUIET, hot_threads=0.2),
        replace(QUIET, hot_workspace=0.5, workspace_limit=2),
    ],
    ids=["short", "slow and followed", "a hot thread", "a limit"],
)
def test_every_run_is_served_once(load: Load) -> None:
    cell = Cell(load, SMALL, COSTS)
    cell.run(10)
    started = finished(cell).total["started"]
    assert started > 100
    assert cell.total["completed"] == started
    assert cell.unfinished == cell.database.held_count == len(cell.database.due) == len(cell.database.claimed) == 0


def test_littles_law_holds() -> None:
    """The number in the system is the rate times the time in it: over a period that begins and ends empty, exactly."""
    cell = Cell(SLOW, SMALL, COSTS)
    cell.run(20)
    finished(cell)
    assert cell.in_flight_seconds == pytest.approx(cell.duration_sum)
    assert cell.duration_sum / cell.total["completed"] == pytest.approx(3.0, rel=0.15)  # three nodes of a second


def test_resources_are_as_busy_as_the_utilisation_law_says() -> None:
    """The law has the costs of coordination from above, so they are left out."""
    costs, load = free_coordination(), replace(QUIET, runs_per_second=100)
    deployment = Deployment(servers=2, workers=2, cores=1)
    cell = Cell(load, deployment, costs)
    cell.run(5)
    observed = cell.run(20)
    law = utilisations(replace(load, runs_per_second=observed.started / 20), deployment, costs)
    for name in ("server processes", "worker processes"):
        assert observed.utilisation[name] == pytest.approx(law[name], rel=0.05)
    # Writes that share a transaction save a part of what the law counts.
    assert 0.75 * law["database cores"] < observed.utilisation["database cores"] < 1.05 * law["database cores"]


def throughput(workers: int, costs: Costs) -> float:
    # A small capacity, so that the number of runs that have begun does not grow during the measurement.
    cell = Cell(Load(runs_per_second=1200), Deployment(servers=8, workers=workers, capacity=10, cores=2), costs)
    cell.run(1)
    return cell.run(2).completed / 2


def test_more_workers_never_lower_throughput_if_coordination_is_free() -> None:
    rates = [throughput(workers, free_coordination()) for workers in (1, 2, 4, 8)]
    assert all(more > 0.98 * fewer for fewer, more in pairwise(rates)), rates
    assert rates[1] > 1.8 * rates[0]  # as long as workers are what is missing


def test_the_same_seed_gives_the_same_results() -> None:
    def latencies(seed: int) -> list[float]:
        cell = Cell(replace(SLOW, followed=0.2), SMALL, COSTS, seed)
        cell.run(3)
        cell.lose_workers(0.5)
        return cell.run(5).latencies

    assert latencies(3) == latencies(3)
    assert latencies(3) != latencies(4)


def test_without_the_bell_runs_wait_for_a_poll() -> None:
    def median(has_bell: bool) -> float:
        cell = Cell(Load(runs_per_second=2), replace(SMALL, workers=1, has_bell=has_bell), COSTS)
        cell.run(2)
        return percentile(cell.run(60).latencies, 0.5)

    assert median(True) < 0.1
    assert 0.3 < median(False) < 0.8


def test_latency_grows_with_utilisation() -> None:
    def median(rate: float) -> float:
        cell = Cell(Load(runs_per_second=rate), Deployment(servers=4, workers=1), COSTS)
        cell.run(2)
        return percentile(cell.run(5).latencies, 0.5)

    low, overloaded = median(20), median(2000)
    assert overloaded > 5 * low


# -- failures


def test_runs_of_a_lost_worker_are_continued_after_its_lease() -> None:
    cell = Cell(SLOW, replace(SMALL, workers=4), COSTS)
    cell.run(10)
    assert cell.lose_workers(0.25) == 1
    observed = cell.run(60)
    interruptions = observed.interruptions
    assert 5 < len(interruptions) <= 100
    assert 20 < max(interruptions) < 45  # the lease of 30 seconds, a heartbeat of another worker, and a claim
    finished(cell)
    assert cell.total["completed"] == cell.total["started"]


def test_a_database_that_returns_has_lost_nothing() -> None:
    cell = Cell(SLOW, replace(SMALL, capacity=200), COSTS)
    cell.run(10)
    completed = cell.total["completed"]
    cell.lose_database(60)
    cell.run(59)
    assert cell.total["completed"] == completed
    finished(cell)
    assert cell.total["completed"] == cell.total["started"]


def test_a_short_failure_repeats_no_node() -> None:
    """Processes wait for fifteen seconds, and their leases are longer."""
    cell = Cell(SLOW, SMALL, COSTS)
    cell.run(10)
    cell.lose_database(5)
    observed = cell.run(60)
    assert observed.interruptions == []
    finished(cell)
    assert cell.total["completed"] == cell.total["started"]


def test_a_deploy_repeats_no_node_that_ends_in_time() -> None:
    cell = Cell(SLOW, replace(SMALL, workers=4), COSTS)
    cell.run(10)
    old = set(cell.workers)
    cell.deploy(at_once=1)
    observed = cell.run(120)
    assert old.isdisjoint(cell.workers)
    assert len(cell.workers) == 4
    assert observed.interruptions == []


# -- limits


def test_a_workspace_never_exceeds_its_limit() -> None:
    cell = Cell(replace(SLOW, hot_workspace=0.5, workspace_limit=3), SMALL, COSTS)
    pick, most = cell.database.pick, 0

    def watched(limit: int, worker: Any) -> Any:
        nonlocal most
        picked = pick(limit, worker)
        most = max(most, sum(run.is_hot for run in cell.database.claimed))
        return picked

    cell.database.pick = watched
    cell.run(30)
    assert most == 3
    assert cell.database.held_count > 0


def test_runs_of_one_thread_are_advanced_one_after_another() -> None:
    cell = Cell(Load(runs_per_second=10, node_seconds=0.5, hot_threads=1.0), SMALL, COSTS)
    observed = cell.run(60)
    assert 60 / 1.5 * 0.5 < observed.completed < 60 / 1.5 * 1.3
    assert cell.database.held_count > 300


def test_a_cell_without_workers_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a server and a worker"):
        Cell(QUIET, Deployment(servers=1, workers=0), COSTS)
