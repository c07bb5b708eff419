"""How many databases, workers and servers a load needs: the utilisation law, worked out without a simulation.

Each run needs processor time of a server, of a worker and of its database. A resource is sized so that it is busy for a
part of the time (`target`), because what waits for a resource grows without limit as that approaches 1. Costs that
depend on the number of processes (notifications, sweeps, empty claims, heartbeats) are added from above: each process
rings as often as it may. So a plan is a little too large, and the simulation shows by how much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from benchmarks.scale.costs import Costs
from benchmarks.scale.load import RULES, Deployment, Load

SECOND = 1e3
"""Milliseconds."""
CONNECTIONS_BESIDE_READERS = 2
"""Sessions of a process: one that writes and one of the bell."""
MAX_SHARDS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A number of equal databases, each with its own processes."""

    shards: int
    deployment: Deployment
    """That of one database."""
    utilisation: Mapping[str, float]
    """The utilisation of one of them by the utilisation law, if the load is spread evenly."""
    in_flight: float
    """Runs that are advanced at once in one database, by Little's law."""

    @property
    def servers(self) -> int:
        return self.shards * self.deployment.servers

    @property
    def workers(self) -> int:
        return self.shards * self.deployment.workers

    @property
    def connections(self) -> int:
        """The maximum number of sessions of one database."""
        return self.deployment.processes * (CONNECTIONS_BESIDE_READERS + RULES.max_readers)


def divided(load: Load, shards: int) -> Load:
    """Return the load of one of several databases."""
    return replace(load, runs_per_second=load.runs_per_second / shards)


def run_cost(load: Load, costs: Costs) -> float:
    """Return the milliseconds of a database core that a run needs, if each write has a transaction of its own.

    Without claims, which many runs share, and without what the number of processes adds.
    """
    commits = 1 + load.supersteps
    return (
        costs.insert_db_cpu + commits * costs.superstep_db_cpu + (1 + commits) * costs.transaction_db_cpu
        + costs.claimed_run_db_cpu + costs.read_db_cpu
    )  # fmt: skip


def utilisations(load: Load, deployment: Deployment, costs: Costs) -> dict[str, float]:
    """Return the share of time in which each resource of one database is busy. Values above 1 mean overload.

    The lock of claims is left out: it is busy for as long as workers look for runs, and the busier it is, the more runs
    each claim finds.
    """
    rate, workers, servers = load.runs_per_second, deployment.workers, deployment.servers
    processes = deployment.processes
    rings = servers * min(1 / RULES.bell_interval, rate / servers) if deployment.has_bell else 0.0
    commits = rate * (1 + load.supersteps)
    event_rings = workers * min(1 / RULES.bell_interval, commits / workers) if deployment.has_bell else 0.0
    claim_seconds = (costs.claim_db_cpu + costs.transaction_db_cpu + costs.round_trip + costs.claim_cpu) / SECOND
    # A worker claims once for each ring, and once more in vain after a claim that found something; while it claims, it
    # is not woken again, and all wait for the lock of claims.
    claims = workers * min(rings + 1 / RULES.poll, 1 / claim_seconds) + min(rate, workers * rings + workers)
    claims = min(claims, SECOND / costs.claim_db_cpu if costs.claim_db_cpu else claims)
    in_flight = rate * load.run_seconds
    beat = workers / RULES.heartbeat
    beat_cost = (
        costs.heartbeat_db_cpu + in_flight * costs.heartbeat_run_db_cpu + workers * costs.heartbeat_worker_db_cpu
    )
    followed = load.followed * rate * load.run_seconds
    polls = min(event_rings, 10.0) * servers if followed >= 1 else 0.0
    # A server sweeps after its own requests, too. No process begins a sweep before the last one has ended.
    most_sweeps = SECOND / (costs.sweep_cpu + costs.sweep_db_cpu + costs.round_trip)
    worker_sweeps = min(rings, most_sweeps)
    server_sweeps = min(rings + rate / servers, most_sweeps * max(0.0, 1 - rate * costs.request_cpu / servers / SECOND))
    database = (
        rate * run_cost(load, costs)
        + claims * (costs.claim_db_cpu + costs.transaction_db_cpu + costs.read_db_cpu)
        + (rings + event_rings) * (costs.notify_db_cpu + processes * costs.notified_db_cpu)
        + (workers * worker_sweeps + servers * server_sweeps) * costs.sweep_db_cpu
        + beat * beat_cost
        + polls * followed / servers * costs.polled_run_db_cpu
        + load.followed * commits * costs.read_db_cpu
    )
    notified = (rings + event_rings) * costs.notified_cpu
    run = costs.run_cpu + load.supersteps * costs.superstep_cpu
    return {
        "server processes": (rate * costs.request_cpu / servers + server_sweeps * costs.sweep_cpu + notified) / SECOND,
        "worker processes": (
            rate * run / workers + claims / workers * costs.claim_cpu + worker_sweeps * costs.sweep_cpu + notified
        )
        / SECOND,
        "worker capacity": in_flight / (workers * deployment.capacity),
        "database cores": database / SECOND / deployment.cores,
    }


def plan(
    load: Load,
    costs: Costs,
    *,
    capacity: int = 100,
    cores: int = 8,
    target: float = 0.5,
    max_connections: int = 500,
    has_bell: bool = True,
) -> Fleet:
    """Return the smallest fleet of equal databases in which no resource is busier than the target.

    Raises ValueError if not even one run a second fits a database, since then more databases do not help.
    """
    if not 0 < target < 1:
        raise ValueError(f"The target is {target}, but must be between 0 and 1. Use 0.5, for example.")
    shards = 1
    while shards <= MAX_SHARDS:
        fleet = _plan_one(divided(load, shards), costs, capacity, cores, target, has_bell, shards)
        if max(fleet.utilisation.values()) <= target + 1e-9 and fleet.connections <= max_connections:
            return fleet
        if load.runs_per_second / shards < 1:
            break
        shards = max(shards + 1, ceil(shards * 1.02))
    raise ValueError(
        f"No number of databases with {cores} cores and {max_connections} connections is busy for at most {target:.0%} "
        f"with {load}. Raise the capacity of workers, the cores, the connections or the target."
    )


def _plan_one(load: Load, costs: Costs, capacity: int, cores: int, target: float, has_bell: bool, shards: int) -> Fleet:
    """Add servers and workers to one database until they are busy for at most the target, or adding does not help."""
    rate = load.runs_per_second
    in_flight = rate * load.run_seconds
    run = costs.run_cpu + load.supersteps * costs.superstep_cpu
    deployment = Deployment(
        servers=max(1, ceil(rate * costs.request_cpu / SECOND / target)),
        workers=max(1, ceil(rate * run / SECOND / target), ceil(in_flight / capacity / target)),
        capacity=capacity,
        cores=cores,
        has_bell=has_bell,
    )
    busy = utilisations(load, deployment, costs)
    for _ in range(50):
        servers, workers = deployment.servers, deployment.workers
        if busy["server processes"] > target:
            servers += 1
        if max(busy["worker processes"], busy["worker capacity"]) > target:
            workers += max(1, workers // 10)
        if (servers, workers) == (deployment.servers, deployment.workers):
            break
        deployment = replace(deployment, servers=servers, workers=workers)
        busy = utilisations(load, deployment, costs)
    return Fleet(shards=shards, deployment=deployment, utilisation=busy, in_flight=in_flight)
